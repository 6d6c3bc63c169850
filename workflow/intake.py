"""Intake: the transform actors of a run, the deal of boxes to them, and what came of it.

Every actor reads the whole stream's metadata. For each iteration the first actor to see it fixes
the deal (who is a member at that moment), so all actors agree without talking. An iteration is
handed on to replay, in order, when every box of it has come, was dropped, or is counted lost with
its reader. So the order of samples does not depend on which actor was faster.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from workflow import deal
from workflow.config import Transforms
from workflow.errors import BillowError, NodeLost
from workflow.graph import Call, Handle
from workflow.inbox import Driver
from workflow.ledger import Fate
from workflow.transit import BY_CHOICE
from workflow.types import Array, Box, Dropped, Key, StreamState

LOOK_S = 0.25  # how long an actor looks for a new iteration before it answers "nothing"


@dataclass
class Iteration:
    """One iteration under way through the transforms."""

    number: int
    ordinal: int  # the so-manyth that this run sees
    time_s: float
    held_out: bool
    waiting: dict[str, list[Box]]  # reader -> boxes dealt to it that are not accounted for
    shards: dict[int, int]  # box index -> shard
    packs: list[tuple[Any, ...]] = field(default_factory=list)  # payloads per shard + held out
    made: list[Key] = field(default_factory=list)
    moments: dict[Key, Mapping[str, Array]] = field(default_factory=dict)


@dataclass
class Reader:
    """A transform actor as the driver knows it."""

    name: str
    node: Handle
    host: str | None = None
    call: Call | None = None  # the one call under way
    seen: int = -1  # newest iteration it reported
    state: StreamState | None = None  # ENDED or PRODUCER_LOST, once it said so
    opened: bool = False
    left: bool = False


class Intake:
    """Drives the transform actors; `ready` fills with finished iterations, in order."""

    def __init__(
        self,
        driver: Driver,
        *,
        start: Callable[[str], tuple[Handle, Call]],
        transforms: Transforms,
        shards: int,
        held_out_every: int,
        open_deadline_s: float,
    ) -> None:
        self._host, self._inbox = driver.host, driver.inbox
        self._ledger, self._journal = driver.ledger, driver.journal
        self._restarts = driver.restarts
        self._start, self._open_deadline_s = start, open_deadline_s
        self._names = [f"transform-{i}" for i in range(transforms.count)]
        self._ahead, self._per_actor = transforms.ahead, transforms.boxes_per_actor
        self._silent_s = transforms.silent_s
        self._shards, self._held_out_every = shards, held_out_every
        self.readers: dict[str, Reader] = {}
        self.ready: deque[Iteration] = deque()
        self.iterations = self.received = self.spoilt = 0  # spoilt: boxes dropped, not by choice
        self.bytes = 0
        self.read_s = self.compute_s = 0.0
        self.stream = ""
        self.state: StreamState | None = None
        self.producer_state: StreamState | None = None  # as its process tells, once it is gone
        self._path = ""
        self._stalled_at: float | None = None
        self._away = False
        self._pending: dict[int, Iteration] = {}
        self._finished = -1  # newest iteration handed on

    # ------------------------------------------------------------ the stream

    def join(self, stream: str, path: str) -> None:
        """Send every actor to a stream; those that are not there yet are started."""
        self.stream, self._path = stream, path
        self.state, self.producer_state = StreamState.RUNNING, None
        self._away = self.iterations > 0
        self._finished = -1
        for name in self._names:
            if name not in self.readers:
                self._spawn(name)
            else:
                reader = self.readers[name]
                reader.seen, reader.state, reader.opened = -1, None, False
                if reader.call is None:
                    self._open(reader)

    def away(self) -> bool:
        """Whether a lost producer was restarted and has not sent anything yet."""
        return self._away

    def stalled_s(self) -> float:
        """For how long nothing new has come, if the stream is stalled. [s]"""
        return time.monotonic() - self._stalled_at if self._stalled_at is not None else 0.0

    def give_up(self) -> None:
        """Count a producer that is silent for too long as lost."""
        for reader in self.readers.values():
            self._passed(reader, None)
            reader.state = StreamState.PRODUCER_LOST
        self._say_state(StreamState.PRODUCER_LOST)
        self._hand_on()

    def leave(self) -> dict[str, Call]:
        """Have every actor leave the stream; answers to earlier calls are of no interest."""
        calls = {}
        for reader in self.readers.values():
            self._inbox.forget(reader.call)
            if not reader.opened:
                self._host.kill(reader.node)
            elif not reader.left:
                calls[reader.name] = self._host.call(reader.node, "close")
                reader.left = True
        return calls

    def over(self) -> bool:
        """Whether the stream has come to an end, of either kind, and all of it was handed on."""
        return self.state in (StreamState.ENDED, StreamState.PRODUCER_LOST) and not self._pending

    # ------------------------------------------------------------ one turn

    def turn(self) -> None:
        """Give idle actors something to do, if there is room for what they bring."""
        opened = [r for r in self.readers.values() if r.opened]
        if len(opened) < len(self.readers) and not self.iterations:
            return  # the first iteration is dealt when all are there
        for reader in opened:
            if reader.call is None and reader.state is None and self._room(reader):
                self._ask(reader, self._looked, "look", wait_s=LOOK_S)

    def watch(self) -> None:
        """Take down an actor that does not answer: a frozen reader stalls the simulation."""
        now = time.monotonic()
        for reader in list(self.readers.values()):
            if reader.call is None:
                continue
            starting = reader.call.method in ("start", "open")
            limit_s = self._silent_s + (self._open_deadline_s if starting else 0.0)
            if now - reader.call.made_at > limit_s:
                self.lose(reader, NodeLost(f"silent for more than {limit_s:g} s"))

    def lose(self, reader: Reader, error: BillowError) -> None:
        """An actor is gone: its boxes are counted lost, the survivors go on, it is replaced."""
        if self.readers.get(reader.name) is not reader:
            return  # it is replaced already
        del self.readers[reader.name]
        self._inbox.forget(reader.call)
        self._host.kill(reader.node)
        self._journal.write("transform/lost", node=reader.name, why=str(error))
        for iteration in self._pending.values():
            for box in iteration.waiting.pop(reader.name, []):
                self._lost(Key(self.stream, iteration.number, box.index), reader.name, str(error))
        self._hand_on()
        self._restarts.note(reader.name, str(error))
        if self.state in (StreamState.RUNNING, StreamState.STALLED):
            self._spawn(reader.name)
        self._stream_state()

    # ------------------------------------------------------------ inside

    def _room(self, reader: Reader) -> bool:
        """An actor may look on while what is finished, or waits for it, is not too much."""
        waits_for_it = any(reader.name in it.waiting for it in self._pending.values())
        return waits_for_it or len(self.ready) + len(self._pending) < self._ahead

    def _ask(
        self, reader: Reader, take: Callable[[Reader, Any], None], method: str, *arguments: Any,
        payloads: int = 0, wait_s: float = 0.0,
    ) -> None:  # fmt: skip
        call = self._host.call(reader.node, method, *arguments, payloads=payloads, wait_s=wait_s)
        self._expect(reader, take, call)

    def _expect(self, reader: Reader, take: Callable[[Reader, Any], None], call: Call) -> None:
        reader.call = self._inbox.expect(
            call, partial(take, reader), partial(self._failed, reader, call)
        )

    def _spawn(self, name: str) -> None:
        node, call = self._start(name)
        reader = self.readers[name] = Reader(name=name, node=node)
        self._expect(reader, self._started, call)

    def _started(self, reader: Reader, about: Mapping[str, Any]) -> None:
        reader.node.pid, reader.node.host = about["pid"], about["host"]
        reader.host = about["host"]
        self._journal.write(
            "transform/join", node=reader.name, pid=about["pid"], host=about["host"]
        )
        self._open(reader)

    def _open(self, reader: Reader) -> None:
        self._ask(reader, self._opened, "open", self.stream, self._path)

    def _opened(self, reader: Reader, answer: Mapping[str, Any]) -> None:
        reader.call, reader.opened = None, True

    def _failed(self, reader: Reader, call: Call, error: BillowError) -> None:
        """A call failed: the actor died, or it says in words why the stream cannot be opened."""
        reader.call = None
        first = not self.iterations and not isinstance(error, NodeLost)
        if first:
            raise error
        over = self.producer_state or self.state
        if call.method == "open" and over in (StreamState.ENDED, StreamState.PRODUCER_LOST):
            reader.state, reader.opened = over, True  # it came back to a stream that is over
            self._stream_state()
            return
        self.lose(reader, error)

    def _looked(self, reader: Reader, answer: Mapping[str, Any] | None) -> None:
        reader.call = None
        if answer is None:
            return
        if "iteration" in answer:
            self._found(reader, answer)
            return
        state = StreamState(answer["state"])
        if state is StreamState.STALLED:
            self._say_state(state)
        elif state is not StreamState.RUNNING:
            reader.state = state
            self._passed(reader, None)
            self._stream_state()

    def _found(self, reader: Reader, answer: Mapping[str, Any]) -> None:
        """The reader holds an iteration open: have it take what it was dealt of it."""
        self._say_state(StreamState.RUNNING)
        number = answer["iteration"]
        self._passed(reader, number)
        reader.seen = number
        iteration = self._pending.get(number)
        if iteration is None and number > self._finished:
            iteration = self._new_iteration(answer)
        mine = iteration.waiting.get(reader.name, []) if iteration is not None else []
        shards = iteration.shards if iteration is not None else {}
        held_out = iteration is not None and iteration.held_out
        self._ask(
            reader, self._took, "take", number, mine, shards, held_out, payloads=self._shards + 1
        )

    def _new_iteration(self, answer: Mapping[str, Any]) -> Iteration:
        boxes = sorted(answer["boxes"], key=lambda b: b.index)
        number = answer["iteration"]
        members = {r.name: r.host for r in self.readers.values() if r.opened and r.state is None}
        dealt = deal.boxes_to_readers(boxes, members)
        iteration = Iteration(
            number=number,
            ordinal=self.iterations,
            time_s=answer["time_s"],
            held_out=deal.is_held_out(self.iterations, self._held_out_every),
            waiting={n: mine[: self._per_actor] for n, mine in dealt.items() if mine},
            shards={
                box.index: deal.shard_of(self.stream, number, place, self._shards)
                for place, box in enumerate(boxes)
            },
        )
        self.iterations += 1
        self._away = False
        beyond = []
        for box in (box for mine in dealt.values() for box in mine[self._per_actor or len(mine) :]):
            key = Key(self.stream, number, box.index)
            self._ledger.received(key)
            beyond.append(
                Dropped(key=key, by=BY_CHOICE, reason="beyond transforms.boxes_per_actor")
            )
        self._dropped(beyond)
        self._pending[number] = iteration
        self._journal.write(
            "stream/iteration",
            step=number,
            value=len(boxes),
            stream=self.stream,
            time_s=iteration.time_s,
            held_out=iteration.held_out,
            deal={name: [b.index for b in dealt] for name, dealt in iteration.waiting.items()},
        )
        return iteration

    def _took(self, reader: Reader, receipt: Mapping[str, Any]) -> None:
        call, reader.call = reader.call, None
        assert call is not None
        self.bytes += receipt["bytes"]
        self.read_s += receipt["read_s"]
        self.compute_s += receipt["compute_s"]
        iteration = self._pending.get(reader.seen)
        if iteration is None or reader.name not in iteration.waiting:
            return
        for box in iteration.waiting.pop(reader.name):
            self._ledger_received(box, iteration, receipt)
        for key in receipt["made"]:
            self._ledger.transformed(key)
        self._dropped(receipt["dropped"])
        for key, why in receipt["lost"]:
            self._lost(key, reader.name, why)
        iteration.made += receipt["made"]
        iteration.moments |= receipt["moments"]
        iteration.packs.append(call.payloads)
        self._hand_on()

    def _ledger_received(self, box: Box, iteration: Iteration, receipt: Mapping[str, Any]) -> None:
        key = Key(self.stream, iteration.number, box.index)
        if key not in {lost for lost, _ in receipt["lost"]}:
            self._ledger.received(key)
            self.received += 1

    def _dropped(self, dropped: Sequence[Dropped]) -> None:
        """Enter dropped boxes into the ledger; the journal gets one line per reason."""
        by_reason: dict[tuple[str, str], list[Dropped]] = {}
        for item in dropped:
            self._ledger.end(item.key, Fate.DROPPED, by=item.by, why=item.reason)
            self.spoilt += item.by != BY_CHOICE
            by_reason.setdefault((item.by, item.reason), []).append(item)
        for (by, why), items in by_reason.items():
            self._journal.write(
                "frame/dropped",
                value=len(items),
                step=items[0].key.iteration,
                boxes=[item.key.box for item in items],
                stream=items[0].key.stream,
                by=by,
                why=why,
            )

    def _lost(self, key: Key, by: str, why: str) -> None:
        self._ledger.produced(key)  # its iteration was seen, so it was there
        self._ledger.end(key, Fate.LOST, by=by, why=why)
        self._journal.write(
            "frame/lost", step=key.iteration, box=key.box, stream=key.stream, by=by, why=why
        )

    def _passed(self, reader: Reader, number: int | None) -> None:
        """The reader is at `number` (None: at the end): what it was dealt before never came."""
        for iteration in self._pending.values():
            if number is None or iteration.number < number:
                for box in iteration.waiting.pop(reader.name, []):
                    key = Key(self.stream, iteration.number, box.index)
                    self._lost(key, reader.name, "the stream passed it over")
        self._hand_on()

    def _stream_state(self) -> None:
        """The stream is over when every reader says so; one broken view makes it broken."""
        states = {r.state for r in self.readers.values() if r.opened}
        if None in states or not states:
            return
        broken = StreamState.PRODUCER_LOST in states
        self._say_state(StreamState.PRODUCER_LOST if broken else StreamState.ENDED)

    def _say_state(self, state: StreamState) -> None:
        if state is not self.state:
            self.state = state
            self._stalled_at = time.monotonic() if state is StreamState.STALLED else None
            self._journal.write(
                "stream/state",
                value=state.value,
                stream=self.stream,
                last_iteration=max((r.seen for r in self.readers.values()), default=-1),
            )

    def _hand_on(self) -> None:
        """Move finished iterations to `ready`, oldest first."""
        while self._pending:
            oldest = min(self._pending)
            if self._pending[oldest].waiting:
                return
            self._finished = oldest
            self.ready.append(self._pending.pop(oldest))
