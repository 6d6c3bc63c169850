"""What every Producer owes its stream. A new producer is one more line in CASES."""

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from producers.flow import Motion, VortexFlow
from producers.khi import KelvinHelmholtz
from producers.radiation import Radiation
from workflow.protocols import Producer
from workflow.streams.openpmd import OFF_GRID, record_of
from workflow.types import Hosting


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[Path], Producer]  # a small producer; the folder is its own
    draws: bool  # whether the seed changes the numbers


def _khi(folder: Path) -> Producer:
    return KelvinHelmholtz(
        grid=(8, 16), ranks=3, particles_per_cell=4, first_step=2, last_step=7, period=2,
        momentum_prev=True,
    )  # fmt: skip


def _khi_without_fields(folder: Path) -> Producer:
    return KelvinHelmholtz(
        grid=(8, 8), ranks=1, particles_per_cell=3, last_step=2, period=2, fields=False
    )


def _khi_with_radiation(folder: Path) -> Producer:
    return KelvinHelmholtz(
        grid=(8, 16), ranks=4, particles_per_cell=3, first_step=2, last_step=6, period=2,
        radiation=Radiation(frequencies=12),
    )  # fmt: skip


def _flow(folder: Path) -> Producer:
    return VortexFlow(
        grid=(12, 40), rows=5, ranks=2, waves=2, particles_per_cell=3, first_step=2, last_step=7,
        period=2, momentum_prev=True, species=("e", "i"),
    )  # fmt: skip


def _frozen_flow(folder: Path) -> Producer:
    return VortexFlow(
        grid=(8, 8), rows=2, ranks=1, particles_per_cell=2, last_step=3, motion=Motion.FROZEN
    )


CASES = [
    Case("khi", _khi, draws=True),
    Case("khi-with-radiation", _khi_with_radiation, draws=True),
    Case("flow", _flow, draws=True),
    Case("frozen-flow", _frozen_flow, draws=True),
    Case("khi-without-fields", _khi_without_fields, draws=True),
]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture
def producer(case, tmp_path):
    return case.make(tmp_path)


def numbers(producer, seed, hosting):
    """All iterations, copied out: [(iteration, box index, {path: array}), ...]."""
    return [
        (frame.iteration, frame.box.index, {k: np.array(a) for k, a in frame.arrays.items()})
        for frames in producer.iterations(seed, hosting=hosting)
        for frame in frames
    ]


def same(one, other):
    return len(one) == len(other) and all(
        a[:2] == b[:2]
        and a[2].keys() == b[2].keys()
        and all(np.array_equal(a[2][k], b[2][k]) for k in a[2])
        for a, b in zip(one, other, strict=True)
    )


def test_it_is_a_producer_that_travels_and_compares(producer):
    assert isinstance(producer, Producer)
    again = pickle.loads(pickle.dumps(producer))
    assert again == producer
    assert again.series() == producer.series()
    assert type(producer).__name__ in repr(producer)


def test_every_iteration_has_every_box_once_in_order(producer):
    last = -1
    for frames in producer.iterations(1, hosting=Hosting.INLINE):
        assert [frame.box.index for frame in frames] == list(range(producer.boxes()))
        assert len({(frame.stream, frame.iteration, frame.time_s) for frame in frames}) == 1
        assert frames[0].iteration > last
        last = frames[0].iteration
        assert frames[0].time_s == pytest.approx(last * producer.series().dt_s)
    assert last >= 0


def test_the_boxes_tile_the_grid(producer):
    grid = producer.series().grid.shape
    for frames in producer.iterations(1, hosting=Hosting.INLINE):
        covered = np.zeros(grid, int)
        for frame in frames:
            covered[
                tuple(
                    slice(o, o + e) for o, e in zip(frame.box.offset, frame.box.extent, strict=True)
                )
            ] += 1
        assert (covered == 1).all()


def test_what_is_offered_is_there_and_has_units(producer):
    series = producer.series()
    offered = set(producer.offers())
    for frames in producer.iterations(1, hosting=Hosting.INLINE):
        for frame in frames:
            paths = set(frame.arrays) | set(series.constants)
            assert {record_of(path, series.meshes) for path in paths} == offered
            assert paths <= set(series.units)
            assert set(frame.arrays) <= set(frame.units)
    assert {path.split("/")[0] for path in series.mesh_position} == set(series.meshes)
    assert set(series.meshes) <= offered


def test_arrays_are_read_only_and_have_the_shapes_of_their_boxes(producer):
    meshes = producer.series().meshes
    for frames in producer.iterations(1, hosting=Hosting.INLINE):
        for frame in frames:
            lengths = {}
            for path, array in frame.arrays.items():
                assert not array.flags.writeable
                owner = path.split("/")[0]
                if owner in OFF_GRID:
                    assert array.ndim == 3 - ("rank" in OFF_GRID[owner])
                elif owner in meshes:
                    assert array.shape == frame.box.extent[::-1]
                else:
                    lengths.setdefault(owner, set()).add(array.shape)
            assert all(len(shapes) == 1 for shapes in lengths.values())


def test_particles_lie_in_the_box_of_their_frame(producer):
    for frames in producer.iterations(1, hosting=Hosting.INLINE):
        for frame in frames:
            for species in {p.split("/")[0] for p in frame.arrays if "/position/" in p}:
                for axis, low, extent in zip(
                    "xyz", frame.box.offset, frame.box.extent, strict=False
                ):
                    inside = frame.arrays[f"{species}/position/{axis}"]
                    cell = frame.arrays[f"{species}/positionOffset/{axis}"]
                    assert cell.min() >= low
                    assert cell.max() < low + extent
                    assert inside.min() >= 0
                    assert inside.max() < 1


def test_one_thread_and_processes_give_the_same_bits(producer):
    assert same(numbers(producer, 5, Hosting.INLINE), numbers(producer, 5, Hosting.PROCESSES))


def test_the_same_seed_gives_the_same_numbers(case, producer):
    first = numbers(producer, 5, Hosting.INLINE)
    assert same(first, numbers(producer, 5, Hosting.INLINE))
    assert same(first, numbers(producer, 6, Hosting.INLINE)) is not case.draws


def test_frames_hold_until_the_next_are_asked_for(producer):
    run = producer.iterations(1, hosting=Hosting.PROCESSES)
    held = next(run)
    before = [{k: np.array(a) for k, a in frame.arrays.items()} for frame in held]
    time.sleep(0.2)  # a producer that runs ahead has overwritten them by now
    for frame, copies in zip(held, before, strict=True):
        for path, array in frame.arrays.items():
            np.testing.assert_array_equal(array, copies[path])
    remaining = sum(1 for _ in run)
    assert remaining == len(list(producer.iterations(1, hosting=Hosting.INLINE))) - 1
    assert next(run, None) is None
