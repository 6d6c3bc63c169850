"""The Kelvin-Helmholtz producer's radiation: what is written, and that it is what was radiated."""

import itertools
import math

import numpy as np
import pytest

from producers.khi import KelvinHelmholtz
from producers.radiation import FormFactor, Method, Radiation, Window
from producers.setup import Start
from transforms.spectrum import LogSpectrum
from workflow import chain as chains
from workflow import plugins, streams
from workflow.errors import ConfigError
from workflow.streams import MemoryStream
from workflow.types import Frame, Hosting

AXES = "xyz"
FEW = Radiation(frequencies=16)
C = 299_792_458.0


def small(**changes):
    values = {
        "grid": (8, 16), "particles_per_cell": 4, "last_step": 6, "period": 2, "first_step": 2,
        "dtype": "float64", "radiation": FEW,
    }  # fmt: skip
    return KelvinHelmholtz(**(values | changes))


def frames_of(config, seed=1, hosting=Hosting.INLINE):
    """All frames, copied: [[{path: array} of each box] of each iteration]."""
    return [
        [{k: np.array(a) for k, a in frame.arrays.items()} for frame in frames]
        for frames in config.iterations(seed, hosting=hosting)
    ]


def amplitudes(iterations):
    """(iterations, boxes, 3, directions, frequencies)."""
    return np.array(
        [
            [[box[f"Amplitude_distributed/{a}"] for a in AXES] for box in boxes]
            for boxes in iterations
        ]
    )


# ---------------------------------------------------------------- config


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"directions": []}, "directions: wanted at least one"),
        ({"directions": [[1, 0, 0], [0, 0, 0]]}, r"directions\.1: wanted a vector"),
        ({"directions": [[1, 0]]}, r"directions\.0"),
        ({"frequencies": 0}, "frequencies: wanted 1 or more, got 0"),
        ({"lowest": 0}, "lowest, highest: wanted"),
        ({"lowest": 3, "highest": 2}, "lowest, highest: wanted"),
        ({"nyquist": 0}, "nyquist: wanted"),
        ({"nyquist": 1.5}, "nyquist: wanted"),
        ({"oversampling": 1}, "oversampling: wanted 2"),
        ({"start": 0}, "start: wanted 1"),
        ({"form_factor": "square"}, "form_factor.*gauss_spherical"),
        ({"frequences": 3}, "no such field.*frequencies"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(wrong, says):
    spec = {
        "use": "producers.khi:KelvinHelmholtz", "last_step": 4, "period": 2, "radiation": wrong,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=rf"source\.producer\.radiation.*{says}"):
        plugins.build(spec, "source.producer")


def test_radiation_that_would_never_start_is_refused():
    with pytest.raises(ConfigError, match=r"radiation\.start: wanted at most last_step \(6\)"):
        small(radiation=Radiation(start=7))


def test_a_config_builds_it_from_plain_values():
    built = plugins.build(
        {
            "use": "producers.khi:KelvinHelmholtz",
            "last_step": 4,
            "period": 2,
            "radiation": {
                "directions": [[1, 1, 0]], "frequencies": 64, "form_factor": "tsc",
                "window": "triangle", "method": "direct", "nyquist": None,
            },
        },
        "source.producer",
    )  # fmt: skip
    assert built.radiation == Radiation(
        directions=((1.0, 1.0, 0.0),), frequencies=64, form_factor=FormFactor.TSC,
        window=Window.TRIANGLE, method=Method.DIRECT, nyquist=None,
    )  # fmt: skip
    np.testing.assert_allclose(built.radiation.normals, [[math.sqrt(0.5), math.sqrt(0.5), 0]])


def test_the_defaults_are_those_of_the_artificial_scientist():
    radiation = Radiation()
    omega = radiation.omega(2.0)
    assert radiation.normals.tolist() == [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert len(omega) == 512
    assert (omega[0], omega[-1]) == pytest.approx((0.2, 400.0))
    np.testing.assert_allclose(omega[1:] / omega[:-1], 2000 ** (1 / 511))


# ---------------------------------------------------------------- layout


def test_names_shapes_and_units_are_those_of_picongpu():
    config = small(particles_per_cell=25, ranks=2)
    series = config.series()
    assert {"Amplitude_distributed", "DetectorDirection", "DetectorFrequency"} <= set(
        config.offers()
    )
    frame = next(config.iterations(1, hosting=Hosting.INLINE))[1]
    for axis in AXES:
        amplitude = frame.arrays[f"Amplitude_distributed/{axis}"]
        assert (amplitude.shape, amplitude.dtype) == ((4, 16), np.complex128)
        # read from a run of PIConGPU 0.8.0-dev with these parameters
        unit = series.units[f"Amplitude_distributed/{axis}"]
        assert unit.si == pytest.approx(2.0789976352726857e-33, rel=1e-6)
        assert unit.dimension == (2, 1, -1, 0, 0, 0, 0)
        assert frame.arrays[f"DetectorDirection/{axis}"].shape == (4, 1, 1)
    omega, unit = frame.arrays["DetectorFrequency/omega"], series.units["DetectorFrequency/omega"]
    assert omega.shape == (1, 16, 1)
    assert unit.si == pytest.approx(5586592178770950.0, rel=1e-9)
    assert omega[0, 0, 0] * unit.si == pytest.approx(0.1 * 1.784e14, rel=1e-3)
    assert omega[0, -1, 0] * unit.si == pytest.approx(200 * 1.784e14, rel=1e-3)


def test_radiation_changes_nothing_else_that_is_written():
    plain, observed = (frames_of(small(ranks=2, radiation=r)) for r in (None, FEW))
    for before, after in zip(plain, observed, strict=True):
        for old, new in zip(before, after, strict=True):
            for path, array in old.items():
                np.testing.assert_array_equal(new[path], array)


# ---------------------------------------------------------------- what was radiated


def by_hand(config, boxes, step):
    """Amplitude (boxes, 3, directions, frequencies) of one step, from what is written of it."""
    radiation, weighting = config.radiation, config.system.weighting
    omega_dt = config.plasma.omega_dt
    omega = np.geomspace(radiation.lowest, radiation.highest, radiation.frequencies) * omega_dt
    factor = np.sqrt(weighting + (weighting**2 - weighting) * np.exp(-0.25 * omega**2))
    cell = config.cell_m / (C * config.dt_s)
    made = []
    for box in boxes:
        place = [cell * (box[f"e/position/{a}"].astype(float) + box[f"e/positionOffset/{a}"])
                 for a in "xy"]  # fmt: skip
        beta = []
        for record in ("momentum", "momentumPrev1"):
            u = np.array([box[f"e/{record}/{a}"] for a in AXES], float)
            beta.append(u / np.sqrt(1 + (u * u).sum(axis=0)))
        now, before = beta
        total = np.zeros((3, 4, radiation.frequencies), complex)
        for i, n in enumerate(np.array(radiation.directions)):
            s = 1 - n @ now
            v = np.cross(n, np.cross(n - now.T, (now - before).T)) / s[:, None] ** 2
            wave = np.exp(1j * np.outer(omega, step - n[0] * place[0] - n[1] * place[1]))
            wave *= np.outer(omega, s) < 0.5 * (math.pi - 0.01)
            total[:, i] = -(factor / weighting * (wave @ v).T)
        made.append(total)
    return np.array(made)


@pytest.mark.parametrize("method", Method)
def test_the_amplitude_is_what_the_written_particles_radiate(method):
    config = small(
        period=1, first_step=3, last_step=5, ranks=2, temperature_ev=5000.0, momentum_prev=True,
        start=Start.RANDOM, dtype="float32",
        radiation=Radiation(frequencies=16, method=method, oversampling=16),
    )  # fmt: skip
    iterations = frames_of(config)
    got = amplitudes(iterations)
    assert np.any(got)
    for step, boxes, amplitude in zip(config.outputs, iterations, got, strict=True):
        wanted = by_hand(config, boxes, step)
        passes, passed = (np.abs(a).sum(axis=1) > 0 for a in (amplitude, wanted))
        np.testing.assert_array_equal(passes, passed)
        np.testing.assert_allclose(amplitude, wanted, atol=4e-6 * np.abs(wanted).max(), rtol=0)


def test_an_output_holds_what_was_radiated_since_the_last_one():
    direct = Radiation(frequencies=16, method=Method.DIRECT)
    every = amplitudes(frames_of(small(period=1, first_step=1, radiation=direct)))
    pairs = amplitudes(frames_of(small(period=2, first_step=2, radiation=direct)))
    np.testing.assert_allclose(pairs, every[::2] + every[1::2], atol=1e-12 * np.abs(every).max())


@pytest.mark.parametrize(("start", "counted"), [(None, 2), (1, 4), (3, 2), (4, 1)])
def test_radiation_starts_a_period_before_the_first_output_or_when_it_is_told(start, counted):
    def made(**changes):
        radiation = Radiation(frequencies=16, method=Method.DIRECT, **changes)
        return amplitudes(frames_of(small(first_step=4, radiation=radiation)))[0]

    each = amplitudes(
        frames_of(small(first_step=1, period=1, last_step=4,
                        radiation=Radiation(frequencies=16, method=Method.DIRECT)))
    )  # fmt: skip
    wanted = each[4 - counted : 4].sum(axis=0)
    np.testing.assert_allclose(made(start=start), wanted, atol=1e-12 * np.abs(wanted).max())


def test_ranks_add_up_to_the_whole_and_both_hostings_agree():
    whole = amplitudes(frames_of(small()))
    config = small(ranks=3)
    ranks, processes = (amplitudes(frames_of(config, hosting=h)) for h in Hosting)
    np.testing.assert_array_equal(ranks, processes)
    scale = np.abs(whole).max()
    np.testing.assert_allclose(
        ranks.sum(axis=1), whole[:, 0], atol=1e-3 * scale
    )  # echoes of the bins
    assert np.abs(ranks[:, 0]).max() > 0.1 * scale


def test_threads_of_a_rank_add_up_to_what_it_radiates():
    one, three = (amplitudes(frames_of(small(threads=n))) for n in (1, 3))
    assert three.shape == one.shape
    np.testing.assert_allclose(three, one, atol=1e-3 * np.abs(one).max())  # echoes of the bins


# ---------------------------------------------------------------- to the spectrum


def test_the_spectrum_comes_out_of_the_chain_of_transforms():
    config = small(ranks=2)
    stream = MemoryStream(name="khi", series=config.series())
    reader = stream.reader()
    stage = LogSpectrum(frequencies=16, direction=2)
    chains.check([stage], config.offers())
    for frames in config.iterations(1, hosting=Hosting.INLINE):
        stream.put(frames)
        arrival = reader.poll()
        for frame in arrival.read(arrival.boxes, stage.needs()):
            sample = chains.run([stage], frame, seed=1)
            power = sum(np.abs(frame.arrays[f"Amplitude_distributed/{a}"][2]) ** 2 for a in AXES)
            np.testing.assert_allclose(sample.arrays["spectrum"], np.log(power + 1e-9), rtol=1e-6)
        arrival.release()


@pytest.mark.parametrize("encoding", ["variable_based", "group_based"])
def test_a_recording_with_radiation_is_read_and_described_as_it_was_made(tmp_path, encoding):
    """Four ranks and four directions: a row per box and one array for all must not be mixed up."""
    config = small(ranks=4)
    path = tmp_path / "out.bp5"
    with streams.open_writer("bp5", path, config.series(), encoding=encoding) as writer:
        for frames in config.iterations(1, hosting=Hosting.INLINE):
            writer.put(frames)
    described = streams.describe(path)
    assert described.boxes == 4
    assert set(described.offers) == set(config.offers())
    assert described.series.units == config.series().units
    assert described.series.grid == config.series().grid
    reader = streams.open_reader("bp5", path, name="khi")
    for boxes in frames_of(config):
        arrival = reader.poll()
        for got, wanted in zip(arrival.read(arrival.boxes, config.offers()), boxes, strict=True):
            assert isinstance(got, Frame)
            for name, array in wanted.items():
                assert got.arrays[name].dtype == array.dtype
                np.testing.assert_array_equal(got.arrays[name], array)
        arrival.release()
    reader.close()


def test_windows_follow_each_other_without_a_gap():
    """Many outputs, so that bins are used again and again: none is lost, none counts twice."""
    config = small(first_step=1, period=1, last_step=12)
    got = amplitudes(frames_of(config)).sum(axis=0)
    one = amplitudes(frames_of(small(first_step=12, period=12, last_step=12)))[0]
    np.testing.assert_allclose(got, one, atol=1e-3 * np.abs(one).max())
    outputs = list(config.outputs)
    assert all(b == a + 1 for a, b in itertools.pairwise(outputs))
