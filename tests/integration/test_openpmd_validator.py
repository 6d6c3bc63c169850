"""The official openPMD validator, with the ED-PIC extension, finds no error in what we write.

It reads HDF5 only. So a BP5 series of ours is brought there in two ways: by openPMD-api's own
`openpmd-pipe`, as a user would, and name by name, so that nothing can be mended on the way. Only
the names of groupBased series are those of HDF5; variableBased ones take the first way only.
PIConGPU's own files do not pass: `macroWeighted` of constants is int32 and `particleBoundary` lies
above the meshes.
"""

import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import adios2
import h5py
import numpy as np
import pytest

from producers.flow import VortexFlow
from producers.khi import KelvinHelmholtz
from workflow import streams
from workflow.types import Hosting

PATIENCE_S = 60.0
KHI = KelvinHelmholtz(
    grid=(8, 16), ranks=2, particles_per_cell=4, last_step=4, period=2, momentum_prev=True
)
PRODUCERS = {
    "khi": KHI,
    "khi without fields": replace(KHI, fields=False),
    "flow": VortexFlow(grid=(8, 16), ranks=2, last_step=2, species=("e", "i"), momentum_prev=True),
}


@dataclass(frozen=True)
class Verdict:
    errors: int
    complaints: list[str]
    words: str


def validate(file: Path) -> Verdict:
    command = [sys.executable, "-m", "openpmd_validator.check_h5", "-i", str(file), "--EDPIC"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    words = done.stdout + done.stderr
    result = re.search(r"Result: (\d+) Errors and \d+ Warnings", words)
    assert result, words
    complaints = [line for line in words.splitlines() if line.startswith(("Error", "Warning"))]
    return Verdict(int(result[1]), complaints, words)


def write(producer, path, encoding, change=lambda series: series):
    series = change(producer.series())
    with streams.open_writer("bp5", path, series, encoding=encoding) as writer:
        for frames in producer.iterations(1, hosting=Hosting.INLINE):
            writer.put(frames)


def by_pipe(bp, h5):
    command = [sys.executable, "-m", "openpmd_api.pipe", "--infile", str(bp), "--outfile", str(h5)]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)


def by_name(bp, h5):
    """Each variable a dataset, each attribute an attribute, under the same path and type."""
    with adios2.FileReader(str(bp)) as source, h5py.File(h5, "w") as target:
        for name in source.available_variables():
            variable = source.inquire_variable(name)
            first = variable.steps_start()
            variable.set_step_selection([first, 1])
            target[name] = np.asarray(source.read(variable)).reshape(variable.shape(first))
        for name in source.available_attributes():
            if name.startswith("__openPMD"):
                continue
            where, _, last = name.rpartition("/")
            value = source.read_attribute(name)  # a single value, or an array even of one
            if isinstance(value, str):
                value = np.bytes_(value)
            elif isinstance(value, list):
                value = np.array(value, "S")
            holder = target.get(where or "/")
            if holder is None:
                holder = target.create_group(where)
            holder.attrs[last] = value


@pytest.mark.parametrize("name", PRODUCERS)
@pytest.mark.parametrize(
    ("convert", "encoding"),
    [(by_name, "group_based"), (by_pipe, "group_based"), (by_pipe, "variable_based")],
    ids=["group_based-by_name", "group_based-by_pipe", "variable_based-by_pipe"],
)
def test_the_validator_finds_no_error(tmp_path, name, convert, encoding):
    write(PRODUCERS[name], tmp_path / "out.bp5", encoding)
    convert(tmp_path / "out.bp5", tmp_path / "out.h5")
    verdict = validate(tmp_path / "out.h5")
    assert verdict.errors == 0, verdict.words
    assert verdict.complaints == [  # who runs it is not ours to say
        "Warning: Attribute author (recommended) does NOT exist in `/`!"
    ]
    assert "Found 3 iteration(s)" in verdict.words
    assert verdict.words.count("found 2 particle species") == 3


def test_the_validator_would_find_an_error(tmp_path):
    def forget(series):
        attributes = dict(series.attributes)
        del attributes["particles/e/particlePush"], attributes["fields/fieldSolver"]
        return replace(series, attributes=attributes)

    write(KHI, tmp_path / "out.bp5", "group_based", forget)
    by_name(tmp_path / "out.bp5", tmp_path / "out.h5")
    verdict = validate(tmp_path / "out.h5")
    assert verdict.errors > 0
    assert any("fieldSolver" in complaint for complaint in verdict.complaints)
