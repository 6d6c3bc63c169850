"""The pure layout: names, attributes, blocks, and how an iteration is read from them."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import stream_kit as kit

from workflow.errors import ConfigError, DataError
from workflow.streams.openpmd import check_encoding, hosts_of, lay_out, rank_table, root_attributes
from workflow.streams.openpmd_read import Iteration
from workflow.streams.openpmd_step import attribute_of, iterations_of
from workflow.types import Dropped, Unit


class StepInMemory:
    """What was laid out, as an engine would show it."""

    def __init__(self, layout, encoding="variable_based", step=0):
        self.said = root_attributes(kit.series(), encoding) | layout.attributes
        self.said |= {f"__openPMD_groups{g}": step for g in ("/", *layout.groups)}
        self.arrays = dict(layout.variables)

    def variables(self):
        return self.arrays.keys()

    def attributes(self):
        return set(self.said)

    def attribute(self, name):
        return self.said.get(name)

    def shape(self, variable):
        return self.arrays[variable].shape

    def spans(self, variable):
        return [(start, block.shape) for start, block in self.arrays[variable].blocks]

    def fetch(self, wanted):
        got = []
        for name, (start, count) in wanted:
            whole = np.zeros(self.arrays[name].shape, self.arrays[name].dtype)
            for s, block in self.arrays[name].blocks:
                whole[tuple(slice(o, o + n) for o, n in zip(s, block.shape, strict=True))] = block
            cut = tuple(slice(o, o + n) for o, n in zip(start, count, strict=True))
            got.append(whole[cut].copy())
        return got


def step_of(iteration=10, encoding="variable_based", frames=None, **changes):
    told = replace(kit.series(), **changes)
    return StepInMemory(lay_out(told, frames or kit.frames(iteration), encoding), encoding)


def read(step, hosts=()):
    ((number, base),) = iterations_of(step, name="s")
    return Iteration(
        step, stream="s", number=number, base=base, hosts=hosts, on_release=lambda: None
    )


def without(step, part):
    step.arrays = {n: a for n, a in step.arrays.items() if part not in n}
    return step


@pytest.mark.parametrize("encoding", kit.ENCODINGS)
def test_a_laid_out_iteration_is_read_back_whole(encoding):
    arrival = read(step_of(encoding=encoding), hosts=[b.host for b in kit.BOXES])
    assert arrival.boxes == kit.BOXES
    got = arrival.read(arrival.boxes, arrival.offers())
    for frame, wanted in zip(got, kit.frames(10), strict=True):
        kit.assert_equal_frames(frame, wanted, kit.series())


def test_names_and_attributes_are_those_of_picongpu():
    layout = lay_out(kit.series(), kit.frames(10), "group_based")
    assert layout.variables["/data/10/fields/E/x"].shape == (8, 10)  # y, x
    assert layout.variables["/data/10/fields/density"].shape == (8, 10)
    said = layout.attributes
    assert said["/data/10/fields/E/axisLabels"] == ["y", "x"]
    np.testing.assert_allclose(
        said["/data/10/fields/E/gridSpacing"] * said["/data/10/fields/E/gridUnitSI"],
        [9.5e-8, 9.25e-8],
    )
    assert said["/data/10/fields/E/x/position"].tolist() == [0.5, 0.0]  # x, y
    assert said["/data/10/time"] == 10
    assert said["/data/10/timeUnitSI"] == kit.DT_S
    assert said["/data/10/particles/e/mass/shape"].tolist() == [9]
    assert said["/data/10/particles/e/mass/value"].dtype == np.float64
    assert "/data/10/particles/e/mass" not in layout.variables
    assert said["/data/10/particles/e/momentum/macroWeighted"] == 1
    patch = layout.variables["/data/10/particles/e/particlePatches/numParticlesOffset"]
    assert [int(block[0]) for _, block in patch.blocks] == [0, 4, 9]
    assert said["/data/10/particles/i/particlePush"] == "Boris"


def test_a_path_stands_at_the_root_only_when_something_lies_there():
    told = kit.series()
    assert {"/meshesPath", "/particlesPath"} <= root_attributes(told, "group_based").keys()
    no_mesh = replace(told, meshes=frozenset(), units={"e/momentum/x": told.units["e/momentum/x"]})
    assert "/meshesPath" not in root_attributes(no_mesh, "group_based")
    only_mesh = replace(told, units={"E/x": told.units["E/x"]})
    assert "/particlesPath" not in root_attributes(only_mesh, "group_based")


def test_numbers_are_floats_as_picongpus_where_that_loses_nothing():
    said = lay_out(kit.series(), kit.frames(10), "group_based").attributes
    for name in ("fields/E/timeOffset", "fields/E/x/position", "particles/e/momentum/timeOffset"):
        assert said[f"/data/10/{name}"].dtype == np.float32, name
    odd = replace(kit.series(), mesh_position={"E/x": (0.1, 0.0)})
    position = lay_out(odd, kit.frames(10), "group_based").attributes[
        "/data/10/fields/E/x/position"
    ]
    assert position.tolist() == [0.1, 0.0]


def test_attributes_of_a_species_that_is_absent_do_not_go_out():
    layout = lay_out(kit.series(), kit.frames(20), "variable_based")
    assert not [name for name in layout.attributes if "/particles/i" in name]
    assert layout.attributes["/data/snapshot"].tolist() == [20]


def test_the_iteration_number_never_comes_from_the_step():
    step = step_of(50)
    assert iterations_of(step, name="s") == [(50, "/data/")]
    snapshot = step.said.pop("/data/snapshot")
    assert iterations_of(step, name="s") == [(50, "/data/")]  # from /data/iteration
    del step.said["/data/iteration"]
    with pytest.raises(DataError, match="iteration number"):
        iterations_of(step, name="s")
    step.said["/data/snapshot"] = snapshot
    assert iterations_of(step_of(30, "group_based"), name="s") == [(30, "/data/30/")]


def test_constants_of_earlier_steps_are_not_taken_for_this_one():
    step = step_of(20)
    old = step_of(10)
    step.said = {**old.said, **step.said}  # attributes seen earlier stay visible
    step.said |= {n: -1 for n in step.said if "__openPMD_groups/data/particles/i" in n}
    assert "i/mass" not in read(step).offers()
    step.said = {n: v for n, v in step.said.items() if not n.startswith("__openPMD_groups")}
    assert "i/mass" not in read(step).offers()  # nor without a group table
    assert "e/mass" in read(step).offers()


def test_patches_that_do_not_add_up_are_ignored_with_a_warning(caplog):
    step = step_of()
    path = "/data/particles/e/particlePatches/numParticles"
    wrong = tuple((s, b + 1) for s, b in step.arrays[path].blocks)
    step.arrays[path] = replace(step.arrays[path], blocks=wrong)
    with caplog.at_level(logging.WARNING):
        arrival = read(step)
    assert "sum to 12 particles of 9" in caplog.text
    got = arrival.read(arrival.boxes, ["e/momentum"])  # from the blocks instead
    for frame, wanted in zip(got, kit.frames(10), strict=True):
        np.testing.assert_array_equal(frame.arrays["e/momentum/y"], wanted.arrays["e/momentum/y"])


def test_without_patches_boxes_come_from_the_blocks_of_a_mesh():
    arrival = read(without(step_of(), "particlePatches"))
    assert [(b.offset, b.extent) for b in arrival.boxes] == [
        (b.offset, b.extent) for b in kit.BOXES
    ]
    frames = arrival.read(arrival.boxes, ["e/weighting", "E"])
    for frame, wanted in zip(frames, kit.frames(10), strict=True):
        np.testing.assert_array_equal(frame.arrays["E/y"], wanted.arrays["E/y"])
        assert len(frame.arrays["e/weighting"]) == len(wanted.arrays["e/weighting"])


def test_without_patches_and_meshes_each_block_is_a_box():
    arrival = read(without(without(step_of(), "particlePatches"), "fields"))
    got = arrival.read(arrival.boxes, ["e/momentum"])
    assert [len(f.arrays["e/momentum/x"]) for f in got] == [4, 5, 0]


def test_chunks_that_belong_to_no_known_box_are_a_reason_and_not_a_guess():
    step = without(step_of(), "particlePatches")
    for name in [n for n in step.arrays if "/particles/e/" in n]:
        (s, block), *others = step.arrays[name].blocks
        halves = ((s, block[:2]), ((s[0] + 2,), block[2:]))
        step.arrays[name] = replace(step.arrays[name], blocks=(*halves, *others))
    arrival = read(step)
    got = arrival.read(arrival.boxes, ["e/momentum"])
    assert all(isinstance(d, Dropped) and "whose particles" in d.reason for d in got)
    assert not isinstance(arrival.read(arrival.boxes, ["E"])[0], Dropped)


def test_a_mesh_with_a_row_per_rank_gives_each_box_its_row():
    rows = [
        replace(f, arrays={**f.arrays, "ids": np.array([f.box.index], np.uint64)})
        for f in kit.frames(10)
    ]
    told = kit.series()
    step = step_of(
        frames=rows, meshes=told.meshes | {"ids"}, units={**told.units, "ids": told.units["E/x"]}
    )
    arrival = read(step)
    assert arrival.boxes[1].extent == (4, 5)
    got = arrival.read(arrival.boxes, ["ids", "E"])
    assert [f.arrays["ids"].tolist() for f in got] == [[0], [1], [2]]


def test_a_list_of_texts_that_was_lost_on_the_way_comes_back_from_its_twin():
    step = step_of()
    step.said |= {"/data/fields/E/axisLabels": "", "/data/fields/E/axisLabels_json": '["y", "x"]'}
    assert attribute_of(step, "/data/fields/E/axisLabels") == ["y", "x"]
    assert attribute_of(step, "/software") == "Billow test"


def test_hosts_go_through_a_table_of_characters():
    names = ["a", "much-longer", "ü"]
    table = rank_table(names)
    rows = np.concatenate([block for _, block in table.blocks])
    assert rows.shape == table.shape
    assert hosts_of(rows) == names


def test_frames_that_do_not_fit_are_refused_with_what_was_wanted():
    frames, told = kit.frames(10), kit.series()
    with pytest.raises(DataError, match="at least one frame"):
        lay_out(told, [], "group_based")
    with pytest.raises(DataError, match=r"boxes 0 to 1.*box 2"):
        lay_out(told, [frames[0], frames[2]], "group_based")
    short = {**frames[0].arrays, "e/weighting": np.zeros(1, np.float32)}
    with pytest.raises(DataError, match=r"e in box 0.*one length"):
        lay_out(told, [replace(frames[0], arrays=short), *frames[1:]], "group_based")
    flat = {**frames[0].arrays, "E/x": np.zeros((4, 3), np.float32)}
    with pytest.raises(DataError, match=r"E/x: wanted shape \(3, 4\).*got \(4, 3\)"):
        lay_out(told, [replace(frames[0], arrays=flat), *frames[1:]], "group_based")
    odd = [replace(f, arrays={**f.arrays, "e/id": f.arrays["e/weighting"]}) for f in frames]
    with pytest.raises(DataError, match="e/id: wanted its unit"):
        lay_out(told, odd, "group_based")
    with pytest.raises(ConfigError, match="encoding"):
        check_encoding("fileBased")


# ---------------------------------------------------------------- meshes that lie on no grid


def with_radiation(iteration=10):
    """Three boxes, three directions, five frequencies on a grid of two dimensions."""
    rng = np.random.default_rng(1)
    shared = {
        "DetectorDirection/x": rng.random((3, 1, 1)),
        "DetectorFrequency/omega": rng.random((1, 5, 1)),
        "Amplitude/x_Re": rng.random((3, 5, 1)),
    }
    return [
        replace(
            f, arrays={**f.arrays, "Amplitude_distributed/x": rng.random((3, 5)) * 1j, **shared}
        )
        for f in kit.frames(iteration)
    ]


@pytest.fixture
def radiating():
    told, frames = kit.series(), with_radiation()
    names = ["Amplitude_distributed/x", *(n for n in frames[0].arrays if n[:2] in ("De", "Am"))]
    return {
        "frames": frames,
        "units": {**told.units, **dict.fromkeys(names, Unit(si=2e-33))},
        "meshes": told.meshes | {n.split("/")[0] for n in names},
    }


@pytest.mark.parametrize("encoding", kit.ENCODINGS)
def test_each_box_has_its_row_of_amplitudes_and_all_share_the_detectors(radiating, encoding):
    step = step_of(encoding=encoding, **radiating)
    base = "/data/" if encoding == "variable_based" else "/data/10/"
    assert step.shape(f"{base}fields/Amplitude_distributed/x") == (3, 3, 5)
    assert step.shape(f"{base}fields/DetectorDirection/x") == (3, 1, 1)
    assert len(step.spans(f"{base}fields/DetectorDirection/x")) == 1
    labels = step.attribute(f"{base}fields/Amplitude_distributed/axisLabels")
    assert labels == ["rank", "detector direction index", "detector frequency index"]
    arrival = read(step)
    assert [b.extent for b in arrival.boxes] == [b.extent for b in kit.BOXES]
    for got, wanted in zip(
        arrival.read(arrival.boxes, arrival.offers()), radiating["frames"], strict=True
    ):
        for name, array in wanted.arrays.items():
            np.testing.assert_array_equal(got.arrays[name], array, err_msg=name)


def test_a_stream_of_nothing_but_radiation_has_a_box_per_rank(radiating):
    step = step_of(**radiating)
    step.arrays = {n: a for n, a in step.arrays.items() if "/Amp" in n or "/Detector" in n}
    arrival = read(step)
    assert [box.index for box in arrival.boxes] == [0, 1, 2]
    names = ["Amplitude_distributed/x", "DetectorDirection/x", "Amplitude/x_Re"]
    got = arrival.read(arrival.boxes, names)
    for frame, wanted in zip(got, radiating["frames"], strict=True):
        for name in names:
            np.testing.assert_array_equal(frame.arrays[name], wanted.arrays[name])
