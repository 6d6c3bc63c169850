"""Who gets what: boxes to readers, samples to shards, parts to learners. Pure functions."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from workflow.types import Box


def boxes_to_readers(
    boxes: Sequence[Box], readers: Mapping[str, str | None]
) -> dict[str, list[Box]]:
    """Deal boxes to readers (name -> host): same host first, then round-robin.

    A box goes to a reader on the host of its writer, to the one with the fewest boxes so far; a
    box whose host has no reader, or is not known, goes to the reader with the fewest boxes of
    all. Ties go by name, so that everybody who deals the same boxes deals them the same way.
    """
    dealt: dict[str, list[Box]] = {name: [] for name in sorted(readers)}

    def give(box: Box, candidates: Sequence[str]) -> None:
        least = min(candidates, key=lambda name: (len(dealt[name]), name))
        dealt[least].append(box)

    at_home: dict[str, list[str]] = {}
    for name in dealt:
        host = readers[name]
        if host is not None:
            at_home.setdefault(host, []).append(name)
    abroad = []
    for box in boxes:
        local = at_home.get(box.host, []) if box.host is not None else []
        if local:
            give(box, local)
        else:
            abroad.append(box)
    for box in abroad:
        give(box, list(dealt))
    return dealt


def shard_of(stream: str, iteration: int, place: int, shards: int) -> int:
    """The shard of a sample, by (stream, iteration, place of its box in the iteration).

    Neighbouring boxes go to different shards and the start turns with the iteration, so that
    every shard sees every producer and every region: a shard that knew only one region would look
    like a liar to a robust rule.
    """
    turn = zlib.crc32(f"{stream}/{iteration}".encode())
    return (turn + place) % shards


def parts_to_learners(step: int, learners: Sequence[str], parts: int) -> dict[str, int]:
    """The part that each learner takes in a training step: it turns by one place a step.

    With fewer learners than parts some parts wait for their turn; with more, the first parts are
    taken twice.
    """
    return {name: (i + step) % parts for i, name in enumerate(sorted(learners))}


def is_held_out(ordinal: int, every: int) -> bool:
    """Whether the so-manyth iteration of a run is kept aside: the middle one of every `every`."""
    return ordinal % every == every // 2
