"""openPMD-api, written by others, is the reference: it reads what we write and writes what we read.

Real PIConGPU output is read by both, and every number compared.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import openpmd_api as io
import pytest
import stream_kit as kit

from workflow import streams
from workflow.types import Frame, StreamState

ROOT = Path(__file__).parents[2]
SCALAR = io.Mesh_Record_Component.SCALAR


def components(record, path):
    """openPMD-api's record -> {our component path: its component}."""
    if record.scalar:
        return {path: record[SCALAR]}
    return {f"{path}/{name}": record[name] for name in record}


def told_by_peer(path, *, number=None, sst=False):
    """All that openPMD-api reads: {iteration: (time_s, dt_s, {path: facts}, hosts, patches)}."""
    settings = {"defer_iteration_parsing": True, "adios2": {"engine": {"parameters": {}}}}
    if sst:
        settings["adios2"]["engine"]["parameters"] = {"OpenTimeoutSecs": str(int(kit.PATIENCE_S))}
    series = io.Series(str(path), io.Access.read_linear, json.dumps(settings))
    told = {}
    for iteration in series.read_iterations():
        said, waiting = {}, {}
        for name, mesh in iteration.meshes.items():
            for c, component in components(mesh, name).items():
                waiting[c] = (component.load_chunk(), component, mesh)
        for kind, species in iteration.particles.items():
            for name, record in species.items():
                for c, component in components(record, f"{kind}/{name}").items():
                    empty = component.shape == [0]
                    chunk = np.zeros(0, component.dtype) if empty else component.load_chunk()
                    waiting[c] = (chunk, component, record)
        hosts = series.get_rank_table(collective=False)
        time_s = iteration.time * iteration.time_unit_SI
        dt_s = iteration.dt * iteration.time_unit_SI
        series.flush()
        for c, (chunk, component, record) in waiting.items():
            said[c] = {
                "array": np.array(chunk),
                "si": component.unit_SI,
                "dimension": tuple(record.unit_dimension),
                "time_offset": record.time_offset,
            }
            for name in ("macroWeighted", "weightingPower", "gridSpacing", "gridUnitSI"):
                if name in record.attributes:
                    said[c][name] = record.get_attribute(name)
            if "position" in component.attributes:
                said[c]["position"] = tuple(np.atleast_1d(component.get_attribute("position")))
        patches = {
            kind: {
                f"{n}/{c}": species.particle_patches[n][c].load()
                for n in ("offset", "extent")
                for c in species.particle_patches[n]
            }
            for kind, species in iteration.particles.items()
            if "numParticles" in species.particle_patches
        }
        series.flush()
        patches = {k: {c: np.array(v) for c, v in of.items()} for k, of in patches.items()}
        told[iteration.iteration_index] = (time_s, dt_s, said, hosts, patches)
        iteration.close()
    return told


def whole(frames, name, meshes, corner):
    """A component of all boxes put together again."""
    if name.split("/")[0] not in meshes:
        return np.concatenate([f.arrays[name] for f in frames])
    if frames[0].arrays[name].ndim != len(frames[0].box.extent):
        return np.stack([f.arrays[name] for f in frames])
    ends = np.max([np.add(f.box.offset, f.box.extent) for f in frames], axis=0) - corner
    out = np.full(ends[::-1], np.nan, frames[0].arrays[name].dtype)
    for f in frames:
        cut = zip(np.subtract(f.box.offset, corner)[::-1], f.box.extent[::-1], strict=True)
        out[tuple(slice(o, o + e) for o, e in cut)] = f.arrays[name]
    return out


def assert_same(seen, told, series, corner):
    """Our frames against openPMD-api's words: every value, unit, offset and time."""
    assert [n for n, *_ in seen] == list(told)
    for number, _, boxes, frames in seen:
        time_s, dt_s, said, _, patches = told[number]
        assert frames[0].time_s == time_s
        assert frames[0].dt_s == dt_s
        assert set(frames[0].arrays) == set(said)
        for kind in patches.values():
            for i, axis in enumerate("xyz"[: len(boxes[0].offset)]):
                assert [b.offset[i] for b in boxes] == kind[f"offset/{axis}"].tolist()
                assert [b.extent[i] for b in boxes] == kind[f"extent/{axis}"].tolist()
        for name, peer in said.items():
            ours, unit = whole(frames, name, series.meshes, corner), frames[0].units[name]
            assert ours.dtype == peer["array"].dtype, name
            np.testing.assert_array_equal(ours, peer["array"], err_msg=name)
            assert (unit.si, unit.dimension) == (peer["si"], peer["dimension"]), name
            assert unit.time_offset == peer["time_offset"]
            if "macroWeighted" in peer:
                assert unit.macro_weighted == bool(peer["macroWeighted"])
                assert unit.weighting_power == peer["weightingPower"]
            if "position" in peer:
                assert series.mesh_position[name] == peer["position"]


@pytest.mark.parametrize(
    ("name", "corner", "boxes"),
    [
        ("khi2d_40x48/simData_%06T.bp5", (0, 0), 2),
        ("khi2d_range_varbased.bp5", (0, 0), 2),
        ("khi3d_range_varbased.bp5", (8, 0, 4), 1),
    ],
)
def test_real_picongpu_output_is_read_as_openpmd_api_reads_it(picongpu, name, corner, boxes):
    path = picongpu / name
    told = told_by_peer(path)
    described = streams.describe(path)
    assert described.boxes == boxes
    assert described.finished
    assert described.iterations == tuple(told)
    assert described.series.software == "PIConGPU"
    reader = streams.open_reader("bp5", path, name="picongpu")
    seen = kit.collect(reader)
    assert reader.state() is StreamState.ENDED
    assert set(described.offers) == set(seen[0][1])
    assert_same(seen, told, described.series, np.array(corner))
    peer = told[described.iterations[0]][2]["E/x"]
    spacing = np.array(peer["gridSpacing"])[::-1] * peer["gridUnitSI"]
    np.testing.assert_array_equal(described.series.grid.spacing_m, spacing)
    assert described.series.grid.shape == peer["array"].shape[::-1]
    reader.close()


@pytest.mark.parametrize("encoding", kit.ENCODINGS)
@pytest.mark.parametrize("name", ["khi2d_range_varbased.bp5", "khi3d_range_varbased.bp5"])
def test_a_recording_that_is_published_again_says_the_same(picongpu, tmp_path, name, encoding):
    """Description, Series and frames are all that a replay needs."""
    described = streams.describe(picongpu / name)
    reader = streams.open_reader("bp5", picongpu / name, name="r")
    seen = kit.collect(reader)
    reader.close()
    with streams.open_writer(
        "bp5", tmp_path / "again.bp5", described.series, encoding=encoding
    ) as writer:
        for _, _, _, frames in seen:
            writer.put(frames)
    again = streams.describe(tmp_path / "again.bp5")
    assert again.iterations == described.iterations
    assert again.offers == described.offers
    assert again.series.units == described.series.units
    assert again.series.mesh_position == described.series.mesh_position
    assert again.series.constants == described.series.constants
    assert again.series.attributes.keys() == described.series.attributes.keys()
    first, second = told_by_peer(picongpu / name), told_by_peer(tmp_path / "again.bp5")
    for number, (time_s, dt_s, said, _, patches) in first.items():
        assert second[number][:2] == (time_s, dt_s)
        for component, peer in said.items():
            got = second[number][2][component]["array"]
            if "idProvider" not in component:  # a row per rank: its shape is bookkeeping
                np.testing.assert_array_equal(got, peer["array"])
            assert got.size == peer["array"].size
        for kind, columns in patches.items():
            for column, values in columns.items():
                np.testing.assert_array_equal(second[number][4][kind][column], values)


def our_writer(engine, path, encoding):
    return subprocess.Popen(
        [sys.executable, kit.__file__, "all", engine, str(path), encoding], cwd=ROOT
    )


@pytest.mark.parametrize("encoding", kit.ENCODINGS)
@pytest.mark.parametrize("engine", ["bp5", "sst"])
def test_openpmd_api_reads_what_we_write(tmp_path, engine, encoding):
    path = tmp_path / ("out.bp5" if engine == "bp5" else "out.sst")
    process = our_writer(engine, path, encoding)
    if engine == "bp5":
        assert process.wait(kit.PATIENCE_S) == 0
    told = told_by_peer(path, sst=engine == "sst")
    assert process.wait(kit.PATIENCE_S) == 0
    assert list(told) == list(kit.ITERATIONS)
    series = kit.series()
    for number, (time_s, dt_s, said, hosts, patches) in told.items():
        wanted = kit.frames(number)
        assert time_s == wanted[0].time_s
        assert dt_s == wanted[0].dt_s
        assert hosts == {i: b.host for i, b in enumerate(kit.BOXES)}
        kinds = {n.split("/")[0] for f in wanted for n in f.arrays} - series.meshes
        constants = {n for n in series.constants if n.split("/")[0] in kinds}
        assert set(said) == set(wanted[0].arrays) | constants
        for name, peer in said.items():
            unit = series.units[name]
            assert (unit.si, unit.dimension) == (peer["si"], peer["dimension"])
            assert unit.time_offset == peer["time_offset"]
            if name.split("/")[0] in series.meshes:
                assert peer["position"] == series.mesh_position[name]
                np.testing.assert_allclose(
                    np.array(peer["gridSpacing"]) * peer["gridUnitSI"],
                    series.grid.spacing_m[::-1],
                    rtol=1e-15,
                )
            else:
                assert bool(peer["macroWeighted"]) == unit.macro_weighted
                assert peer["weightingPower"] == unit.weighting_power
            if name in constants:
                n = sum(len(f.arrays[f"{name.split('/')[0]}/weighting"]) for f in wanted)
                np.testing.assert_array_equal(peer["array"], np.full(n, series.constants[name]))
            else:
                array = whole(wanted, name, series.meshes, np.zeros(2, int))
                np.testing.assert_array_equal(peer["array"], array)
        for kind in kinds:
            for i, axis in enumerate("xy"):
                assert patches[kind][f"offset/{axis}"].tolist() == [b.offset[i] for b in kit.BOXES]


@pytest.mark.parametrize("encoding", kit.ENCODINGS)
def test_step_counts_that_no_float_can_hold_stay_exact(tmp_path, encoding):
    numbers = [2**24 - 1, 2**24 + 1, 2**24 + 3]
    with streams.open_writer(
        "bp5", tmp_path / "late.bp5", kit.series(), encoding=encoding
    ) as writer:
        for number in numbers:
            writer.put(
                tuple(
                    replace(frame, iteration=number, time_s=number * kit.DT_S)
                    for frame in kit.frames(10)
                )
            )
    reader = streams.open_reader("bp5", tmp_path / "late.bp5", name="s")
    seen = kit.collect(reader)
    reader.close()
    told = told_by_peer(tmp_path / "late.bp5")
    assert [number for number, *_ in seen] == list(told) == numbers
    for number, _, _, frames in seen:
        assert frames[0].time_s == told[number][0] == number * kit.DT_S


PEER_WRITER = """
import json, sys
sys.path.insert(0, 'tests')
import numpy as np, openpmd_api as io, stream_kit as kit
path, encoding = sys.argv[1:]
SCALAR = io.Mesh_Record_Component.SCALAR
told, series = kit.series(), None
setting = {"iteration_encoding": encoding, "rank_table": "posix_hostname",
           "adios2": {"use_group_table": True, "engine": {"parameters": {
               "RendezvousReaderCount": "1", "QueueLimit": "2", "NetworkInterface": "lo"}
               if path.endswith("sst") else {}}}}
series = io.Series(path, io.Access.create_linear, json.dumps(setting))
series.set_software("peer", "2")
series.set_meshes_path("fields"); series.set_particles_path("particles")
DIMENSIONS = [io.Unit_Dimension(i) for i in range(7)]
for number in kit.ITERATIONS:
    frames = kit.frames(number)
    it = series.snapshots()[number]
    it.time, it.dt, it.time_unit_SI = float(number), 1.0, kit.DT_S
    names = dict.fromkeys(n for f in frames for n in f.arrays)
    names |= {n: 0 for n in told.constants if any(m.startswith(n[:2]) for m in names)}
    for name in names:
        parts, unit = name.split('/'), told.units[name]
        if parts[0] in told.meshes:
            record = it.meshes[parts[0]]
            component = record[parts[1] if len(parts) > 1 else SCALAR]
            record.axis_labels, record.grid_spacing = ["y", "x"], list(told.grid.spacing_m[::-1])
            record.grid_unit_SI, record.grid_global_offset = 1.0, [0.0, 0.0]
            component.position = list(told.mesh_position[name])
            shape = list(told.grid.shape[::-1])
        else:
            record = it.particles[parts[0]][parts[1]]
            component = record[parts[2] if len(parts) > 2 else SCALAR]
            record.set_attribute("macroWeighted", np.uint32(unit.macro_weighted))
            record.set_attribute("weightingPower", unit.weighting_power)
            shape = [sum(kit.count(parts[0], number, b.index) for b in kit.BOXES)]
        record.unit_dimension = dict(zip(DIMENSIONS, unit.dimension))
        record.time_offset = unit.time_offset
        component.unit_SI = unit.si
        if name in told.constants:
            component.reset_dataset(io.Dataset(np.dtype('f8'), shape))
            component.make_constant(told.constants[name])
            continue
        component.reset_dataset(io.Dataset(frames[0].arrays[name].dtype, shape))
        start = 0
        for f in frames:
            a = np.ascontiguousarray(f.arrays[name])
            o = list(f.box.offset[::-1]) if parts[0] in told.meshes else [start]
            start += len(a)
            if a.size:
                component.store_chunk(a.copy(), o, list(a.shape))
    for kind in {n.split('/')[0] for n in names} - told.meshes:
        patches = it.particles[kind].particle_patches
        counts = [kit.count(kind, number, b.index) for b in kit.BOXES]
        starts = [sum(counts[:i]) for i in range(len(counts))]
        dataset = io.Dataset(np.dtype('uint64'), [len(kit.BOXES)])
        columns = {("numParticles", SCALAR): counts, ("numParticlesOffset", SCALAR): starts}
        for i, axis in enumerate('xy'):
            columns["offset", axis] = [b.offset[i] for b in kit.BOXES]
            columns["extent", axis] = [b.extent[i] for b in kit.BOXES]
        for (record, axis), values in columns.items():
            patches[record][axis].reset_dataset(dataset)
            for i, value in enumerate(values):
                patches[record][axis].store(i, np.array(value, np.uint64))
    it.close()
series.close()
"""


@pytest.mark.parametrize("encoding", kit.ENCODINGS)
@pytest.mark.parametrize("engine", ["bp5", "sst"])
def test_we_read_what_openpmd_api_writes(tmp_path, engine, encoding):
    path = tmp_path / ("out.bp5" if engine == "bp5" else "out.sst")
    process = subprocess.Popen(
        [sys.executable, "-c", PEER_WRITER, str(path), encoding],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    if engine == "bp5":
        assert process.wait(kit.PATIENCE_S) == 0
    reader = streams.open_reader(engine, path, name="s")
    seen = kit.collect(reader)
    assert reader.state() is StreamState.ENDED
    assert process.wait(kit.PATIENCE_S) == 0
    assert [n for n, *_ in seen] == list(kit.ITERATIONS)
    for number, _, boxes, frames in seen:
        assert len(boxes) == len(kit.BOXES)
        for frame, wanted in zip(frames, kit.frames(number), strict=True):
            assert isinstance(frame, Frame)
            kit.assert_equal_frames(frame, wanted, kit.series())
    reader.close()
