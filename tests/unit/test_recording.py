"""A recording as a producer. The series are written by our own writer from real PIConGPU electrons;
the species is called e_all, as in PIConGPU's own plug-in."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from producers.recording import Recording, shifted
from transforms.phase_space import PhaseSpace
from transforms.subsample import Subsample
from workflow import chain as chains
from workflow import plugins, streams
from workflow.errors import ConfigError, DataError, StreamBroken
from workflow.protocols import Producer
from workflow.types import Box, Frame, Grid, Hosting, Sample, Series, Unit

DATA = Path(__file__).parents[1] / "data"
STEPS = (600, 632, 664, 696)
MOMENTUM = (1.0, 1.0, -1.0, 0.0, 0.0, 0.0, 0.0)
MASS = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def electrons():
    raw = dict(np.load(DATA / "picongpu_electrons.npz"))
    arrays, units = {}, {}
    for axis in "xyz":
        for record in ("momentum", "momentumPrev1"):
            arrays[f"e_all/{record}/{axis}"] = raw[f"e.{record}.{axis}"]
            units[f"e_all/{record}/{axis}"] = Unit(
                si=float(raw["momentum_unit_si"]),
                dimension=MOMENTUM,
                macro_weighted=True,
                weighting_power=1.0,
            )
    arrays["e_all/weighting"] = raw["e.weighting"]
    units["e_all/weighting"] = Unit(si=1.0, macro_weighted=True, weighting_power=1.0)
    units["e_all/mass"] = Unit(si=float(raw["mass_unit_si"]), dimension=MASS, weighting_power=1.0)
    return arrays, units, float(raw["mass_value"])


def recorded(path, steps=STEPS):
    """A BP5 series of two boxes with a few hundred electrons each; returns the frames."""
    arrays, units, mass = electrons()
    series = Series(
        grid=Grid(shape=(8, 16, 4), spacing_m=(9.3e-8,) * 3),
        dt_s=1.79e-16,
        software="PIConGPU",
        units=units,
        constants={"e_all/mass": mass},
    )
    iterations = []
    for step in steps:
        frames = []
        for index, part in enumerate((slice(0, 300), slice(300, 768))):
            mine = {name: np.roll(array, step)[part] for name, array in arrays.items()}
            count = len(mine["e_all/weighting"])
            mine["e_all/mass"] = np.broadcast_to(np.float64(mass), (count,))
            frames.append(
                Frame(
                    stream="simulation",
                    iteration=step,
                    time_s=step * series.dt_s,
                    dt_s=series.dt_s,
                    box=Box(index=index, offset=(0, 8 * index, 0), extent=(8, 8, 4)),
                    arrays=mine,
                    units=units,
                )
            )
        iterations.append(tuple(frames))
    writer = streams.open_writer("bp5", path, series)
    for frames in iterations:
        writer.put(frames)
    writer.close()
    return iterations


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "simData.bp5"
    return path, recorded(path)


def taken(producer, seed=0):
    return list(producer.iterations(seed, hosting=Hosting.INLINE))


def steps_of(iterations):
    return [frames[0].iteration for frames in iterations]


def test_a_recording_gives_every_frame_as_it_was_written(recording):
    path, written = recording
    got = taken(Recording(path=str(path)))
    assert steps_of(got) == list(STEPS)
    for ours, theirs in zip(got, written, strict=True):
        assert [f.box.index for f in ours] == [0, 1]
        for a, b in zip(ours, theirs, strict=True):
            assert a.time_s == pytest.approx(b.time_s, rel=1e-6)
            assert (a.box.offset, a.box.extent) == (b.box.offset, b.box.extent)
            assert set(a.arrays) >= set(b.arrays)
            for name, array in b.arrays.items():
                np.testing.assert_array_equal(a.arrays[name], array)
                assert a.units[name].si == b.units[name].si


def test_a_recording_is_a_producer_and_says_what_it_offers(recording):
    path, _ = recording
    producer = plugins.build(
        {"use": "producers.recording:Recording", "path": str(path), "rate_hz": 2}, "source.producer"
    )
    plugins.fits(producer, Producer, "source.producer")
    assert isinstance(producer, Producer)
    assert producer.boxes() == 2
    assert {"e_all/momentum", "e_all/momentumPrev1", "e_all/weighting", "e_all/mass"} <= set(
        producer.offers()
    )
    assert producer.series().software == "PIConGPU"
    assert producer.series().dt_s == pytest.approx(1.79e-16)
    assert producer.series().constants["e_all/mass"] == pytest.approx(3.062e-3, rel=1e-3)


def test_a_species_of_any_name_becomes_samples(recording):
    path, _ = recording
    producer = Recording(path=str(path), last_step=600)
    chain = (Subsample(species="e_all", particles=64), PhaseSpace(species="e_all"))
    chains.check(chain, producer.offers())
    for frame in taken(producer)[0]:
        sample = chains.run(chain, frame, seed=1)
        assert isinstance(sample, Sample), sample
        speed = np.linalg.norm(sample.arrays["particles"][:, :3], axis=1)
        assert speed.mean() == pytest.approx(0.206, rel=0.02)  # gamma 1.021


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({"first_step": 632}, [632, 664, 696]),
        ({"last_step": 650}, [600, 632]),
        ({"first_step": 601, "last_step": 664}, [632, 664]),
        ({"period": 2}, [600, 664]),
        ({"first_step": 632, "period": 2}, [632, 696]),
        ({"repeat": 2}, [600, 632, 664, 696, 728, 760, 792, 824]),
        ({"repeat": 3, "last_step": 600}, [600, 601, 602]),
    ],
)
def test_the_chosen_iterations_come_in_rising_order(recording, fields, steps):
    path, _ = recording
    producer = Recording(path=str(path), **fields)
    assert steps_of(taken(producer)) == steps
    assert len(producer.outputs) == len(steps)


def test_time_goes_on_when_the_recording_is_repeated(recording):
    path, _ = recording
    times = [frames[0].time_s for frames in taken(Recording(path=str(path), repeat=2))]
    np.testing.assert_allclose(np.diff(times), 32 * 1.79e-16, rtol=1e-4)


def test_the_recording_can_be_put_on_a_stream_again_unchanged(recording, tmp_path):
    path, written = recording
    producer = Recording(path=str(path))
    writer = streams.open_writer("bp5", tmp_path / "again.bp5", producer.series())
    for frames in producer.iterations(0, hosting=Hosting.PROCESSES):
        writer.put(frames)
    writer.close()
    again = taken(Recording(path=str(tmp_path / "again.bp5")))
    assert steps_of(again) == list(STEPS)
    for ours, theirs in zip(again, written, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            for name, array in b.arrays.items():
                np.testing.assert_array_equal(a.arrays[name], array)


def test_the_rate_is_an_upper_bound_and_inline_runs_never_wait(recording, monkeypatch):
    path, _ = recording
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    producer = Recording(path=str(path), rate_hz=0.01)
    list(producer.iterations(0, hosting=Hosting.INLINE))
    assert not [s for s in slept if s > 1]
    list(producer.iterations(0, hosting=Hosting.PROCESSES))
    waits = [s for s in slept if s > 1]
    assert len(waits) == len(STEPS) - 1
    assert all(90 < s <= 400 for s in waits)


def test_a_missing_recording_is_a_config_error_that_says_what_to_do(tmp_path):
    producer = Recording(path=str(tmp_path / "nowhere.bp5"))
    for ask in (producer.offers, producer.series, producer.boxes):
        with pytest.raises(ConfigError, match=r"nowhere\.bp5.*does not exist.*Give its path"):
            ask()


def test_a_file_that_is_no_recording_is_a_config_error(tmp_path):
    (tmp_path / "notes.bp5").mkdir()
    (tmp_path / "notes.txt").write_text("no recording")
    for name in ("notes.bp5", "notes.txt"):
        with pytest.raises(ConfigError, match=r"Recording\.path"):
            Recording(path=str(tmp_path / name)).offers()


def test_a_range_without_any_iteration_is_an_error(recording):
    path, _ = recording
    with pytest.raises(DataError, match="no iteration from 700"):
        taken(Recording(path=str(path), first_step=700))


def test_a_truncated_recording_is_broken_and_never_an_end(recording, tmp_path):
    path, _ = recording
    torn = tmp_path / "torn.bp5"
    shutil.copytree(path, torn)
    index = bytearray((torn / "md.idx").read_bytes())
    index[39] = 1  # the byte of the BP5 index header that says: still being written
    (torn / "md.idx").write_bytes(bytes(index))
    (torn / "billow.writer").unlink()  # as of a simulation that is not ours
    got = []
    with pytest.raises(StreamBroken, match=r"last whole iteration is 696\. Set last_step"):
        got.extend(
            f[0].iteration for f in Recording(path=str(torn)).iterations(0, hosting=Hosting.INLINE)
        )
    assert got == list(STEPS)
    assert steps_of(taken(Recording(path=str(torn), last_step=696))) == list(STEPS)


def test_a_recording_that_is_damaged_says_so_at_once(recording, tmp_path):
    path, _ = recording
    torn = tmp_path / "torn.bp5"
    shutil.copytree(path, torn)
    data = (torn / "data.0").read_bytes()
    (torn / "data.0").write_bytes(data[: len(data) // 2])
    with pytest.raises(ConfigError, match="cut off"):
        Recording(path=str(torn)).offers()


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"path": ""}, "path"),
        ({"path": "x", "rate_hz": -1.0}, "rate_hz"),
        ({"path": "x", "rate_hz": float("nan")}, "rate_hz"),
        ({"path": "x", "period": 0}, "period"),
        ({"path": "x", "repeat": 0}, "repeat"),
        ({"path": "x", "first_step": 5, "last_step": 4}, "first_step <= last_step"),
    ],
)
def test_wrong_values_are_refused(fields, wanted):
    with pytest.raises(ConfigError, match=wanted):
        Recording(**fields)


def test_shifting_a_frame_moves_its_iteration_and_time(recording):
    _, written = recording
    frame = written[0][0]
    later = shifted(frame, 10)
    assert later.iteration == 610
    assert later.time_s == pytest.approx(610 * 1.79e-16)
    assert shifted(frame, 0) is frame
    assert later.arrays.keys() == frame.arrays.keys()
