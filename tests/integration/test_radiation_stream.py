"""Radiation on real streams: written by a process of ours, read by ours and by openPMD-api.

Four ranks and four directions, so that a row per box cannot pass for an array that all share.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stream_kit as kit
from test_openpmd_peer import told_by_peer

from producers.khi import KelvinHelmholtz
from producers.radiation import Radiation
from transforms.spectrum import LogSpectrum
from workflow import chain as chains
from workflow import streams
from workflow.types import Frame, Hosting, StreamState

ROOT = Path(__file__).parents[2]
CONFIG = KelvinHelmholtz(
    grid=(8, 16), ranks=4, particles_per_cell=4, first_step=2, last_step=6, period=2,
    radiation=Radiation(frequencies=16),
)  # fmt: skip
WRITER = """
import sys
sys.path[:0] = ["tests", "tests/integration"]
from test_radiation_stream import CONFIG
from workflow import streams
from workflow.types import Hosting

engine, path, encoding = sys.argv[1:]
iterations = CONFIG.iterations(1, hosting=Hosting.PROCESSES)
first = next(iterations)
parameters = {"RendezvousReaderCount": "1"} if engine == "sst" else {}
writer = streams.open_writer(
    engine, path, CONFIG.series(), parameters=parameters, encoding=encoding
)
writer.put(first)
for frames in iterations:
    writer.put(frames)
writer.close()
"""


@pytest.fixture(params=["bp5", "sst"])
def stream(request, tmp_path):
    """Engine, path, and the wait for the writer's end: stream(encoding)."""
    started = []

    def start(encoding):
        path = tmp_path / ("out.bp5" if request.param == "bp5" else "out.sst")
        command = [sys.executable, "-c", WRITER, request.param, str(path), encoding]
        started.append(subprocess.Popen(command, cwd=ROOT))
        if request.param == "bp5":
            assert started[0].wait(kit.PATIENCE_S) == 0
        return request.param, path

    yield start
    for process in started:
        assert process.wait(kit.PATIENCE_S) == 0


def made():
    """What the writer put: {iteration: [{path: array} of each box]}."""
    return {
        frames[0].iteration: [{k: np.array(a) for k, a in f.arrays.items()} for f in frames]
        for frames in CONFIG.iterations(1, hosting=Hosting.INLINE)
    }


@pytest.mark.parametrize("encoding", kit.ENCODINGS)
def test_our_reader_gets_what_was_radiated_and_the_spectrum_is_made_of_it(stream, encoding):
    engine, path = stream(encoding)
    reader = streams.open_reader(engine, path, name="khi")
    stage = LogSpectrum(frequencies=16, direction=0)
    records = ["Amplitude_distributed", "DetectorDirection", "DetectorFrequency"]
    seen = kit.collect(reader, records=records)
    assert reader.state() is StreamState.ENDED
    reader.close()
    wanted = made()
    assert [iteration for iteration, *_ in seen] == list(wanted)
    for iteration, offers, _, frames in seen:
        assert set(offers) == set(CONFIG.offers())
        for frame, arrays in zip(frames, wanted[iteration], strict=True):
            assert isinstance(frame, Frame)
            assert len(frame.arrays) == 7
            for name, array in frame.arrays.items():
                assert array.dtype == arrays[name].dtype
                np.testing.assert_array_equal(array, arrays[name])
                assert frame.units[name] == CONFIG.series().units[name]
            lines = [arrays[f"Amplitude_distributed/{a}"][0] for a in "xyz"]
            power = sum(np.abs(line) ** 2 for line in lines)
            sample = chains.run([stage], frame, seed=1)
            np.testing.assert_allclose(
                sample.arrays["spectrum"], np.log(power + 1e-9), rtol=1e-6, atol=1e-6
            )


@pytest.mark.parametrize("encoding", kit.ENCODINGS)
def test_openpmd_api_reads_a_row_per_rank_and_the_detectors(stream, encoding):
    engine, path = stream(encoding)
    told = told_by_peer(path, sst=engine == "sst")
    wanted, units = made(), CONFIG.series().units
    assert list(told) == list(wanted)
    for iteration, (_, _, said, _, _) in told.items():
        boxes = wanted[iteration]
        for axis in "xyz":
            name = f"Amplitude_distributed/{axis}"
            assert said[name]["array"].shape == (4, 4, 16)
            assert said[name]["array"].dtype == np.complex128
            np.testing.assert_array_equal(said[name]["array"], [box[name] for box in boxes])
        for name in [*(f"DetectorDirection/{a}" for a in "xyz"), "DetectorFrequency/omega"]:
            np.testing.assert_array_equal(said[name]["array"], boxes[0][name])
        for name in (n for n in said if n.startswith(("Amp", "Det"))):
            assert (said[name]["si"], said[name]["dimension"]) == (
                units[name].si,
                units[name].dimension,
            )
