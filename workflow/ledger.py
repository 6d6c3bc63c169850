"""The ledger: what became of every (stream, iteration, box). Its sums close to zero at the end.

Every box that the run heard of ends in exactly one of these:

    before_join   the stream carried it before any reader of ours was there
    lost          it was produced and never came, or died with its reader (by whom, why)
    dropped       it came and was set aside on purpose (by whom, why)
    held_out      it became a sample of the held-out window
    trained       it became a sample that at least one applied update was computed from
    untrained     it became a sample that no update ever used (why)

and on the way it is counted: produced, received, transformed, drawn (rows of batches), replayed
(rows from the reservoir). A box without an end, or with two, keeps the ledger from closing.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workflow.types import Key

PASSED_OVER = "its queue dropped it, or no reader was there"


class Fate(enum.Enum):
    BEFORE_JOIN = "before_join"
    LOST = "lost"
    DROPPED = "dropped"
    HELD_OUT = "held_out"
    TRAINED = "trained"
    UNTRAINED = "untrained"


@dataclass
class Entry:
    """What is known of one box."""

    produced: bool = False  # its producer says so
    received: bool = False
    transformed: bool = False
    drawn: int = 0
    replayed: int = 0
    fates: list[tuple[Fate, str, str]] = field(default_factory=list)  # (fate, by whom, why)


@dataclass(frozen=True, kw_only=True)
class Balance:
    """The sums of a ledger."""

    produced: int
    received: int
    transformed: int
    drawn: int
    replayed: int
    fates: Mapping[str, int]
    reasons: Mapping[str, int]  # "lost: transform-1: its process died" -> boxes
    open: tuple[str, ...]  # what does not close, in words; empty when all does

    @property
    def closed(self) -> bool:
        return not self.open

    def as_dict(self) -> dict[str, Any]:
        return {
            "produced": self.produced,
            "received": self.received,
            "transformed": self.transformed,
            "drawn": self.drawn,
            "replayed": self.replayed,
            **self.fates,
            "reasons": dict(self.reasons),
            "open": list(self.open),
        }


class Ledger:
    """Counts boxes; kept by the driver, fed by receipts."""

    def __init__(self) -> None:
        self.entries: dict[Key, Entry] = {}

    def _entry(self, key: Key) -> Entry:
        key = Key(*key)
        if key not in self.entries:
            self.entries[key] = Entry()
        return self.entries[key]

    def produced(self, key: Key) -> None:
        self._entry(key).produced = True

    def received(self, key: Key) -> None:
        """A transform copied it out of the stream: so it was produced, whoever says what."""
        entry = self._entry(key)
        entry.produced = entry.received = True

    def transformed(self, key: Key) -> None:
        self._entry(key).transformed = True

    def end(self, key: Key, fate: Fate, *, by: str = "", why: str = "") -> None:
        """The box has come to its end; LOST, DROPPED and UNTRAINED say by whom and why."""
        self._entry(key).fates.append((fate, by, why))

    def trained(self, now: Iterable[Key], replayed: Iterable[Key]) -> None:
        """Rows that an applied update was computed from."""
        for keys, again in ((now, 0), (replayed, 1)):
            for key in keys:
                entry = self._entry(key)
                if not entry.drawn:
                    entry.fates.append((Fate.TRAINED, "", ""))
                entry.drawn += 1
                entry.replayed += again

    def untrained(self, keys: Iterable[Key], *, by: str, why: str) -> None:
        """Samples that left without an update having used them; those that were used stay so."""
        for key in keys:
            if not self._entry(key).fates:
                self.end(key, Fate.UNTRAINED, by=by, why=why)

    def without_end(self) -> list[Key]:
        """Boxes that have not come to an end yet."""
        return [key for key, entry in self.entries.items() if not entry.fates]

    def settle(self, *, default_why: str) -> None:
        """At the end of a run: boxes that were produced but never came, and samples never drawn.

        `default_why` says why what the stream had after the last received iteration never came
        ("the producer died"). A box below the first received iteration of its stream was there
        before we were; one in between was dropped by the stream's queue, or nobody read then.
        """
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for key, entry in self.entries.items():
            if entry.received:
                first[key.stream] = min(first.get(key.stream, key.iteration), key.iteration)
                last[key.stream] = max(last.get(key.stream, key.iteration), key.iteration)
        for key in self.without_end():
            entry = self.entries[key]
            if entry.transformed:
                self.end(key, Fate.UNTRAINED, by="run", why="the run ended before it was drawn")
            elif entry.received:
                continue  # no end for a box that came: the ledger stays open and says so
            elif key.iteration < first.get(key.stream, key.iteration):
                self.end(key, Fate.BEFORE_JOIN)
            else:
                gap = key.iteration < last.get(key.stream, key.iteration)
                self.end(key, Fate.LOST, by="stream", why=PASSED_OVER if gap else default_why)

    def balance(self) -> Balance:
        """The sums, and every box for which they do not close."""
        fates = Counter({fate.value: 0 for fate in Fate})
        reasons: Counter[str] = Counter()
        wrong: list[str] = []
        for key, entry in self.entries.items():
            for fate, by, why in entry.fates:
                fates[fate.value] += 1
                if by or why:
                    reasons[f"{fate.value}: {by}: {why}"] += 1
            if problem := _problem(entry):
                wrong.append(f"{key.stream} iteration {key.iteration} box {key.box}: {problem}")
        entries = self.entries.values()
        return Balance(
            produced=sum(e.produced for e in entries),
            received=sum(e.received for e in entries),
            transformed=sum(e.transformed for e in entries),
            drawn=sum(e.drawn for e in entries),
            replayed=sum(e.replayed for e in entries),
            fates=dict(fates),
            reasons=dict(reasons),
            open=tuple(wrong),
        )


def _problem(entry: Entry) -> str:
    """Why an entry does not close, or nothing."""
    if not entry.fates:
        return "has no end"
    if len(entry.fates) > 1:
        return "has several ends: " + ", ".join(fate.value for fate, _, _ in entry.fates)
    fate = entry.fates[0][0]
    made_sample = fate in (Fate.HELD_OUT, Fate.TRAINED, Fate.UNTRAINED)
    if made_sample != entry.transformed:
        return f"ended as {fate.value} but transformed is {entry.transformed}"
    if fate is Fate.BEFORE_JOIN and entry.received:
        return "ended as before_join but was received"
    if entry.transformed and not entry.received:
        return "was transformed but never received"
    return ""
