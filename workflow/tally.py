"""Events of a journal added up: what a view of a run shows. Never raises on what they contain."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from workflow.curve import Curve
from workflow.journal import Event, number

NOTES = 8  # last events that are shown
NOTED = ("learner", "node", "value", "signal")  # their fields that are


class Digests:
    """Whether learners hold equal weights, step by step. Remembers the last few steps only."""

    def __init__(self, steps: int = 8) -> None:
        self._steps = steps
        self._seen: dict[int, dict[str, str]] = {}  # step -> learner -> digest
        self.differ: int | None = None  # the first step at which they were not equal

    def add(self, step: int, learner: str, digest: str) -> None:
        self._seen.setdefault(step, {})[learner] = digest
        if len(set(self._seen[step].values())) > 1 and self.differ is None:
            self.differ = step
        while len(self._seen) > self._steps:
            del self._seen[min(self._seen)]

    def words(self) -> str:
        if self.differ is not None:
            return f"NOT equal in all learners, first at step {self.differ}"
        if not self._seen:
            return ""
        step = max(self._seen, key=lambda s: (len(self._seen[s]), s))
        held = self._seen[step]
        digest = next(iter(held.values()))
        return f"{digest[:16]} in {len(held)} learner(s) at step {step}"


class Tally:
    """Counters, curves and notable events of a run."""

    def __init__(self) -> None:
        self.first_t: float | None = None
        self.last_t: float | None = None
        self.stream_state = "not open yet"
        self.producer = ""
        self.iteration: int | None = None
        self.produced = self.seen = self.lost = self.samples = 0
        self.dropped: Counter[str] = Counter()  # by whom
        self.fill: dict[int, tuple[int, int]] = {}  # part -> (reservoir, now)
        self.steps = 0  # training steps taken; they are numbered from 0
        self.skipped = self.late = self.restarts = 0
        self.wait_s: float | None = None
        self.loss = Curve()  # mean over the learners of a step
        self.held_out = Curve()
        self.learners: set[str] = set()
        self.suspects: dict[str, str] = {}
        self.digests = Digests()
        self.checkpoint = ""
        self.notes: deque[str] = deque(maxlen=NOTES)
        self._losses: dict[str, float] = {}  # of the learners, at step `_loss_step`
        self._loss_step: int | None = None

    def add(self, event: Event) -> str | None:
        """Take in one event; a line about it if a user should hear of it at once."""
        self.first_t = event["t"] if self.first_t is None else self.first_t
        self.last_t = event["t"]
        name = event["event"]
        if name in _TAKE:
            _TAKE[name](self, event)
        if not _notable(name):
            return None
        note = _note(event)
        self.notes.append(note)
        return note

    # ------------------------------------------------------------ words

    def stream_words(self) -> str:
        where = "" if self.iteration is None else f", iteration {self.iteration}"
        return self.stream_state + where + (f"; producer {self.producer}" if self.producer else "")

    def frame_words(self, settled_lost: int = 0) -> str:
        """In words; a run that is over knows of losses that no event told (`settled_lost`)."""
        words = f"{self.seen} seen"
        if self.produced:
            words = f"{self.produced} produced, " + words
        if self.dropped:
            by = ", ".join(f"{who} {n}" for who, n in self.dropped.most_common(4))
            words += f", {sum(self.dropped.values())} set aside (by {by})"
        return words + f", {max(self.lost, settled_lost)} lost"

    def sample_words(self) -> str:
        if not self.fill:
            return str(self.samples)
        reservoir, now = (sum(column) for column in zip(*self.fill.values(), strict=True))
        return f"{self.samples}; in replay {reservoir} reservoir + {now} now"

    def training_words(self) -> str:
        words = f"{self.steps} steps, {self.skipped} updates skipped, {self.late} late offers"
        return words if self.wait_s is None else words + f", waited {self.wait_s:.1f} s for data"

    def learner_words(self) -> str:
        names = ", ".join(sorted(self.learners)) or "none"
        return f"{len(self.learners)} alive ({names}), {self.restarts} restarts in the run"

    # ------------------------------------------------------------ events

    def _run_start(self, event: Event) -> None:
        self.learners.clear()  # of an earlier life of this run

    def _run_end(self, event: Event) -> None:
        self._close_loss()

    def _stream_state(self, event: Event) -> None:
        state = event.get("value", event.get("state", ""))
        self.stream_state = clean(state).replace("_", " ")

    def _stream_iteration(self, event: Event) -> None:
        step = _step(event)
        self.iteration = self.iteration if step is None else step
        self.seen += _count(event)
        if self.stream_state == "not open yet":
            self.stream_state = "running"

    def _producer_iteration(self, event: Event) -> None:
        self.produced += _count(event)

    def _producer_start(self, event: Event) -> None:
        self.producer = "running"

    def _producer_lost(self, event: Event) -> None:
        self.producer = f"lost: {_why(event)}"

    def _producer_restart(self, event: Event) -> None:
        self.producer = "restarted"
        self.restarts += 1

    def _producer_end(self, event: Event) -> None:
        self.producer = clean(event.get("value", "ended"))

    def _frame_dropped(self, event: Event) -> None:
        by = clean(event.get("by", "?"), 40)
        self.dropped[by if by in self.dropped or len(self.dropped) < 50 else "others"] += 1

    def _frame_lost(self, event: Event) -> None:
        self.lost += 1

    def _sample_insert(self, event: Event) -> None:
        self.samples += _count(event)

    def _replay_fill(self, event: Event) -> None:
        part, now = _whole(event.get("part", 0)), _whole(event.get("now", 0))
        value = _whole(event.get("value"))
        if part is not None and value is not None:
            self.fill[part] = (value, now or 0)

    def _learner_loss(self, event: Event) -> None:
        value, step = number(event.get("value")), _step(event)
        if value is None:
            return
        if step != self._loss_step:
            self._close_loss()
            self._loss_step = step
        self._losses[_who(event)] = value

    def _close_loss(self) -> None:
        """The mean over the learners of the step that is over becomes a point of the curve."""
        if self._losses:
            self.loss.add(sum(self._losses.values()) / len(self._losses))
        self._losses = {}

    def _held_out_loss(self, event: Event) -> None:
        value = number(event.get("value"))
        if value is not None:
            self.held_out.add(value)

    def _learner_join(self, event: Event) -> None:
        self.learners.add(_who(event))

    def _learner_lost(self, event: Event) -> None:
        self.learners.discard(_who(event))
        self.restarts += 1

    def _node_lost(self, event: Event) -> None:
        self.restarts += 1

    def _learner_wait(self, event: Event) -> None:
        self.wait_s = number(event.get("value"))

    def _learner_late(self, event: Event) -> None:
        self.late += 1

    def _reduce_update(self, event: Event) -> None:
        step, suspects = _step(event), event.get("suspects")
        self.steps = self.steps if step is None else max(self.steps, step + 1)
        self._close_loss()
        self._loss_step = None
        if isinstance(suspects, dict):
            self.suspects.update({clean(n, 40): clean(why) for n, why in suspects.items()})
        elif isinstance(suspects, list):
            self.suspects.update({clean(n, 40): "" for n in suspects})

    def _reduce_skipped(self, event: Event) -> None:
        self.skipped += 1

    def _digest(self, event: Event) -> None:
        step = _step(event)
        if step is not None:
            self.digests.add(step, _who(event), clean(event.get("value", ""), 80))

    def _checkpoint(self, event: Event) -> None:
        step = _step(event)
        self.checkpoint = clean(event.get("value", "")) + ("" if step is None else f", step {step}")


def clean(text: object, limit: int = 200) -> str:
    """Text of unknown origin made harmless for a terminal: printable, on one line, not long."""
    shown = "".join(c if c.isprintable() else "?" for c in str(text)[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


_TAKE: dict[str, Callable[[Tally, Event], None]] = {
    "run/start": Tally._run_start,
    "run/end": Tally._run_end,
    "stream/state": Tally._stream_state,
    "stream/iteration": Tally._stream_iteration,
    "producer/iteration": Tally._producer_iteration,
    "producer/start": Tally._producer_start,
    "producer/lost": Tally._producer_lost,
    "producer/restart": Tally._producer_restart,
    "producer/end": Tally._producer_end,
    "frame/dropped": Tally._frame_dropped,
    "frame/lost": Tally._frame_lost,
    "sample/insert": Tally._sample_insert,
    "replay/fill": Tally._replay_fill,
    "learner/loss": Tally._learner_loss,
    "learner/heldout_loss": Tally._held_out_loss,
    "learner/join": Tally._learner_join,
    "learner/lost": Tally._learner_lost,
    "learner/wait_s": Tally._learner_wait,
    "learner/late": Tally._learner_late,
    "transform/lost": Tally._node_lost,
    "shard/lost": Tally._node_lost,
    "reducer/lost": Tally._node_lost,
    "reduce/update": Tally._reduce_update,
    "reduce/skipped": Tally._reduce_skipped,
    "weights/digest": Tally._digest,
    "checkpoint/written": Tally._checkpoint,
}

_QUIET = {"frame/lost", "frame/dropped"}  # counted; one line each would bury the others
_LOUD = {"run/state", "run/end", "stream/state", "reduce/skipped", "fault/inject"}
_LOUD |= {"checkpoint/written", "checkpoint/refused", "learner/late"}
_LOUD_VERBS = {"lost", "join", "start", "restart", "end", "torn", "broken"}


def _notable(name: str) -> bool:
    return name not in _QUIET and (name in _LOUD or name.rpartition("/")[2] in _LOUD_VERBS)


def _note(event: Event) -> str:
    """One line: when, what, who, why."""
    clock = _clock(event["t"])
    said = [event[field] for field in NOTED if event.get(field) not in (None, "")]
    words = [clock, clean(event["event"], 60), *(clean(word, 80) for word in said)]
    step, why = _step(event), _why(event)
    words += [f"at step {step}"] if step is not None else []
    return " ".join(words) + (f": {why}" if why else "")


def _clock(t: Any) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(t))
    except (ValueError, OverflowError, OSError):
        return "??:??:??"


def _why(event: Event) -> str:
    return clean(event.get("why") or event.get("reason") or "")


def _who(event: Event) -> str:
    return clean(event.get("learner") or event.get("node") or event["source"], 40)


def _step(event: Event) -> int | None:
    return _whole(event.get("step"))


def _count(event: Event) -> int:
    """How many things an event is about; 1 if it does not say."""
    value = _whole(event.get("value"))
    return 1 if value is None else value


def _whole(field: object) -> int | None:
    """The whole number in a field; None for anything else, infinities and NaN included."""
    value = number(field)
    return int(value) if value is not None and abs(value) < 2**53 else None
