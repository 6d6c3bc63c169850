"""The load generator: its flow, its paths, its config, and that it says what it is.

With phases a = k x and b = k y (y from the middle of a row) and speed U the flow is

    psi = -(U/k) ln(cosh b - eps cos a),   v_x = d psi / dy,   v_y = -d psi / dx

so div v = 0, psi is constant along the paths while eps is, and no speed is above U/sqrt(1-eps^2).
Momenta are m gamma v with gamma = 1/sqrt(1 - v^2). Midpoint rule: errors fall as dt^2.
"""

import math

import numpy as np
import pytest

from producers import shear, stuart, units
from producers.flow import Motion, VortexFlow
from workflow import plugins
from workflow.errors import ConfigError
from workflow.types import Hosting

GAMMA = 1.021
U = math.sqrt(1 - GAMMA**-2)


def small(**changes):
    values = {"grid": (38, 128), "waves": 1, "particles_per_cell": 4, "last_step": 4}
    return VortexFlow(**(values | changes))


def copied(producer, seed=1):
    return [
        [{k: np.array(a) for k, a in frame.arrays.items()} for frame in frames]
        for frames in producer.iterations(seed, hosting=Hosting.INLINE)
    ]


def joined(frames):
    return {k: np.concatenate([box[k] for box in frames]) for k in frames[0]}


def place(config, arrays, species="e"):
    """x [cells], y from the middle of the row [cells], direction of the row's flow."""
    x, y = (
        arrays[f"{species}/positionOffset/{a}"] + arrays[f"{species}/position/{a}"].astype(float)
        for a in "xy"
    )
    row = arrays[f"{species}/positionOffset/y"] // config.height
    return x, y - (row + 0.5) * config.height, np.where(row % 2 == 0, 1.0, -1.0)


def psi_over_u(config, x, y, eps):
    """psi / U [cells]."""
    k = 2 * np.pi * config.waves / config.grid[0]
    return -np.log(np.cosh(k * y) - eps * np.cos(k * x)) / k


# ---------------------------------------------------------------- the flow


@pytest.mark.parametrize("species", ["e", "i"])
@pytest.mark.parametrize("eps", [0.05, 0.9])
def test_momenta_are_those_of_the_stream_function(species, eps):
    config = small(eps_start=eps, eps_end=eps, last_step=7, period=7, species=("e", "i"))
    h = 1e-5
    for frames in copied(config):
        arrays = joined(frames)
        x, y, sign = place(config, arrays, species)
        vx = psi_over_u(config, x, y + h, eps) - psi_over_u(config, x, y - h, eps)
        vy = psi_over_u(config, x - h, y, eps) - psi_over_u(config, x + h, y, eps)
        v = U * sign * np.stack([vx, vy]) / (2 * h)
        mass = 1.0 if species == "e" else 1836.152672
        expected = mass * v / np.sqrt(1 - (v**2).sum(axis=0))
        for axis, component in zip("xy", expected, strict=True):
            got = arrays[f"{species}/momentum/{axis}"]
            np.testing.assert_allclose(got, component, atol=2e-5 * mass * U, rtol=0)
        assert not arrays[f"{species}/momentum/z"].any()


@pytest.mark.parametrize("eps", [0.01, 0.5, 0.9])
def test_the_flow_has_no_divergence(eps):
    """From differences of fourth order of the compiled function, over one wavelength."""
    n, single = 256, np.float32
    a = np.arange(n) / n  # [turns]
    b = (np.arange(n) - n / 2) / n * 2 * np.pi  # [1]
    v = np.array(
        [
            [stuart.velocity(single(t), single(h / math.log(2)), single(eps), single(U)) for t in a]
            for h in b
        ],
        float,
    )

    def slope(f, axis, step):
        near = np.roll(f, -1, axis) - np.roll(f, 1, axis)
        far = np.roll(f, -2, axis) - np.roll(f, 2, axis)
        return ((8 * near - far) / (12 * step))[4:-4]

    along, across = slope(v[..., 0], 1, 2 * np.pi / n), slope(v[..., 1], 0, 2 * np.pi / n)
    assert np.abs(along).max() > 0.1 * U * eps  # there is something to cancel
    assert np.abs(along + across).max() < 1e-3 * max(np.abs(along).max(), U * 0.1)


def test_particles_stay_evenly_spread():
    """What div v = 0 means for paths; chi^2 of 240 bins has mean 239 and deviation 22."""
    config = small(last_step=700, period=700, eps_start=0.1, particles_per_cell=6)
    _, last = copied(config, seed=3)
    x, y, _ = place(config, joined(last))
    row = joined(last)["e/positionOffset/y"] // config.height
    found, _ = np.histogramdd((x, y, row), bins=(12, 10, 2), range=[(0, 38), (-32, 32), (0, 2)])
    expected = found.sum() / found.size
    assert ((found - expected) ** 2 / expected).sum() < 239 + 5 * 22


@pytest.mark.parametrize(("eps", "tolerance"), [(0.05, 1e-5), (0.5, 2e-4), (0.9, 2e-3)])
def test_psi_is_constant_along_the_paths(eps, tolerance):
    """Over 300 steps at PIConGPU's dt; the tolerance is in parts of psi's range."""
    config = small(eps_start=eps, eps_end=eps, last_step=300, period=60)
    first, *later = (joined(frames) for frames in copied(config))
    x, y, _ = place(config, first)
    psi = psi_over_u(config, x, y, eps)
    for arrays in later:
        at_x, at_y, _ = place(config, arrays)
        drift = psi_over_u(config, at_x, at_y, eps) - psi
        assert np.abs(drift).max() < tolerance * np.ptp(psi)
    assert np.hypot(at_x - x, at_y - y).max() > 5.0  # and they did move


def test_the_drift_of_psi_falls_with_the_square_of_the_step():
    drifts = []
    for halvings in range(3):
        config = small(
            grid=(16, 64), eps_start=0.5, eps_end=0.5, dt_s=4e-16 / 2**halvings,
            last_step=40 * 2**halvings, period=40 * 2**halvings,
        )  # fmt: skip
        first, last = (joined(frames) for frames in copied(config))
        before, after = (psi_over_u(config, *place(config, f)[:2], 0.5) for f in (first, last))
        drifts.append(np.std(after - before))
    assert math.log2(drifts[0] / drifts[1]) == pytest.approx(2.0, abs=0.3)
    assert math.log2(drifts[1] / drifts[2]) == pytest.approx(2.0, abs=0.3)


def test_no_particle_is_faster_than_the_flow_can_be():
    config = small(eps_start=0.9, eps_end=0.9, particles_per_cell=50)
    arrays = joined(copied(config)[-1])
    u2 = arrays["e/momentum/x"].astype(float) ** 2 + arrays["e/momentum/y"].astype(float) ** 2
    fastest = np.sqrt(u2 / (1 + u2)).max()
    assert 0.95 < fastest / (U / math.sqrt(1 - 0.9**2)) < 1 + 1e-5


def test_vortices_grow_at_the_fastest_rate_of_the_instability_and_saturate():
    config = small(eps_start=1e-4, eps_end=0.8)
    omega_dt = units.plasma_frequency(config.density_m3) * config.dt_s
    fastest = max(shear.growth_rate(k, GAMMA) for k in np.linspace(2, 4, 400))
    early = config.eps(np.array([0.0, 100.0]))
    assert early[0] == pytest.approx(1e-4)
    assert np.log(early[1] / early[0]) == pytest.approx(100 * omega_dt * fastest, rel=1e-3)
    assert config.eps(np.array(3000.0)) == pytest.approx(0.8)


def test_the_grown_flow_has_more_motion_across_than_the_young_one():
    config = small(last_step=1000, period=1000, particles_per_cell=1)
    young, grown = (joined(f)["e/momentum/y"].std() for f in copied(config))
    assert grown > 10 * young


# ---------------------------------------------------------------- the numbers do not depend on ...


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_the_numbers_do_not_depend_on_the_ranks(ranks):
    values = {"grid": (16, 40), "rows": 5, "last_step": 30, "period": 15, "momentum_prev": True}
    one, several = (copied(small(ranks=r, **values)) for r in (1, ranks))
    for left, right in zip(one, several, strict=True):
        assert len(right) == ranks
        for path, array in joined(right).items():
            np.testing.assert_array_equal(array, joined(left)[path], err_msg=path)


def test_the_numbers_do_not_depend_on_period_and_first_step():
    every = copied(small(momentum_prev=True, last_step=8))
    rare = copied(small(momentum_prev=True, last_step=8, period=4))
    late = copied(small(momentum_prev=True, last_step=8, first_step=5))
    for path, array in joined(every[8]).items():
        np.testing.assert_array_equal(joined(rare[-1])[path], array, err_msg=path)
        np.testing.assert_array_equal(joined(late[-1])[path], array, err_msg=path)


def test_momentum_prev_is_the_momentum_one_step_before():
    frames = [joined(f) for f in copied(small(momentum_prev=True))]
    for axis in "xy":
        np.testing.assert_array_equal(
            frames[3][f"e/momentumPrev1/{axis}"], frames[2][f"e/momentum/{axis}"]
        )
        assert (frames[3][f"e/momentumPrev1/{axis}"] != frames[3][f"e/momentum/{axis}"]).any()
        np.testing.assert_array_equal(  # no step is before the start
            frames[0][f"e/momentumPrev1/{axis}"], frames[0][f"e/momentum/{axis}"]
        )


def test_a_frozen_flow_repeats_its_first_output():
    frozen = copied(small(motion=Motion.FROZEN, first_step=3, last_step=7, momentum_prev=True))
    moving = copied(small(first_step=3, last_step=3, momentum_prev=True))
    assert len(frozen) == 5
    for frames in frozen:
        for path, array in joined(frames).items():
            np.testing.assert_array_equal(array, joined(moving[0])[path], err_msg=path)


# ---------------------------------------------------------------- config and label


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"ranks": 3}, "ranks"),
        ({"ranks": 0}, "ranks"),
        ({"rows": 3}, "grid"),
        ({"grid": (0, 128)}, "grid"),
        ({"gamma": 1.0}, "gamma"),
        ({"gamma": 1.5}, "eps_end"),
        ({"eps_start": 0.0}, "eps_start"),
        ({"eps_start": 0.95}, "eps_start"),
        ({"dt_s": 1e-15}, "dt_s"),
        ({"dt_s": float("nan")}, "dt_s"),
        ({"period": 0}, "period"),
        ({"waves": 0}, "waves"),
        ({"first_step": 5}, "last_step"),
        ({"particles_per_cell": 0}, "particles_per_cell"),
        ({"species": ()}, "species"),
        ({"species": ("e", "e")}, "species"),
        ({"pace_s": -1.0}, "pace_s"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(wrong, name):
    with pytest.raises(ConfigError, match=rf"{name}.*wanted .*got"):
        small(**wrong)


def test_a_config_builds_it_from_plain_values():
    built = plugins.build(
        {
            "use": "producers.flow:VortexFlow", "grid": [16, 32], "last_step": 4,
            "species": ["e", "i"], "motion": "frozen",
        },
        "source.producer",
    )  # fmt: skip
    assert built == VortexFlow(grid=(16, 32), last_step=4, species=("e", "i"), motion=Motion.FROZEN)


def test_it_says_that_it_is_no_physics():
    series = small().series()
    assert "load generator" in series.software
    assert "not physics" in series.attributes["comment"]
    assert series.attributes["particles/e/particlePush"] == "other"
    assert series.attributes["particles/e/currentDeposition"] == "none"
    assert "not physics" in VortexFlow.__doc__
