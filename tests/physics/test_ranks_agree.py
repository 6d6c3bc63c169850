"""The cut into slabs is no physics: ranks 1, 2 and 4 differ by rounding, and by nothing else.

The order of sums in the current differs, so bits do; chaos multiplies this slowly at first, hence
few steps and float64.
"""

import numpy as np
import pytest

from producers.khi import KelvinHelmholtz
from producers.setup import Start
from workflow.types import Hosting


def last_frames(ranks):
    config = KelvinHelmholtz(
        grid=(16, 24), ranks=ranks, particles_per_cell=4, start=Start.RANDOM, temperature_ev=2000.0,
        dtype="float64", first_step=60, last_step=60, period=1,
    )  # fmt: skip
    (frames,) = [
        [{k: a.copy() for k, a in frame.arrays.items()} for frame in frames]
        for frames in config.iterations(4, hosting=Hosting.INLINE)
    ]
    return frames


@pytest.mark.parametrize("ranks", [2, 4])
def test_more_ranks_give_the_same_physics(ranks):
    whole, parts = last_frames(1), last_frames(ranks)
    for component in ("E/x", "E/y", "E/z", "B/x", "B/y", "B/z"):
        one = whole[0][component]
        many = np.concatenate([part[component] for part in parts])
        np.testing.assert_allclose(many, one, atol=1e-6 * np.abs(one).max())
    for species in "ei":
        table = [
            np.concatenate([_phase_space(part, species) for part in frames], axis=1)
            for frames in (whole, parts)
        ]
        one, many = (t[:, np.lexsort(np.round(t[4:1:-1], 5))] for t in table)
        np.testing.assert_allclose(many, one, atol=2e-5)


def _phase_space(arrays, species):
    """(5, n): absolute x, y [cells], and p."""
    return np.stack(
        [
            arrays[f"{species}/positionOffset/{a}"]
            + arrays[f"{species}/position/{a}"].astype(float)
            for a in "xy"
        ]
        + [arrays[f"{species}/momentum/{a}"].astype(float) for a in "xyz"]
    )
