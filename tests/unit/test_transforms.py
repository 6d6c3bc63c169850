"""Frames to samples: selection, sub-sampling, phase space, spectra, and the chain of them.

Real particles and amplitudes are PIConGPU's (tests/data); expected numbers are formed another way.
"""

from __future__ import annotations

import cmath
import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from transforms.phase_space import PhaseSpace
from transforms.select import Boxes
from transforms.spectrum import LogSpectrum
from transforms.subsample import Subsample, draw
from workflow import chain as chains
from workflow.errors import ConfigError, DataError
from workflow.types import Box, Dropped, Frame, Sample, Unit

DATA = Path(__file__).parents[1] / "data"
M_E = 9.1093837e-31  # [kg]
C = 299792458.0  # [m/s]


def frame_of(arrays, units=None, *, index=0, offset=(0, 0, 0), extent=(8, 8, 4), iteration=700):
    return Frame(
        stream="simulation",
        iteration=iteration,
        time_s=1e-13,
        dt_s=1.79e-16,
        box=Box(index=index, offset=tuple(offset), extent=tuple(extent)),
        arrays=arrays,
        units=units or {},
    )


def picongpu_frame():
    """768 electrons exactly as PIConGPU wrote them, with their units."""
    raw = dict(np.load(DATA / "picongpu_electrons.npz"))
    arrays = {k.replace(".", "/"): v for k, v in raw.items() if k.startswith("e.")}
    arrays["e/mass"] = np.broadcast_to(np.float64(raw["mass_value"]), (768,))
    units = {"e/mass": Unit(si=float(raw["mass_unit_si"]), weighting_power=1.0)}
    units["e/weighting"] = Unit(si=1.0, macro_weighted=True, weighting_power=1.0)
    for axis in "xyz":
        for record in ("momentum", "momentumPrev1"):
            units[f"e/{record}/{axis}"] = Unit(
                si=float(raw["momentum_unit_si"]), macro_weighted=True, weighting_power=1.0
            )
        for record in ("position", "positionOffset"):
            units[f"e/{record}/{axis}"] = Unit(si=float(raw["position_unit_si"]))
    return frame_of(arrays, units, offset=raw["box_offset"], extent=raw["box_extent"])


def counting_frame(count, **kwargs):
    """A species whose particles carry their own number in every record."""
    number = np.arange(count, dtype=np.float32)
    return frame_of(
        {
            "e/momentum/x": number,
            "e/weighting": 2 * number,
            "e/mass": np.broadcast_to(np.float32(3), (count,)),
            "i/momentum/x": np.zeros(5),
        },
        **kwargs,
    )


def rng():
    return np.random.default_rng(7)


# ---------------------------------------------------------------- boxes


def test_a_box_is_in_the_region_that_holds_its_centre_and_in_no_neighbouring_one():
    lower = Boxes(region=((0, 48), (0, 24)))
    upper = Boxes(region=((0, 48), (24, 48)))
    for offset in range(0, 48, 6):
        box = Box(index=0, offset=(0, offset), extent=(24, 12))
        centre = offset + 6
        assert lower.selects(box) == (centre < 24)
        assert upper.selects(box) == (24 <= centre < 48)


def test_a_region_in_fractions_means_the_same_as_in_cells():
    cells = Boxes(region=((0, 24), (24, 72), (0, 12)))
    fraction = Boxes(region=((0, 0.5), (0.25, 0.75), (0, 1)), unit="fraction", grid=(48, 96, 12))
    boxes = [
        Box(index=0, offset=(x, y, 0), extent=(24, 24, 12))
        for x in (0, 24)
        for y in range(0, 96, 24)
    ]
    chosen = [b.offset for b in boxes if cells.selects(b)]
    assert chosen == [b.offset for b in boxes if fraction.selects(b)] == [(0, 24, 0), (0, 48, 0)]


def test_a_box_must_satisfy_both_region_and_indices():
    both = Boxes(region=((0, 10),), indices=(1, 2))
    assert both.selects(Box(index=1, offset=(0,), extent=(10,)))
    assert not both.selects(Box(index=0, offset=(0,), extent=(10,)))
    assert not both.selects(Box(index=1, offset=(10,), extent=(10,)))


def test_a_box_outside_is_dropped_as_not_selected():
    dropped = Boxes(indices=(3,)).apply(counting_frame(4, index=2), rng())
    assert isinstance(dropped, Dropped)
    assert (dropped.by, dropped.reason) == ("Boxes", "not selected")
    assert dropped.key == ("simulation", 700, 2)


def test_a_region_with_other_axes_than_the_box_is_a_data_error():
    with pytest.raises(DataError, match="region has 2 axes, box 0 has 3"):
        Boxes(region=((0, 1), (0, 1))).selects(Box(index=0, offset=(0, 0, 0), extent=(1, 1, 1)))


# ---------------------------------------------------------------- sub-sampling


def test_all_records_of_a_species_are_cut_by_the_same_indices_and_others_are_left():
    out = Subsample(particles=64).apply(counting_frame(1000), rng())
    x, w = out.arrays["e/momentum/x"], out.arrays["e/weighting"]
    assert x.shape == (64,)
    assert len(set(x.tolist())) == 64, "without replacement"
    np.testing.assert_array_equal(w, 2 * x)
    assert out.arrays["i/momentum/x"].shape == (5,)


def test_a_constant_record_stays_constant_without_memory():
    out = Subsample(particles=64).apply(counting_frame(1000), rng())
    assert out.arrays["e/mass"].strides == (0,)
    assert out.arrays["e/mass"].shape == (64,)


def test_every_particle_is_drawn_equally_often():
    counts = np.zeros(40)
    generator = rng()
    for _ in range(4000):
        counts[draw(40, 10, generator)] += 1
    # 4000 draws of 10 out of 40: mean 1000, hypergeometric std sqrt(4000 * 1/4 * 3/4) = 27.4
    assert np.abs(counts - 1000).max() < 4.5 * 27.4
    chi2 = np.square(counts - 1000).sum() / (27.4**2 * 40 / 39)
    assert 10 < chi2 < 90, "39 degrees of freedom"


@pytest.mark.parametrize("count", [20_000, 300])  # Floyd's algorithm, and the tail shuffle
def test_first_and_last_particle_can_be_drawn(count):
    generator = rng()
    seen = np.concatenate([draw(count, 256, generator) for _ in range(600)])
    assert seen.min() < count / 100
    assert seen.max() > count - count / 100


def test_a_short_box_is_dropped_with_its_numbers_or_drawn_with_repetition():
    short = counting_frame(37)
    dropped = Subsample(particles=256).apply(short, rng())
    assert dropped.reason == "short box: 37 of 256 particles"
    out = Subsample(particles=256, short="repeat").apply(short, rng())
    x = out.arrays["e/momentum/x"]
    assert x.shape == (256,)
    assert len(set(x.tolist())) <= 37
    np.testing.assert_array_equal(out.arrays["e/weighting"], 2 * x)


@pytest.mark.parametrize("short", ["drop", "repeat"])
def test_a_box_without_particles_is_always_dropped(short):
    dropped = Subsample(particles=4, short=short).apply(counting_frame(0), rng())
    assert dropped.reason == "empty species e"


def test_a_species_that_is_not_in_the_frame_is_dropped_as_missing():
    dropped = Subsample(particles=4, species="D").apply(counting_frame(9), rng())
    assert dropped.reason == "missing: species D"


def test_an_exact_count_keeps_every_particle():
    out = Subsample(particles=50).apply(counting_frame(50), rng())
    np.testing.assert_array_equal(out.arrays["e/momentum/x"], np.arange(50))


def test_records_of_different_lengths_are_a_corrupt_frame():
    frame = counting_frame(9)
    torn = dataclasses.replace(frame, arrays={**frame.arrays, "e/momentum/y": np.zeros(8)})
    outcome = chains.run([Subsample(particles=4)], torn, seed=1)
    assert isinstance(outcome, Dropped)
    assert "e/momentum/y: 8" in outcome.reason


# ---------------------------------------------------------------- phase space


def test_picongpu_electrons_become_gamma_beta_in_plain_arithmetic():
    frame = picongpu_frame()
    particles = PhaseSpace().apply(frame, rng()).arrays["particles"]
    assert particles.shape == (768, 6)
    assert particles.dtype == np.float32
    for i in (0, 5, 767):
        weighting = float(frame.arrays["e/weighting"][i])
        mass = float(frame.arrays["e/mass"][i]) * frame.units["e/mass"].si
        assert mass == pytest.approx(M_E, rel=1e-5)
        for j, axis in enumerate("xyz"):
            p = float(frame.arrays[f"e/momentum/{axis}"][i])
            before = float(frame.arrays[f"e/momentumPrev1/{axis}"][i])
            to_u = frame.units[f"e/momentum/{axis}"].si / weighting / (mass * C)
            assert particles[i, j] == pytest.approx(p * to_u, rel=1e-6)
            assert particles[i, 3 + j] == pytest.approx((p - before) * to_u, rel=1e-6)


def test_picongpu_electrons_move_with_the_drift_of_the_run():
    particles = PhaseSpace().apply(picongpu_frame(), rng()).arrays["particles"]
    # gamma 1.021: gamma beta = sqrt(gamma^2 - 1)
    assert np.abs(particles[:, 0]).mean() == pytest.approx(math.sqrt(1.021**2 - 1), rel=5e-3)


def test_a_number_per_real_particle_is_not_divided_by_the_weighting():
    frame = picongpu_frame()
    units = {
        path: dataclasses.replace(u, macro_weighted=False) if "/momentum" in path else u
        for path, u in frame.units.items()
    }
    real = dataclasses.replace(frame, units=units)
    macro_u = PhaseSpace().apply(frame, rng()).arrays["particles"]
    real_u = PhaseSpace().apply(real, rng()).arrays["particles"]
    weighting = float(frame.arrays["e/weighting"][0])
    np.testing.assert_allclose(real_u, macro_u * weighting, rtol=1e-6)


def test_the_weighting_power_of_the_stream_is_honoured():
    frame = picongpu_frame()
    units = {
        path: dataclasses.replace(u, weighting_power=0.5) if "/momentum" in path else u
        for path, u in frame.units.items()
    }
    half = PhaseSpace().apply(dataclasses.replace(frame, units=units), rng()).arrays["particles"]
    full = PhaseSpace().apply(frame, rng()).arrays["particles"]
    weighting = float(frame.arrays["e/weighting"][0])
    np.testing.assert_allclose(half, full * math.sqrt(weighting), rtol=1e-6)


def test_a_small_change_survives_a_large_momentum():
    ulp = np.float32(1.0000001)  # the change is one bit of float32
    arrays = {
        f"e/{r}/{a}": np.ones(3, np.float32) for r in ("momentum", "momentumPrev1") for a in "xyz"
    }
    arrays["e/momentum/x"] = np.full(3, ulp)
    arrays |= {"e/weighting": np.full(3, 7.0), "e/mass": np.full(3, M_E)}
    units = {path: Unit(si=M_E * C) for path in arrays} | {"e/mass": Unit(si=1.0)}
    particles = PhaseSpace().apply(frame_of(arrays, units), rng()).arrays["particles"]
    assert particles[0, 3] == pytest.approx(float(ulp) - 1.0, rel=1e-6)
    assert particles[0, 4] == 0.0


def test_without_change_only_what_is_needed_is_asked_for():
    stage = PhaseSpace(change="never")
    assert stage.needs() == ("e/momentum", "e/weighting", "e/mass")
    assert stage.makes() == {"particles": (-1, 3)}
    frame = picongpu_frame()
    slim = {p: a for p, a in frame.arrays.items() if "Prev1" not in p and "position" not in p}
    out = stage.apply(dataclasses.replace(frame, arrays=slim), rng())
    np.testing.assert_array_equal(
        out.arrays["particles"], PhaseSpace().apply(frame, rng()).arrays["particles"][:, :3]
    )


def test_the_place_in_the_box_is_a_fraction_of_it():
    frame = picongpu_frame()
    stage = PhaseSpace(change="never", position=("x", "y", "z"))
    place = stage.apply(frame, rng()).arrays["particles"][:, 3:]
    assert place.min() >= 0
    assert place.max() <= 1
    assert np.ptp(place, axis=0).min() > 0.7, "the particles fill their box"
    i = 11
    cells = float(frame.arrays["e/positionOffset/x"][i]) + float(frame.arrays["e/position/x"][i])
    assert place[i, 0] == pytest.approx((cells - 8) / 8, rel=1e-5)


def test_a_frame_without_units_is_dropped_and_says_which():
    frame = dataclasses.replace(picongpu_frame(), units={})
    outcome = chains.run([Subsample(particles=8), PhaseSpace()], frame, seed=1)
    assert isinstance(outcome, Dropped)
    assert outcome.by == "PhaseSpace"
    assert "e/mass" in outcome.reason
    assert "unitSI" in outcome.reason


# ---------------------------------------------------------------- spectra


def amplitudes(dump=1):
    """Of six real boxes, [component] (boxes, directions, frequencies) complex128."""
    pairs = np.load(DATA / "khi3d_pairs_thin.npz")
    amplitude = pairs["amplitude"][dump].astype(np.complex128)  # (6, 2, 64, 3)
    return pairs, np.moveaxis(amplitude, -1, 0)


def distributed(box):
    _, parts = amplitudes()
    return frame_of(
        {f"Amplitude_distributed/{c}": part for c, part in zip("xyz", parts, strict=True)},
        index=box,
    )


def test_the_spectrum_of_a_box_is_the_log_of_its_summed_squares():
    _, parts = amplitudes()
    stage = LogSpectrum(frequencies=64, direction=1)
    for box in (0, 5):
        spectrum = stage.apply(distributed(box), rng()).arrays["spectrum"]
        assert spectrum.dtype == np.float32
        for f in range(64):
            total = sum(cmath.polar(complex(part[box, 1, f]))[0] ** 2 for part in parts)
            assert spectrum[f] == pytest.approx(math.log(total + 1e-9), rel=1e-6)


def test_boxes_have_different_spectra_and_frequencies_that_are_zero_sit_on_the_floor():
    first, last = (
        LogSpectrum(frequencies=64).apply(distributed(box), rng()).arrays["spectrum"]
        for box in (0, 3)
    )
    assert np.abs(first - last).max() > 0.1
    assert first[-1] == pytest.approx(math.log(1e-9), rel=1e-6)
    assert first.max() > -10


def test_all_layouts_of_one_amplitude_give_the_same_spectrum():
    _, parts = amplitudes()
    box = 2
    one_rank = {f"A/{c}": p[box : box + 1] for c, p in zip("xyz", parts, strict=True)}
    no_rank = {f"A/{c}": p[box] for c, p in zip("xyz", parts, strict=True)}
    pairs = {}
    for c, p in zip("xyz", parts, strict=True):
        pairs[f"A/{c}_Re"], pairs[f"A/{c}_Im"] = p[box].real[..., None], p[box].imag[..., None]
    squares = {"A": sum(np.abs(p[box]) ** 2 for p in parts)}
    line = {"A": sum(np.abs(p[box, 0]) ** 2 for p in parts)}
    stage = LogSpectrum(frequencies=64, record="A")
    expected = LogSpectrum(frequencies=64).apply(distributed(box), rng()).arrays["spectrum"]
    for layout in (one_rank, no_rank, pairs, squares, line):
        got = stage.apply(frame_of(layout, index=box), rng()).arrays["spectrum"]
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_scaling_comes_before_float32_so_that_tiny_intensities_survive():
    pairs, parts = amplitudes()
    si = float(pairs["unitSI"])  # about 2e-33: squares times it underflow float32
    stage = LogSpectrum(frequencies=64, scale=si, floor=1e-60)
    spectrum = stage.apply(distributed(1), rng()).arrays["spectrum"]
    total = sum(np.abs(part[1, 0]) ** 2 for part in parts)
    bright = total > 1e-6
    assert bright.sum() > 20
    np.testing.assert_allclose(spectrum[bright], np.log(total[bright]) + math.log(si), rtol=1e-6)
    dark = total == 0
    assert dark.any()
    np.testing.assert_allclose(spectrum[dark], math.log(1e-60), rtol=1e-6)  # not scaled


@pytest.mark.parametrize(
    ("stage", "wanted"),
    [
        (LogSpectrum(frequencies=512), "wanted 512 frequencies"),
        (LogSpectrum(frequencies=64, direction=2), "got 2 directions"),
        (LogSpectrum(frequencies=64, record="Amplitude"), "missing: Amplitude"),
    ],
)
def test_a_spectrum_that_does_not_fit_is_dropped_with_what_to_change(stage, wanted):
    outcome = chains.run([stage], distributed(0), seed=1)
    assert isinstance(outcome, Dropped)
    assert wanted in outcome.reason


def test_a_box_beyond_the_ranks_is_dropped():
    outcome = chains.run([LogSpectrum(frequencies=64)], distributed(6), seed=1)
    assert "got 6 rows and box 6" in outcome.reason


def test_half_a_pair_is_dropped():
    frame = frame_of({"A/x_Re": np.ones((2, 64, 1))})
    outcome = chains.run([LogSpectrum(frequencies=64, record="A")], frame, seed=1)
    assert "wanted both A/x_Re and A/x_Im" in outcome.reason


# ---------------------------------------------------------------- the chain

CHAIN = (Boxes(indices=(0,)), Subsample(particles=32), PhaseSpace())
OFFERS = ("e/momentum", "e/momentumPrev1", "e/weighting", "e/mass", "E")


def test_a_chain_knows_what_it_needs_and_makes():
    assert chains.needs(CHAIN) == ("e/momentum", "e/weighting", "e/mass", "e/momentumPrev1")
    assert chains.makes(CHAIN) == {"particles": (32, 6)}
    chains.check(CHAIN, OFFERS)
    chains.check(CHAIN, None)


def test_a_missing_record_is_named_with_who_needs_it_and_what_there_is():
    offers = [o for o in OFFERS if o != "e/momentumPrev1"]
    with pytest.raises(ConfigError) as caught:
        chains.check(CHAIN, offers)
    message = str(caught.value)
    for part in ("PhaseSpace", "'e/momentumPrev1'", "E, e/mass, e/momentum, e/weighting"):
        assert part in message


def test_a_chain_whose_samples_have_no_fixed_length_is_refused():
    with pytest.raises(ConfigError, match="Subsample"):
        chains.check([PhaseSpace()], OFFERS)
    with pytest.raises(ConfigError, match="no fixed length"):
        chains.check([Subsample(particles=9, species="i"), PhaseSpace()], OFFERS)
    with pytest.raises(ConfigError, match="no fixed length"):
        chains.check([PhaseSpace(), Subsample(particles=9)], None)


def test_a_chain_that_makes_nothing_or_the_same_twice_is_refused():
    with pytest.raises(ConfigError, match="makes no array"):
        chains.check([Subsample(particles=9)], OFFERS)
    with pytest.raises(ConfigError, match="'particles' is made twice"):
        chains.check([*CHAIN, PhaseSpace(change="never")], OFFERS)


def test_a_sample_has_only_what_the_chain_makes_as_float32_of_its_own():
    sample = chains.run(CHAIN, picongpu_frame(), seed=3)
    assert isinstance(sample, Sample)
    assert sample.key == ("simulation", 700, 0)
    assert set(sample.arrays) == {"particles"}
    assert sample.arrays["particles"].shape == (32, 6)
    assert sample.arrays["particles"].dtype == np.float32
    root = sample.arrays["particles"]
    while root.base is not None:
        root = root.base
    assert root.nbytes == sample.arrays["particles"].nbytes, "it must not pin the frame"


def test_the_same_frame_gives_the_same_sample_whenever_and_whoever_does_it():
    frame = picongpu_frame()
    first = chains.run(CHAIN, frame, seed=3).arrays["particles"]
    chains.run(CHAIN, dataclasses.replace(frame, iteration=701), seed=3)
    np.testing.assert_array_equal(first, chains.run(CHAIN, frame, seed=3).arrays["particles"])


@pytest.mark.parametrize(
    "change",
    [{"seed": 4}, {"iteration": 701}, {"stream": "other"}, {"box": 1}],
)
def test_another_seed_iteration_stream_or_box_draws_other_particles(change):
    chain = CHAIN[1:]
    frame = picongpu_frame()
    seed = change.get("seed", 3)
    other = dataclasses.replace(
        frame,
        stream=change.get("stream", frame.stream),
        iteration=change.get("iteration", frame.iteration),
        box=dataclasses.replace(frame.box, index=change.get("box", 0)),
    )
    a = chains.run(chain, frame, seed=3).arrays["particles"]
    b = chains.run(chain, other, seed=seed).arrays["particles"]
    assert not np.array_equal(a, b)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("e/momentum/y", np.nan, "non-finite: 2 of 192 values of 'particles'"),
        ("e/weighting", 0.0, "non-finite: "),
        ("e/momentum/x", np.inf, "non-finite: 2 of 192 values of 'particles'"),
    ],
)
def test_non_finite_particles_are_dropped_by_name(path, value, reason):
    frame = picongpu_frame()
    array = frame.arrays[path].copy()
    array[5] = value
    poisoned = dataclasses.replace(
        frame, arrays={p: (array if p == path else a)[:32] for p, a in frame.arrays.items()}
    )
    outcome = chains.run(CHAIN, poisoned, seed=3)
    assert isinstance(outcome, Dropped)
    assert outcome.by == "PhaseSpace"
    assert outcome.reason.startswith(reason)


def test_a_value_beyond_float32_is_dropped():
    @dataclasses.dataclass(frozen=True)
    class Huge:
        def needs(self):
            return ()

        def makes(self):
            return {"huge": (2,)}

        def apply(self, frame, rng):
            return dataclasses.replace(frame, arrays={"huge": np.array([1.0, 1e39])})

    outcome = chains.run([Huge()], counting_frame(3), seed=0)
    assert outcome.reason == "beyond float32: 'huge'"


@dataclasses.dataclass(frozen=True)
class Failing:
    error: Exception

    def needs(self):
        return ()

    def makes(self):
        return {"x": (1,)}

    def apply(self, frame, rng):
        raise self.error


@pytest.mark.parametrize(
    "error", [DataError("torn"), ValueError("torn"), ZeroDivisionError("torn")]
)
def test_one_bad_frame_is_data_and_says_who_set_it_aside(error):
    outcome = chains.run([Failing(error)], counting_frame(3), seed=0)
    assert isinstance(outcome, Dropped)
    assert outcome.by == "Failing"
    assert outcome.reason == f"{type(error).__name__}: torn"


@pytest.mark.parametrize("error", [TypeError("bug"), KeyError("bug"), ConfigError("bug")])
def test_a_defect_in_a_stage_is_not_hidden_as_a_bad_frame(error):
    with pytest.raises(type(error), match="bug"):
        chains.run([Failing(error)], counting_frame(3), seed=0)


def test_a_frame_that_lacks_a_record_is_dropped_as_missing_it():
    frame = picongpu_frame()
    arrays = {p: a for p, a in frame.arrays.items() if not p.startswith("e/momentumPrev1/")}
    outcome = chains.run(CHAIN, dataclasses.replace(frame, arrays=arrays), seed=0)
    assert (outcome.by, outcome.reason) == ("PhaseSpace", "missing: e/momentumPrev1")


def test_selection_is_known_before_any_data_is_read():
    assert chains.selects(CHAIN, Box(index=0, offset=(0,), extent=(1,)))
    assert not chains.selects(CHAIN, Box(index=1, offset=(0,), extent=(1,)))
