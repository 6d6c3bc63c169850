"""The cut into slabs is no physics, and who works on a slab is no matter at all.

So many slabs are the same computation, whether each is a rank, or a thread of one rank, or ranks
have threads, in this process or in others: bits are equal. More or fewer slabs sum the current in
another order: there bits differ, by rounding and by nothing else; chaos multiplies this slowly at
first, hence few steps and float64.
"""

import functools

import numpy as np
import pytest

from producers.khi import KelvinHelmholtz
from producers.setup import Start
from workflow.types import Hosting

GRIDS = {"2D": (16, 24), "3D": (6, 16, 5)}
FIELDS = ("E/x", "E/y", "E/z", "B/x", "B/y", "B/z")


@functools.cache
def last_frames(dimensions, ranks, threads=1, hosting=Hosting.INLINE):
    """Arrays of each rank after 60 steps of a hot flow."""
    config = KelvinHelmholtz(
        grid=GRIDS[dimensions], ranks=ranks, threads=threads, particles_per_cell=4,
        start=Start.RANDOM, temperature_ev=2000.0, dtype="float64", momentum_prev=True,
        first_step=60, last_step=60, period=1,
    )  # fmt: skip
    (frames,) = [
        [{k: a.copy() for k, a in frame.arrays.items()} for frame in frames]
        for frames in config.iterations(4, hosting=hosting)
    ]
    return frames


def whole(frames, path):
    """A record of all ranks: fields stacked along y, particles one rank's after the other's."""
    return np.concatenate([frame[path] for frame in frames], axis=-2 if path in FIELDS else 0)


@pytest.mark.parametrize("dimensions", list(GRIDS))
@pytest.mark.parametrize(
    ("ranks", "threads", "hosting"),
    [
        (2, 2, Hosting.INLINE),
        (1, 4, Hosting.INLINE),
        (4, 1, Hosting.PROCESSES),
        (2, 2, Hosting.PROCESSES),
    ],
)
def test_four_slabs_give_the_same_bits_whoever_works_on_them(dimensions, ranks, threads, hosting):
    four, other = last_frames(dimensions, 4), last_frames(dimensions, ranks, threads, hosting)
    assert len(other) == ranks
    for path in four[0]:
        np.testing.assert_array_equal(whole(other, path), whole(four, path), err_msg=path)


@pytest.mark.parametrize("dimensions", list(GRIDS))
@pytest.mark.parametrize(("ranks", "threads"), [(1, 2), (2, 1), (1, 3), (4, 1)])
def test_more_slabs_give_the_same_physics(dimensions, ranks, threads):
    one, many = last_frames(dimensions, 1), last_frames(dimensions, ranks, threads)
    assert any(not np.array_equal(whole(one, path), whole(many, path)) for path in one[0])
    for path in FIELDS:
        strongest = np.abs(whole(one, path)).max()
        np.testing.assert_allclose(whole(many, path), whole(one, path), atol=1e-6 * strongest)
    for species in "ei":
        first, second = (_phase_space(frames, species) for frames in (one, many))
        first, second = (t[:, np.argsort(t[-2])] for t in (first, second))  # by p_y
        np.testing.assert_allclose(second, first, atol=2e-5)


def _phase_space(frames, species):
    """(d + 3, n): absolute x, y(, z) [cells], and p."""
    axes = [a for a in "xyz" if f"{species}/position/{a}" in frames[0]]
    places = [
        whole(frames, f"{species}/positionOffset/{a}")
        + whole(frames, f"{species}/position/{a}").astype(float)
        for a in axes
    ]
    return np.stack(
        places + [whole(frames, f"{species}/momentum/{a}").astype(float) for a in "xyz"]
    )
