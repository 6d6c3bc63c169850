"""The comparisons with PIConGPU measure what they say, on its own data and on made-up ones."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import khi_boxes, picongpu_energy, radiation_pairs

OMEGA_DT = picongpu_energy.CONFIG.plasma.omega_dt


def test_picongpus_recorded_rate_is_the_known_one():
    recorded = picongpu_energy.picongpu()
    assert picongpu_energy.rate(recorded, OMEGA_DT, 800, 1000) == pytest.approx(0.295, abs=1e-3)
    assert recorded.bz[recorded.steps == 2000] == pytest.approx([6.267e-8], rel=1e-3)
    assert recorded.kinetic[0] == pytest.approx(2.3e-7, rel=1e-3)


@pytest.mark.parametrize("early", [-40, 0, 65])
def test_a_curve_that_is_only_shifted_has_the_same_rate_once_it_is_shifted_back(early):
    recorded = picongpu_energy.picongpu()
    shifted = replace(recorded, steps=recorded.steps - early)
    assert picongpu_energy.ahead(shifted, recorded) == pytest.approx(early, abs=0.1)
    back = picongpu_energy.rate(shifted, OMEGA_DT, 800 - early, 1000 - early)
    assert back == pytest.approx(picongpu_energy.rate(recorded, OMEGA_DT, 800, 1000), rel=1e-9)


def test_the_table_tells_rate_shift_and_energy_of_each_run():
    recorded = picongpu_energy.picongpu()
    half = replace(recorded, name="half", fields={"B/z": 0.5 * recorded.bz})
    rows = picongpu_energy.compare([half], recorded, OMEGA_DT)
    assert rows[0, 0] == pytest.approx(0.2947, abs=1e-4)
    assert rows[0, 1] < -20  # half the energy is reached later
    assert rows[0, 3] == pytest.approx(0.5)
    assert "| half | 0.2947 |" in picongpu_energy.table([half], rows, 0.2947)


def test_the_real_boxes_are_two_of_bulk_and_four_at_the_shear():
    boxes = khi_boxes.real_boxes()
    assert [b.region for b in boxes] == ["bulk"] * 2 + ["vortex"] * 4
    bulk = khi_boxes.of("bulk", boxes)
    assert bulk[0].statistics[0] == pytest.approx(0.2062, abs=1e-4)  # against +x or -x alike
    assert bulk[1].statistics[0] == pytest.approx(0.2062, abs=1e-4)
    assert all(0.03 < b.statistics[4] < 0.05 for b in khi_boxes.of("vortex", boxes))
    assert all(np.all(np.diff(b.quantiles) >= 0) for b in boxes)


@pytest.mark.parametrize(
    ("y", "region", "flow"),
    [(16, "bulk", 1), (48, "vortex", 1), (80, "vortex", -1), (112, "bulk", -1), (208, "vortex", 1)],
)
def test_a_box_is_put_into_its_region_and_turned_along_its_flow(y, region, flow):
    rng = np.random.default_rng(1)
    u = rng.normal(0.0, 1e-3, (3, 4000))
    u[0] += 0.2 * flow
    u[0, :400] *= -1
    found = khi_boxes.box(u, y)
    assert found.region == region
    assert found.statistics[4] == pytest.approx(0.1)
    assert found.statistics[0] == pytest.approx(0.16, abs=1e-3)
    assert khi_boxes.distance([found], [found]) == 0.0


# ---------------------------------------------------------------- what boxes radiate


def as_ours(recorded, *, early=0, factor=1.0):
    """PIConGPU's boxes as if they were a run of ours: sooner, and brighter by a factor."""
    return replace(
        recorded,
        name="as ours",
        steps=recorded.steps - early,
        intensity=recorded.intensity * factor,
    )


@pytest.mark.parametrize("early", [-20, 0, 33])
def test_boxes_that_are_only_sooner_agree_on_the_clock_of_their_fields(early):
    recorded, _, omega = radiation_pairs.picongpu()
    run = as_ours(recorded, early=early)
    for clock in radiation_pairs.Clock:
        assert radiation_pairs.ahead(run, 0, recorded, clock) == pytest.approx(early, abs=1e-6)
        cells = compared(recorded, run, omega, clock)
        np.testing.assert_allclose(cells.ratio, 1.0, rtol=0.05)  # interpolated between dumps
        assert cells.agree.all()
        assert radiation_pairs.verdict(cells).endswith("The runs agree.")


def compared(recorded, run, omega, clock=radiation_pairs.Clock.EX):
    growths = [radiation_pairs.on_clock([r], recorded, clock) for r in (recorded, run)]
    bands = [radiation_pairs.bands_of(growth, omega) for growth in growths]
    return radiation_pairs.compare(
        *bands, tuple(growth.forward for growth in growths), recorded.steps
    )


def test_a_window_that_is_left_out_would_be_seen():
    """A triangle over the box leaves about 1/30 of the power."""
    recorded, direction, omega = radiation_pairs.picongpu()
    cells = compared(recorded, as_ours(recorded, factor=30.0), omega)
    np.testing.assert_allclose(cells.ratio, 1 / 30, rtol=1e-6)
    assert cells.agree.mean() < 0.5
    said = radiation_pairs.verdict(cells)
    assert f"{int(cells.agree.sum())} of 160 cells agree" in said
    assert "0.03 at 0.1 to 1" in said
    assert "The runs do not agree" in said
    assert "**0.03**" in radiation_pairs.table(cells, direction)


def test_a_plane_that_never_comes_as_far_is_left_out():
    recorded, _, _ = radiation_pairs.picongpu()
    late = replace(recorded, energy={c: 1e-3 * e for c, e in recorded.energy.items()})
    growth = radiation_pairs.on_clock([late], recorded, radiation_pairs.Clock.BZ)
    assert np.isnan(growth.spectrum).all()
