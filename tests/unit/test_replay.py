"""Replay: insertion and sampling are uniform, each by itself; a batch is a pure function.

Chi-square limits are for p = 1e-4 by the Wilson-Hilferty approximation; all seeds are fixed.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from learners.replay import Shard
from workflow.errors import CheckpointError, ConfigError, DataError
from workflow.protocols import ReplayShard
from workflow.types import Box, Key, Sample


def sample(iteration, *, box=0, points=3, value=None):
    array = np.full((points, 2), iteration if value is None else value, dtype=np.float32)
    box = Box(index=box, offset=(0,), extent=(1,))
    return Sample(stream="s", iteration=iteration, time_s=0.0, box=box, arrays={"particles": array})


def shard(*, part=0, seed=7, now=2, reservoir=4, rows=4, normaliser=None):
    return Shard(
        part=part,
        seed=seed,
        now=now,
        reservoir=reservoir,
        rows=rows,
        normaliser=normaliser,
        arrays=("particles",),
    )


def filled(count, **kwargs):
    made = shard(**kwargs)
    made.insert([sample(i) for i in range(count)])
    return made


def iterations(batch):
    return [row.iteration for row in batch.rows]


def chi_square(counts, expected):
    return float(np.sum((counts - expected) ** 2 / expected))


def limit(freedom, z=3.72):
    """The chi-square value that is exceeded with probability 1e-4."""
    a = 2 / (9 * freedom)
    return freedom * (1 - a + z * np.sqrt(a)) ** 3


def test_the_shard_fits_its_seam():
    typed: ReplayShard = shard()
    assert typed.insert([])["seen"] == 0


def test_every_sample_ever_offered_is_equally_likely_to_be_kept():
    runs, offered, size = 1500, 24, 6
    kept = np.zeros(offered)
    for seed in range(runs):
        held = filled(offered + 1, seed=seed, now=1, reservoir=size).contents()["reservoir"]
        assert len(set(held)) == size
        kept[[key.iteration for key in held]] += 1
    share = size / offered
    # counts of "kept" have variance runs p (1 - p), and sum to a constant: offered - 1 degrees
    statistic = chi_square(kept, runs * share) / (1 - share) * (offered - 1) / offered
    assert statistic < limit(offered - 1)


def test_every_slot_of_the_reservoir_is_equally_likely_to_be_drawn():
    made = filled(64, now=4, reservoir=40, rows=8)
    held = [key.iteration for key in made.contents()["reservoir"]]
    steps = 2500
    drawn = np.zeros(64)
    for step in range(steps):
        _, batch = made.batch(step, {})
        drawn[iterations(batch)[batch.from_now :]] += 1
    assert set(np.flatnonzero(drawn)) == set(held)  # not the first few slots only
    share = 4 / 40
    statistic = chi_square(drawn[held], steps * share) / (1 - share) * 39 / 40
    assert statistic < limit(39)


def test_every_sample_of_the_now_buffer_is_equally_likely_to_be_drawn():
    made = filled(10, now=10, reservoir=5, rows=4)
    steps = 2000
    drawn = np.zeros(10)
    for step in range(steps):
        drawn[iterations(made.batch(step, {})[1])] += 1
    share = 4 / 10
    assert chi_square(drawn, steps * share) / (1 - share) * 9 / 10 < limit(9)


def test_half_of_a_batch_is_new_and_half_is_replayed():
    made = filled(50, now=6, reservoir=20, rows=8)
    for step in range(20):
        manifest, batch = made.batch(step, {})
        assert batch.from_now == manifest["from_now"] == 4
        assert all(i >= 44 for i in iterations(batch)[:4])
        assert all(i < 44 for i in iterations(batch)[4:])
        assert len(set(batch.rows)) == 8


@pytest.mark.parametrize(
    ("count", "now", "reservoir", "rows", "from_now"),
    [
        (4, 6, 20, 8, 8),  # no reservoir yet: all rows from the now-buffer, each twice
        (7, 6, 20, 8, 7),  # one sample in the reservoir: it is drawn, the now-buffer fills up
        (9, 6, 20, 8, 5),  # three in the reservoir
        (40, 2, 20, 8, 2),  # a small now-buffer: the reservoir fills up
        (5, 2, 3, 8, 5),  # fewer samples than rows: the whole reservoir, and the now-buffer again
        (30, 6, 20, 7, 4),  # an odd row is new
        (30, 6, 0, 8, 8),  # no replay at all
    ],
)
def test_what_one_buffer_lacks_comes_from_the_other(count, now, reservoir, rows, from_now):
    made = filled(count, now=now, reservoir=reservoir, rows=rows)
    held = made.contents()
    for step in range(10):
        _, batch = made.batch(step, {})
        assert len(batch.rows) == rows
        assert batch.from_now == from_now
        assert set(batch.rows[:from_now]) <= set(held["now"])
        assert set(batch.rows[from_now:]) <= set(held["reservoir"])
        times = np.unique(iterations(batch)[:from_now], return_counts=True)[1]
        assert times.max() - times.min() <= 1
        if len(held["now"]) + len(held["reservoir"]) >= rows:
            assert len(set(batch.rows)) == rows


def test_a_batch_is_a_pure_function_of_seed_step_and_contents():
    one, other = filled(30), shard()
    other.insert([sample(i) for i in range(11)])
    other.insert([sample(i) for i in range(11, 30)])
    other.batch(90, {})  # what was asked before changes nothing
    for step in (3, 4, 3):
        (m, a), (n, b) = one.batch(step, {}), other.batch(step, {})
        assert m == n
        assert (a.rows, a.seed, a.digest) == (b.rows, b.seed, b.digest)
        assert a.arrays["particles"].tobytes() == b.arrays["particles"].tobytes()


@pytest.mark.parametrize("changed", ["step", "seed", "part", "data"])
def test_step_seed_part_and_data_each_change_the_batch(changed):
    plain = filled(30).batch(3, {})[1]
    if changed == "step":
        other = filled(30).batch(4, {})[1]
    elif changed == "data":
        made = shard()
        made.insert([sample(i, value=i + 0.5) for i in range(30)])
        other = made.batch(3, {})[1]
    else:
        other = filled(30, **{changed: 1}).batch(3, {})[1]
    assert other.digest != plain.digest
    assert (other.seed == plain.seed) is (changed == "data")


def test_rows_carry_the_data_of_their_keys():
    made = filled(30)
    _, batch = made.batch(5, {})
    assert np.array_equal(batch.arrays["particles"][:, 0, 0], iterations(batch))
    assert batch.arrays["particles"].dtype == np.float32


def test_the_now_buffer_is_first_in_first_out():
    made = filled(5, now=3, reservoir=2)
    assert [k.iteration for k in made.contents()["now"]] == [2, 3, 4]
    assert [k.iteration for k in made.contents()["reservoir"]] == [0, 1]


def test_a_sample_that_leaves_undrawn_is_named_and_one_that_was_drawn_is_not():
    made = shard(now=1, reservoir=0, rows=1)
    made.insert([sample(0)])
    made.batch(0, {})
    assert made.insert([sample(1)])["evicted_unseen"] == []
    receipt = made.insert([sample(2), sample(3)])
    assert receipt["evicted_unseen"] == [Key("s", 1, 0), Key("s", 2, 0)]
    assert (receipt["now"], receipt["reservoir"], receipt["seen"]) == (1, 0, 4)


def test_every_sample_is_held_or_left_once_and_drawn_counts_add_up():
    made = shard(now=3, reservoir=5, rows=4)
    gone = []
    for i in range(60):
        gone += made.insert([sample(i)])["evicted_unseen"]
    held = made.contents()
    assert sorted([*gone, *held["now"], *held["reservoir"]]) == [Key("s", i, 0) for i in range(60)]
    for step in range(6):
        made.batch(step, {})
    assert sum(made.contents()["drawn"].values()) == 6 * 4


def test_an_empty_shard_gives_a_batch_without_rows():
    made = shard()
    assert not made.ready()
    manifest, batch = made.batch(0, {})
    assert batch.rows == ()
    assert manifest["rows"] == []
    made.insert([sample(0)])
    assert made.ready()


def test_another_shape_is_refused_with_the_name_of_the_box_and_nothing_is_taken():
    made = filled(3)
    before = made.contents()
    with pytest.raises(DataError, match=r"stream 's', iteration 9, box 5: 'particles': .*\(4, 2\)"):
        made.insert([sample(8), sample(9, box=5, points=4)])
    assert made.contents() == before


def test_a_missing_array_is_refused_with_the_name_of_the_box():
    box = Box(index=2, offset=(0,), extent=(1,))
    bare = Sample(stream="s", iteration=1, time_s=0.0, box=box, arrays={"x": np.zeros(1)})
    with pytest.raises(DataError, match="box 2: wanted the array 'particles'"):
        shard().insert([bare])


def test_non_finite_and_repeated_samples_are_set_aside_and_the_others_taken():
    made = filled(2)
    receipt = made.insert([sample(2, value=np.nan), sample(1), sample(3)])
    assert receipt["refused"] == [
        (Key("s", 2, 0), "non-finite values in 'particles'"),
        (Key("s", 1, 0), "is here already"),
    ]
    assert receipt["seen"] == 3


def test_a_shard_without_room_or_rows_is_refused():
    with pytest.raises(ConfigError, match="now >= 1"):
        shard(now=0)


def test_a_shard_that_was_restored_goes_on_bit_for_bit():
    going, restored = filled(30), shard()
    going.batch(2, {})
    restored.load_state(going.state())
    assert restored.contents() == going.contents()
    for made in (going, restored):
        made.insert([sample(i) for i in range(30, 60)])
    assert restored.contents() == going.contents()
    assert restored.batch(7, {})[1].digest == going.batch(7, {})[1].digest


@pytest.mark.parametrize("fault", ["torn", "missing", "too big"])
def test_a_state_that_does_not_fit_is_refused(fault):
    state = dict(filled(30).state())
    made = shard()
    if fault == "torn":
        state["data/particles"] = state["data/particles"][:-1]
    elif fault == "missing":
        del state["keys"]
    else:
        made = shard(reservoir=3)
    with pytest.raises(CheckpointError, match="part 0"):
        made.load_state(state)
    assert not made.ready()


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A normaliser that divides by a number among the moments."""

    def measure(self, one):
        return {"scale": np.abs(one.arrays["particles"]).max(keepdims=True)}

    def merge(self, old, new):
        return new if not old else {"scale": np.maximum(old["scale"], new["scale"])}

    def normalise(self, name, stacked, moments):
        return stacked / moments["scale"]

    def denormalise(self, name, stacked, moments):
        return stacked * moments["scale"]


def test_batches_are_normalised_with_the_moments_of_the_moment():
    made = filled(10, normaliser=Scale())
    moments = {"scale": np.array([[4.0]])}
    _, batch = made.batch(1, moments)
    assert np.allclose(batch.arrays["particles"][:, 0, 0] * 4.0, iterations(batch))
    assert batch.digest != made.batch(1, {"scale": np.array([[2.0]])})[1].digest


def test_processes_that_need_no_torch_do_not_load_it():
    code = (
        "import learners.replay, learners.attacks, learners.reducers, learners.reducers.reducer, "
        "sys; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
