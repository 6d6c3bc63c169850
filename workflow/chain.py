"""Pure functions over a chain of transforms: what it needs and makes, its check, and one run.

A chain is a sequence of `Transform` stages in the order of the config. Axes that a stage declares
as -1 ("as many particles as the frame has by then") must be fixed by an earlier stage of the same
species; a stage that fixes the count of a species says so by an extra method,
`fixes() -> {species: count}`. Samples are stacked into batches, so no -1 may be left.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from workflow.errors import ConfigError
from workflow.protocols import Transform
from workflow.types import Array, Box, Dropped, Frame, Key, Sample

log = logging.getLogger(__name__)

MAX_REASON = 300  # characters of an error's text that go to the ledger


def needs(chain: Sequence[Transform]) -> tuple[str, ...]:
    """Records that must be in the stream, in the order of first mention."""
    return tuple(dict.fromkeys(record for stage in chain for record in stage.needs()))


def makes(chain: Sequence[Transform]) -> dict[str, tuple[int, ...]]:
    """Arrays of a sample and their shapes; -1 only where nothing fixes the length."""
    counts: dict[str, int] = {}
    made: dict[str, tuple[int, ...]] = {}
    for stage in chain:
        counts.update(getattr(stage, "fixes", dict)())
        length = counts.get(getattr(stage, "species", ""), -1)
        for name, shape in stage.makes().items():
            made[name] = tuple(length if axis == -1 else axis for axis in shape)
    return made


def check(chain: Sequence[Transform], offers: Iterable[str] | None) -> None:
    """Refuse a chain that cannot work on a stream with these records; ConfigError says why.

    Without `offers` (an external stream: nobody knows yet) only the chain itself is looked at.
    """
    if offers is not None:
        _check_offers(chain, sorted(offers))
    _check_arrays(chain)


def _check_offers(chain: Sequence[Transform], offers: Sequence[str]) -> None:
    for stage in chain:
        for record in stage.needs():
            if record not in offers:
                raise ConfigError(
                    f"transform {_name(stage)} needs the record '{record}'; the stream offers "
                    f"{', '.join(offers) or 'nothing'}. Have the simulation write '{record}', or "
                    f"configure {_name(stage)} without it."
                )


def _check_arrays(chain: Sequence[Transform]) -> None:
    _check_names(chain)
    made = makes(chain)
    if not made:
        raise ConfigError(
            "the chain of transforms makes no array: a sample would be empty. Add a stage that "
            "makes one, such as transforms.phase_space:PhaseSpace."
        )
    for name, shape in made.items():
        if -1 in shape:
            raise ConfigError(
                f"'{name}' has no fixed length, got shape {shape}: samples could not be stacked. "
                "Put transforms.subsample:Subsample of the same species before the stage that "
                "makes it."
            )


def selects(chain: Sequence[Transform], box: Box) -> bool:
    """Whether any data of this box is wanted; asked before its data is read."""
    return all(stage.selects(box) for stage in chain if hasattr(stage, "selects"))


def frame_rng(seed: int, key: Key) -> np.random.Generator:
    """The generator of one frame's draws."""
    stream = zlib.crc32(key.stream.encode())
    return np.random.default_rng(np.random.SeedSequence([seed, stream, key.iteration, key.box]))


def run(chain: Sequence[Transform], frame: Frame, *, seed: int) -> Sample | Dropped:
    """The sample that the chain makes of a frame, or why the frame was set aside.

    The same run seed and frame give the same sample, whichever actor does it, and when.

    One bad frame is data, not the end of a run: data and arithmetic errors inside a stage give
    Dropped by that stage. Anything else that a stage raises is a defect and goes through.
    """
    done, rng = frame, frame_rng(seed, frame.key)
    with np.errstate(all="ignore"):  # what comes out non-finite is dropped by name below
        for stage in chain:
            outcome = _apply(stage, done, rng)
            if isinstance(outcome, Dropped):
                return outcome
            done = outcome
        return _sample(chain, frame, done)


def _apply(stage: Transform, frame: Frame, rng: np.random.Generator) -> Frame | Dropped:
    by = _name(stage)
    for record in stage.needs():
        if not _has(frame.arrays, record):
            return Dropped(key=frame.key, by=by, reason=f"missing: {record}")
    try:
        outcome = stage.apply(frame, rng)
    except ConfigError:
        raise
    except (ValueError, ArithmeticError) as e:  # DataError is a ValueError
        reason = f"{type(e).__name__}: {e}"[:MAX_REASON]
        log.warning("%s: frame set aside by %s: %s", frame.key, by, reason)
        return Dropped(key=frame.key, by=by, reason=reason)
    if isinstance(outcome, Dropped):
        return outcome
    return _checked(stage, outcome)


def _checked(stage: Transform, frame: Frame) -> Frame | Dropped:
    """The frame, if the arrays that the stage made are there, finite, and of the stated shape."""
    for name, shape in stage.makes().items():
        array = frame.arrays.get(name)
        if array is None:
            return Dropped(key=frame.key, by=_name(stage), reason=f"made no '{name}'")
        if not _matches(array.shape, shape):
            reason = f"'{name}': wanted shape {shape}, got {array.shape}"
            return Dropped(key=frame.key, by=_name(stage), reason=reason)
        bad = array.size - int(np.count_nonzero(np.isfinite(array)))
        if bad:
            reason = f"non-finite: {bad} of {array.size} values of '{name}'"
            return Dropped(key=frame.key, by=_name(stage), reason=reason)
    return frame


def _sample(chain: Sequence[Transform], frame: Frame, done: Frame) -> Sample | Dropped:
    """Copies of the made arrays, so that a small sample never pins a big frame."""
    arrays: dict[str, Array] = {}
    for name, shape in makes(chain).items():
        arrays[name] = np.array(done.arrays[name], dtype=np.float32)
        if not _matches(arrays[name].shape, shape):
            reason = f"'{name}': wanted shape {shape}, got {arrays[name].shape}"
            return Dropped(key=frame.key, by="chain", reason=reason)
        if not np.isfinite(arrays[name]).all():
            return Dropped(key=frame.key, by="chain", reason=f"beyond float32: '{name}'")
    return Sample(
        stream=frame.stream,
        iteration=frame.iteration,
        time_s=frame.time_s,
        box=frame.box,
        arrays=arrays,
    )


def _check_names(chain: Sequence[Transform]) -> None:
    maker: dict[str, str] = {}
    for stage in chain:
        for name in stage.makes():
            if name in maker:
                raise ConfigError(
                    f"'{name}' is made twice, by {maker[name]} and by {_name(stage)}. "
                    "Give one of them another name."
                )
            maker[name] = _name(stage)


def _has(arrays: Mapping[str, Array], record: str) -> bool:
    return record in arrays or any(path.startswith(record + "/") for path in arrays)


def _matches(got: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(got) == len(wanted) and all(w in (-1, g) for g, w in zip(got, wanted, strict=True))


def _name(stage: Transform) -> str:
    return type(stage).__name__
