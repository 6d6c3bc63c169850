"""Calls between nodes, whatever hosts them: one thread here, Ray actors in workflow/cluster.py.

A node is a class and its arguments, made where it runs; it knows nothing of remote calls. A call
returns at once. Its first value, the receipt, is small and comes to the caller; its other values,
the payloads, stay where they are and travel only as arguments of later calls, so that big arrays
never pass through the driver and outlive the node that made them.
"""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from workflow.errors import NodeLost


@dataclass(eq=False, kw_only=True)
class Handle:
    """A node that was started. `engine` is what its host needs to reach it."""

    name: str
    kind: str  # transform, shard, learner, reducer
    engine: Any = field(repr=False)
    pid: int | None = None
    host: str | None = None


@dataclass(eq=False, kw_only=True)
class Call:
    """A call under way or done."""

    node: Handle
    method: str
    receipt: Any = field(repr=False)
    payloads: tuple[Any, ...] = field(repr=False)
    made_at: float = field(default_factory=time.monotonic)  # [s]


@dataclass(frozen=True)
class Many:
    """A list argument whose items are payloads."""

    items: Sequence[Any]


@dataclass(frozen=True)
class Joined(Many):
    """One list argument, joined from payloads that are lists."""


def arrange(arguments: Sequence[Any], spans: Sequence[tuple[int, bool] | None]) -> list[Any]:
    """Arguments from flat ones; a span is (how many make one list, whether they are joined)."""
    items = iter(arguments)
    arranged: list[Any] = []
    for span in spans:
        if span is None:
            arranged.append(next(items))
            continue
        length, joined = span
        listed = [next(items) for _ in range(length)]
        arranged.append([x for part in listed for x in part] if joined else listed)
    return arranged


def flatten(arguments: Sequence[Any]) -> tuple[list[Any], list[tuple[int, bool] | None]]:
    """The inverse of `arrange`: payloads of list arguments beside the plain arguments."""
    flat: list[Any] = []
    spans: list[tuple[int, bool] | None] = []
    for argument in arguments:
        if isinstance(argument, Many):
            spans.append((len(argument.items), isinstance(argument, Joined)))
            flat.extend(argument.items)
        else:
            spans.append(None)
            flat.append(argument)
    return flat, spans


def process_facts() -> dict[str, Any]:
    """Of this process: pid, host and peak memory."""
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"pid": os.getpid(), "host": socket.gethostname(), "peak_bytes": peak_kib * 1024}


class Host(Protocol):
    """Starts nodes and carries calls to them."""

    def start(
        self, name: str, kind: str, factory: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> tuple[Handle, Call]:
        """A node, made where it runs; the call gives its {"pid", "host"} once it is there."""
        ...

    def call(
        self, node: Handle, method: str, *arguments: Any, payloads: int = 0, wait_s: float = 0.0
    ) -> Call:
        """Call a method. With `wait_s`, repeat it for so long while it returns None."""
        ...

    def about(self, node: Handle) -> Call:
        """Facts of the node's process: pid, host, peak_bytes of memory."""
        ...

    def wait(self, calls: Sequence[Call], timeout_s: float) -> list[Call]:
        """Those of the calls that are done, in the given order; all are waited for together."""
        ...

    def result(self, call: Call) -> Any:
        """The receipt of a call that is done; NodeLost if the node died, else what it raised."""
        ...

    def fetch(self, payload: Any) -> Any:
        """Bring a payload to the caller."""
        ...

    def keep(self, value: Any) -> Any:
        """Make a payload of a value of the caller's."""
        ...

    def kill(self, node: Handle) -> None:
        """Take a node down at once."""
        ...

    def close(self) -> None: ...


class InlineHost:
    """All nodes in the caller's thread; a call is done when it returns. Seeded runs repeat."""

    def __init__(self) -> None:
        self._dead: set[int] = set()

    def start(
        self, name: str, kind: str, factory: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> tuple[Handle, Call]:
        node = Handle(name=name, kind=kind, engine=factory(**arguments))
        return node, self.about(node)

    def about(self, node: Handle) -> Call:
        return Call(node=node, method="start", receipt=process_facts() | {"pid": None}, payloads=())

    def call(
        self, node: Handle, method: str, *arguments: Any, payloads: int = 0, wait_s: float = 0.0
    ) -> Call:
        if id(node) in self._dead:
            lost = _Raised(NodeLost(f"{node.name}: taken down"))
            return Call(node=node, method=method, receipt=lost, payloads=(lost,) * payloads)
        flat, spans = flatten(arguments)
        try:
            plain = arrange([self.fetch(a) for a in flat], spans)
            returned = getattr(node.engine, method)(*plain)
        except Exception as e:  # kept for `result`, as a remote host would
            return Call(
                node=node, method=method, receipt=_Raised(e), payloads=(_Raised(e),) * payloads
            )
        receipt, *rest = returned if payloads else (returned,)
        return Call(node=node, method=method, receipt=receipt, payloads=tuple(rest))

    def wait(self, calls: Sequence[Call], timeout_s: float) -> list[Call]:
        if not calls and timeout_s > 0:
            time.sleep(min(timeout_s, 0.005))
        return list(calls)

    def result(self, call: Call) -> Any:
        return self.fetch(call.receipt)

    def fetch(self, payload: Any) -> Any:
        if isinstance(payload, _Raised):
            raise payload.error
        return payload

    def keep(self, value: Any) -> Any:
        return value

    def kill(self, node: Handle) -> None:
        self._dead.add(id(node))

    def close(self) -> None:
        self._dead.clear()


@dataclass(frozen=True)
class _Raised:
    error: Exception
