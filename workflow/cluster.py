"""Nodes as Ray actors: the only room that knows Ray.

Every node has a process of its own. Ray's restarts are off: an actor that Ray restarts comes back
without its state, so the run itself replaces a lost node and gives it its state.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
import ray.exceptions

from workflow.errors import ConfigError, NodeLost
from workflow.graph import Call, Handle, arrange, flatten, process_facts

log = logging.getLogger(__name__)

POLL_S = 0.002  # between two looks at something that cannot wake us: ADIOS2 has no callback


class _Actor:
    """Hosts one node in a process of its own."""

    def __init__(self, factory: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        self.node = factory(**arguments)

    def about(self) -> dict[str, Any]:
        return process_facts()

    def invoke(self, method: str, wait_s: float, spans: Sequence[Any], *flat: Any) -> Any:
        arguments = arrange(flat, spans)
        bound = getattr(self.node, method)
        until = time.monotonic() + wait_s
        returned = bound(*arguments)
        while returned is None and time.monotonic() < until:
            time.sleep(POLL_S)
            returned = bound(*arguments)
        return returned


def start_ray(address: str | None, object_store_mb: int) -> None:
    """Join the cluster at `address`, or start Ray on this machine; ConfigError if it cannot be."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # nothing phones home
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {
            "_node_ip_address": "127.0.0.1",
            "include_dashboard": False,
            "object_store_memory": object_store_mb * 2**20,
            "num_cpus": os.cpu_count() or 1,
        }
    _keep_ray_quiet()
    try:
        ray.init(address=address or "local", **options)  # never somebody's that happens to be here
    except (ConnectionError, ValueError, RuntimeError) as e:
        raise ConfigError(
            f"cluster.address: cannot reach Ray at {address or 'this machine'}: {e}. "
            "Leave the address out to start Ray here."
        ) from e


def _keep_ray_quiet() -> None:
    """Ray prints a page on the driver's screen for an actor that dies; our journal has a line."""
    module = ray._private.worker
    if hasattr(module, "print_to_stdstream"):
        module.print_to_stdstream = lambda data, **_: log.debug("ray: %s", data)


class RayHost:
    """Starts Ray on this machine, or joins a cluster, and runs nodes as its actors."""

    def __init__(
        self,
        *,
        address: str | None,
        object_store_mb: int,
        cpus: Mapping[str, float],
        gpus: Mapping[str, float],
    ) -> None:
        self._cpus, self._gpus = cpus, gpus
        self._nodes: list[Handle] = []
        self._ours = not ray.is_initialized()
        if self._ours:
            start_ray(address, object_store_mb)

    def start(
        self, name: str, kind: str, factory: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> tuple[Handle, Call]:
        actor = (
            ray.remote(_Actor)
            .options(
                num_cpus=self._cpus.get(kind, 0),
                num_gpus=self._gpus.get(kind, 0),
                max_restarts=0,
                max_task_retries=0,
            )
            .remote(factory, dict(arguments))
        )
        node = Handle(name=name, kind=kind, engine=actor)
        self._nodes.append(node)
        return node, self.about(node)

    def about(self, node: Handle) -> Call:
        receipt = node.engine.about.remote()
        return Call(node=node, method="start", receipt=receipt, payloads=())

    def call(
        self, node: Handle, method: str, *arguments: Any, payloads: int = 0, wait_s: float = 0.0
    ) -> Call:
        flat, spans = flatten(arguments)
        remote = node.engine.invoke.options(num_returns=1 + payloads)
        refs = remote.remote(method, wait_s, spans, *flat)
        receipt, *rest = refs if payloads else (refs,)
        return Call(node=node, method=method, receipt=receipt, payloads=tuple(rest))

    def wait(self, calls: Sequence[Call], timeout_s: float) -> list[Call]:
        if not calls:
            time.sleep(min(timeout_s, 0.05))
            return []
        refs = [call.receipt for call in calls]
        done, _ = ray.wait(refs, num_returns=1, timeout=timeout_s)
        if done and len(refs) > 1:  # whatever else is there by now
            done, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        there = set(done)
        return [call for call in calls if call.receipt in there]

    def result(self, call: Call) -> Any:
        try:
            return ray.get(call.receipt)
        except ray.exceptions.RayTaskError as e:
            if isinstance(e.cause, ray.exceptions.RayActorError):  # of a payload's maker
                raise NodeLost(f"{call.node.name}: a payload is lost ({_why(e.cause)})") from e
            raise (e.cause if isinstance(e.cause, Exception) else e) from e
        except ray.exceptions.RayActorError as e:
            raise NodeLost(f"{call.node.name}: its process is gone ({_why(e)})") from e
        except ray.exceptions.RayError as e:  # out of memory, an object lost, a node gone
            raise NodeLost(f"{call.node.name}: {type(e).__name__} ({_why(e)})") from e

    def fetch(self, payload: Any) -> Any:
        try:
            return ray.get(payload) if isinstance(payload, ray.ObjectRef) else payload
        except ray.exceptions.RayError as e:
            raise NodeLost(f"a payload is lost ({_why(e)})") from e

    def keep(self, value: Any) -> Any:
        return ray.put(value)

    def kill(self, node: Handle) -> None:
        if node.pid is not None and node.host == socket.gethostname():
            try:
                os.kill(node.pid, signal.SIGKILL)  # a stopped process does not hear Ray
            except ProcessLookupError:
                log.debug("%s: its process %d is gone already", node.name, node.pid)
        ray.kill(node.engine, no_restart=True)

    def close(self) -> None:
        """End every node that was started here, and Ray itself if it was."""
        for node in self._nodes:
            ray.kill(node.engine, no_restart=True)
        if self._ours:
            ray.shutdown()


def _why(error: Exception) -> str:
    """The telling sentence of one of Ray's long messages."""
    text = " ".join(str(error).split())
    detail = text.partition("Worker exit detail: ")[2] or text
    return detail.partition(". ")[0][:200]
