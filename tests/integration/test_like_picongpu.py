"""What we write lies beside what PIConGPU wrote: names, types, shapes, blocks, values, units.

Both are read by the same lines, with ADIOS2 itself and nothing of Billow between. Whatever differs
stands in a table here with its reason, and a reason that explains nothing any more is an error.
"""

import re
from dataclasses import dataclass

import adios2
import numpy as np
import pytest

from producers.flow import VortexFlow
from producers.khi import KelvinHelmholtz
from workflow import streams
from workflow.types import Hosting

C = 299_792_458.0

BOOKKEEPING = {
    "/rankTable": "host of each box, for readers on the same host; openPMD-api's name for it",
    ".*_json": "twin of a list of texts, which SST loses with its default marshalling",
    "__openPMD_internal/useModifiableAttributes": "openPMD-api's mark of changing attributes",
}
OF_VALIDATOR = {
    "/data/N/fields/particleBoundary(Parameters)?": "the ED-PIC validator looks for it here, too"
}
IN_STREAMS = {"__openPMD_groups/.*": "table of groups; PIConGPU writes it in streams, not in files"}
NOT_OURS = {
    "/data/N/fields/[ei]_all_.*": "derived fields; particles have all that they tell",
    "/data/N/fields/picongpu_idProvider/.*": "counters of particle ids, which we do not give",
    "__openPMD_groups/data/N/fields/picongpu_idProvider": "the same",
}
OTHER_TYPE = {
    ".*/gridSpacing": "float there, double here: a float loses digits of the cell's size",
    "/data/N/(time|dt)": "float there, double here: a float ends at 2^24 steps",
    ".*/(charge|mass)/macroWeighted": "int32 there; ED-PIC says uint32",
}
OTHER_VALUE = {
    "/software(Version)?": "who wrote it",
    "/date": "when",
    "/data/N/(time|iteration)": "another iteration",
}
OF_FILES = {
    "/iterationEncoding": "one file per iteration there, a group per iteration here",
    "/iterationFormat": "the same",
}
OF_RANGES = {
    "/data/N/snapshot": "another iteration",
    "__openPMD_groups.*": "number of the step in the series",
    ".*/(charge|mass)/shape": "PIConGPU's is a range of the box",
}
OF_FLOW = {
    "/data/N/fields/.*": "the load generator has no fields",
    "__openPMD_groups/data/N/fields.*": "the same",
    "/meshesPath": "the same",
}
OF_FLOW_TOO = {"/data/N/comment": "says that it is no physics"}
OF_FLOW_VALUE = {
    ".*/(currentDeposition|particleInterpolation|particlePush|particleShape)": "no field acts"
}


@dataclass(frozen=True)
class Said:
    """A series in ADIOS2's words; the number of the iteration is N in names."""

    variables: dict[str, tuple[str, tuple[int, ...], list]]  # type, shape, blocks (start, count)
    attributes: dict[str, tuple[str, object]]  # type, value
    arrays: dict[str, np.ndarray]


def numbers(text):
    return tuple(int(n) for n in text.split(",") if n.strip())


def told(path) -> Said:
    """The last step of a BP file."""

    def plain(name):
        return re.sub(r"^((?:__openPMD_groups)?/data)(/\d+)?(?=/|$)", r"\1/N", name)

    variables, attributes, arrays = {}, {}, {}
    with adios2.FileReader(str(path)) as file:
        for name, facts in file.available_variables().items():
            blocks = file.all_blocks_info(name)[-1]
            spans = [(numbers(b["Start"]), numbers(b["Count"])) for b in blocks]
            shape = tuple(np.max([np.add(*span) for span in spans], axis=0).tolist())
            variables[plain(name)] = (facts["Type"], shape, sorted(spans))
            variable = file.inquire_variable(name)
            if variable.steps() == 1:
                arrays[plain(name)] = file.read(variable).reshape(shape)
        for name, facts in file.available_attributes().items():
            attributes[plain(name)] = (facts["Type"], file.read_attribute(name))
    return Said(variables, attributes, arrays)


class Reasons:
    """Tables of allowed differences; remembers which were needed."""

    def __init__(self, *tables):
        self.patterns = {pattern for table in tables for pattern in table}
        self.needed = set()

    def explain(self, name):
        found = {pattern for pattern in self.patterns if re.fullmatch(pattern, name)}
        self.needed |= found
        return bool(found)

    def assert_all_needed(self):
        assert self.needed == self.patterns, f"explains nothing: {self.patterns - self.needed}"


@dataclass(frozen=True)
class Explained:
    theirs_only: Reasons
    ours_only: Reasons
    types: Reasons
    values: Reasons


def assert_alike(theirs: Said, ours: Said, explained: Explained):
    """Names, types and values of attributes; names and types of variables."""
    names, own = (s.variables.keys() | s.attributes.keys() for s in (theirs, ours))
    assert {n for n in names - own if not explained.theirs_only.explain(n)} == set()
    assert {n for n in own - names if not explained.ours_only.explain(n)} == set()
    for name in theirs.variables.keys() & ours.variables.keys():
        assert ours.variables[name][0] == theirs.variables[name][0], name
        assert len(ours.variables[name][1]) == len(theirs.variables[name][1]), name
    for name in theirs.attributes.keys() & ours.attributes.keys():
        kind, value = theirs.attributes[name]
        own_kind, own_value = ours.attributes[name]
        assert own_kind == kind or explained.types.explain(name), (name, kind, own_kind)
        if kind == "string":
            equal = own_value == value
        else:
            equal = np.shape(value) == np.shape(own_value) and np.allclose(
                own_value, value, rtol=1e-6, atol=0
            )
        assert equal or explained.values.explain(name), (name, value, own_value)
    for reasons in vars(explained).values():
        reasons.assert_all_needed()


def written(producer, path, encoding) -> Said:
    with streams.open_writer("bp5", path, producer.series(), encoding=encoding) as writer:
        for frames in producer.iterations(4, hosting=Hosting.INLINE):
            writer.put(frames)
    return told(path)


@pytest.fixture(scope="module")
def real(picongpu):
    """real(name) -> what a real PIConGPU output says."""
    return lambda name: told(picongpu / name)


@pytest.fixture(scope="module")
def one_file(real):
    return real("khi2d_40x48/simData_000800.bp5")  # two ranks, 25 particles per cell


@pytest.fixture(scope="module")
def one_of_ours(tmp_path_factory):
    producer = KelvinHelmholtz(grid=(40, 48), ranks=2, last_step=3, first_step=3, period=1)
    return written(producer, tmp_path_factory.mktemp("ours") / "khi.bp5", "group_based")


@pytest.fixture(scope="module")
def one_of_flow(tmp_path_factory):
    producer = VortexFlow(grid=(40, 48), ranks=2, last_step=1, first_step=1, species=("e", "i"))
    return written(producer, tmp_path_factory.mktemp("flow") / "flow.bp5", "group_based")


def test_names_types_values_and_units_are_those_of_a_file_of_picongpu(one_file, one_of_ours):
    explained = Explained(
        theirs_only=Reasons(
            NOT_OURS.keys() - {"__openPMD_groups/data/N/fields/picongpu_idProvider"}
        ),
        ours_only=Reasons(BOOKKEEPING, OF_VALIDATOR, IN_STREAMS),
        types=Reasons(OTHER_TYPE),
        values=Reasons(OTHER_VALUE, OF_FILES),
    )
    assert_alike(one_file, one_of_ours, explained)


def test_a_stream_of_constant_names_is_as_picongpu_writes_it(real, tmp_path):
    theirs = real("khi2d_range_varbased.bp5")
    producer = KelvinHelmholtz(grid=(40, 48), ranks=2, last_step=4, period=2)
    ours = written(producer, tmp_path / "khi.bp5", "variable_based")
    explained = Explained(
        theirs_only=Reasons(NOT_OURS),
        ours_only=Reasons(BOOKKEEPING, OF_VALIDATOR),
        types=Reasons(OTHER_TYPE),
        values=Reasons(OTHER_VALUE, OF_RANGES),
    )
    assert_alike(theirs, ours, explained)


def test_the_load_generator_writes_the_same_particles_and_its_own_label(one_file, one_of_flow):
    explained = Explained(
        theirs_only=Reasons(OF_FLOW.keys() - {"__openPMD_groups/data/N/fields.*"}),
        ours_only=Reasons(BOOKKEEPING, IN_STREAMS, OF_FLOW_TOO),
        types=Reasons(OTHER_TYPE.keys() - {".*/gridSpacing"}),
        values=Reasons(OTHER_VALUE, OF_FILES, OF_FLOW_VALUE),
    )
    assert_alike(one_file, one_of_flow, explained)


def test_the_momentum_before_the_last_step_is_written_as_picongpu_does(real, tmp_path):
    """From a run in three dimensions: momenta have three components in two dimensions, too."""
    theirs = real("khi3d_range_varbased.bp5")
    producer = KelvinHelmholtz(grid=(8, 16), last_step=0, period=1, momentum_prev=True)
    ours = written(producer, tmp_path / "khi.bp5", "variable_based")

    def of_record(said):
        return {
            name.partition("momentumPrev1")[2]: (facts[0], np.round(np.log(facts[1]), 5).tolist())
            if name.endswith("unitSI")
            else facts[0]
            for name, facts in (said.variables | said.attributes).items()
            if "/e/momentumPrev1" in name
        }

    assert len(of_record(ours)) == 11  # 4 attributes; 3 variables, their units; the group
    assert of_record(ours) == of_record(theirs)


@pytest.mark.parametrize("writer", ["one_file", "one_of_ours", "one_of_flow"])
def test_boxes_patches_and_blocks_hang_together_in_the_same_way(writer, request):
    said = request.getfixturevalue(writer)
    for kind in "ei":
        species = f"/data/N/particles/{kind}"
        patches = f"{species}/particlePatches"
        counts = said.arrays[f"{patches}/numParticles"]
        starts = said.arrays[f"{patches}/numParticlesOffset"]
        assert starts.tolist() == [0, counts[0]]
        assert counts.sum() == 40 * 48 * 25
        offset, extent = (
            np.stack([said.arrays[f"{patches}/{what}/{a}"] for a in "xy"], axis=1).astype(int)
            for what in ("offset", "extent")
        )
        assert offset.tolist() == [[0, 0], [0, 24]]
        assert extent.tolist() == [[40, 24], [40, 24]]
        spans = [((int(s),), (int(n),)) for s, n in zip(starts, counts, strict=True)]
        for name, (_, shape, blocks) in said.variables.items():
            if name.startswith(species) and not name.startswith(patches):
                assert shape == (48_000,), name
                assert blocks == spans, name
            elif name.startswith(patches):
                assert shape == (2,)
        for start, count, low, size in zip(starts, counts, offset, extent, strict=True):
            part = slice(int(start), int(start + count))
            for axis, a in enumerate("xy"):
                inside = said.arrays[f"{species}/position/{a}"][part]
                cell = said.arrays[f"{species}/positionOffset/{a}"][part]
                assert 0 <= inside.min() <= inside.max() < 1
                assert low[axis] <= cell.min() <= cell.max() < low[axis] + size[axis]
    for name, (_, shape, blocks) in said.variables.items():
        if re.fullmatch("/data/N/fields/[EB]/.", name):
            assert shape == (48, 40)
            assert blocks == [((0, 0), (24, 40)), ((24, 0), (24, 40))]


@pytest.mark.parametrize("writer", ["one_file", "one_of_ours", "one_of_flow"])
@pytest.mark.parametrize("kind", ["e", "i"])
def test_numbers_become_si_by_the_same_rule(writer, kind, request):
    """Density 1e25 / m^3, charges, masses, and streams of gamma beta = 0.206."""
    said = request.getfixturevalue(writer)
    species = f"/data/N/particles/{kind}"

    def si(record):
        return said.attributes[f"{species}/{record}/unitSI"][1]

    weighting = said.arrays[f"{species}/weighting"].astype(float)
    cells = 40 * 48 * si("position/x") * si("position/y") * 93.4635e-9
    assert weighting.sum() / cells == pytest.approx(1e25, rel=1e-5)
    charge, mass = (said.attributes[f"{species}/{r}/value"][1] * si(r) for r in ("charge", "mass"))
    assert charge == pytest.approx({"e": -1, "i": 1}[kind] * 1.602176634e-19, rel=1e-6)
    assert mass == pytest.approx({"e": 1, "i": 1836.152672}[kind] * 9.1093837e-31, rel=1e-6)
    momenta = [said.arrays[f"{species}/momentum/{a}"] * si(f"momentum/{a}") for a in "xyz"]
    u = np.array(momenta) / weighting / (mass * C)
    assert np.sqrt((u**2).sum(axis=0).mean()) == pytest.approx(0.206, rel=0.1)
    if writer != "one_of_flow":
        for field, value in (("E", 9.522396795e12), ("B", 31763.2967)):
            unit = said.attributes[f"/data/N/fields/{field}/x/unitSI"][1]
            assert unit == pytest.approx(value, rel=1e-6)
