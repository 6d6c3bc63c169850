"""What every transform must do, whatever it does: one suite, run over all of them."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

from transforms.normalise import RunningNormaliser
from transforms.phase_space import PhaseSpace
from transforms.select import Boxes
from transforms.spectrum import LogSpectrum
from transforms.subsample import Subsample
from workflow import plugins
from workflow.errors import ConfigError
from workflow.protocols import Normaliser, Transform
from workflow.types import Box, Dropped, Frame, Unit

TRANSFORMS = [
    Boxes(indices=(0, 2)),
    Boxes(region=((0.0, 0.5), (0.0, 1.0)), unit="fraction", grid=(8, 8)),
    Subsample(particles=16),
    Subsample(particles=16, short="repeat"),
    PhaseSpace(),
    PhaseSpace(change="never", position=("x", "y")),
    LogSpectrum(frequencies=12),
]


def whole_frame(count=40):
    """A frame that has every record that any transform needs."""
    rng = np.random.default_rng(5)
    arrays, units = {}, {}
    for record in ("momentum", "momentumPrev1", "position", "positionOffset"):
        for axis in "xy" if record.startswith("position") else "xyz":
            arrays[f"e/{record}/{axis}"] = rng.random(count, dtype=np.float32)
            units[f"e/{record}/{axis}"] = Unit(si=1e-22, macro_weighted="mom" in record)
    arrays["e/weighting"] = np.ones(count, np.float32)
    arrays["e/mass"] = np.broadcast_to(np.float32(9e-31), (count,))
    units |= {"e/weighting": Unit(si=1.0), "e/mass": Unit(si=1.0)}
    for axis in "xyz":
        arrays[f"Amplitude_distributed/{axis}"] = rng.random((3, 2, 12)) * (1 + 2j)
    return Frame(
        stream="simulation",
        iteration=9,
        time_s=1.0,
        dt_s=0.1,
        box=Box(index=2, offset=(0, 0), extent=(4, 8)),
        arrays=arrays,
        units=units,
    )


def name(stage):
    return repr(stage)[:60]


@pytest.mark.parametrize("stage", TRANSFORMS, ids=name)
def test_it_fits_the_protocol_and_travels(stage):
    plugins.fits(stage, Transform, "transforms.chain.0")
    assert isinstance(stage, Transform)
    assert pickle.loads(pickle.dumps(stage)) == stage
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(stage, dataclasses.fields(stage)[0].name, None)


@pytest.mark.parametrize("stage", TRANSFORMS, ids=name)
def test_it_can_be_built_from_the_plain_values_of_a_config(stage):
    path = f"{type(stage).__module__}:{type(stage).__qualname__}"
    plain = {f.name: getattr(stage, f.name) for f in dataclasses.fields(stage)}
    spec = {"use": path} | {k: _listed(v) for k, v in plain.items()}
    assert plugins.build(spec, "transforms.chain.0") == stage


@pytest.mark.parametrize("stage", TRANSFORMS, ids=name)
def test_it_makes_what_it_says_and_leaves_the_frame_alone(stage):
    frame = whole_frame()
    before = {path: array.copy() for path, array in frame.arrays.items()}
    out = stage.apply(frame, np.random.default_rng(1))
    assert isinstance(out, Frame)
    assert out.key == frame.key
    assert set(frame.arrays) == set(before)
    for path, array in before.items():
        np.testing.assert_array_equal(frame.arrays[path], array)
    assert set(out.arrays) - set(frame.arrays) == set(stage.makes())
    for made, shape in stage.makes().items():
        got = out.arrays[made].shape
        assert len(got) == len(shape)
        assert all(want in (-1, n) for want, n in zip(shape, got, strict=True))
    for path, array in out.arrays.items():
        assert not array.flags.writeable, path


@pytest.mark.parametrize("stage", TRANSFORMS, ids=name)
def test_it_repeats_itself_for_the_same_generator(stage):
    a = stage.apply(whole_frame(), np.random.default_rng(1))
    b = stage.apply(whole_frame(), np.random.default_rng(1))
    for path in a.arrays:
        np.testing.assert_array_equal(a.arrays[path], b.arrays[path])


@pytest.mark.parametrize("stage", TRANSFORMS, ids=name)
def test_a_frame_without_particles_does_not_break_it(stage):
    out = stage.apply(whole_frame(count=0), np.random.default_rng(1))
    assert isinstance(out, Frame | Dropped)


@pytest.mark.parametrize(
    ("use", "fields", "wanted"),
    [
        ("select:Boxes", {}, "got neither"),
        ("select:Boxes", {"region": [[3, 3]]}, "start < stop"),
        ("select:Boxes", {"indices": []}, "indices"),
        ("select:Boxes", {"indices": [-1]}, "indices"),
        ("select:Boxes", {"region": [[0, 1]], "unit": "fraction"}, "grid"),
        ("select:Boxes", {"region": [[0, 1]], "unit": "metres"}, "unit"),
        ("subsample:Subsample", {}, "particles"),
        ("subsample:Subsample", {"particles": 0}, "at least 1"),
        ("subsample:Subsample", {"particles": 5, "short": "pad"}, "short"),
        ("subsample:Subsample", {"particles": 5, "species": ""}, "species"),
        ("phase_space:PhaseSpace", {"change": "auto"}, "change"),
        ("phase_space:PhaseSpace", {"position": ["x", "x"]}, "position"),
        ("phase_space:PhaseSpace", {"position": ["w"]}, "position"),
        ("phase_space:PhaseSpace", {"species": ""}, "species"),
        ("spectrum:LogSpectrum", {"frequencies": 0}, "frequencies"),
        ("spectrum:LogSpectrum", {"frequencies": 4, "floor": 0.0}, "floor"),
        ("spectrum:LogSpectrum", {"frequencies": 4, "scale": -1.0}, "scale"),
        ("spectrum:LogSpectrum", {"frequencies": 4, "direction": -1}, "direction"),
        ("normalise:RunningNormaliser", {"mean": "median"}, "mean"),
        ("normalise:RunningNormaliser", {"freeze_after": 0}, "freeze_after"),
        ("normalise:RunningNormaliser", {"floor": 0.0}, "floor"),
        ("normalise:RunningNormaliser", {"groups": {"p": [[0, 1], [1]]}}, "none twice"),
        ("normalise:RunningNormaliser", {"groups": {"p": [[]]}}, "non-empty"),
    ],
)
def test_wrong_values_are_refused_before_anything_starts(use, fields, wanted):
    with pytest.raises(ConfigError, match=wanted) as caught:
        plugins.build({"use": f"transforms.{use}", **fields}, "transforms.chain.0")
    assert "transforms.chain.0" in str(caught.value)


def test_the_normaliser_fits_its_protocol_and_travels():
    stage = RunningNormaliser(groups={"particles": [[0, 1, 2], [3, 4, 5]]})
    plugins.fits(stage, Normaliser, "transforms.normaliser")
    assert isinstance(stage, Normaliser)
    assert pickle.loads(pickle.dumps(stage)) == stage
    spec = {"use": "transforms.normalise:RunningNormaliser"}
    spec["groups"] = {"particles": [[0, 1, 2], [3, 4, 5]]}
    assert plugins.build(spec, "transforms.normaliser") == stage


def _listed(value):
    """What YAML gives: lists, not tuples."""
    return [_listed(v) for v in value] if isinstance(value, tuple) else value
