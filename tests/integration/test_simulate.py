"""`billow simulate` as a user types it: files, numbers, interruption, a killed rank."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from workflow import streams
from workflow.cli import main
from workflow.streams.writer_note import Life, WriterNote
from workflow.types import Frame, StreamState

ROOT = Path(__file__).parents[2]
LAPTOP = str(ROOT / "configs" / "khi-laptop.yaml")
RECORDING = str(ROOT / "configs" / "picongpu-recording.yaml")
SMALL = ["source.producer.grid=[16, 32]", "source.producer.ranks=2"]
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch):
    monkeypatch.chdir(ROOT)


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_seeded_wave_is_simulated_measured_drawn_and_written(capsys, tmp_path):
    out = tmp_path / "wave.bp5"
    shape = ["grid=[40, 48]", "ranks=2", "particles_per_cell=4", "momentum_prev=false"]
    course = ["first_step=0", "last_step=900", "period=12", "temperature_ev=0"]
    seed = ["perturbation={mode: 1, amplitude: 1.0e-4}"]
    overrides = [f"source.producer.{o}" for o in shape + course + seed]
    assert main(["simulate", LAPTOP, *overrides, "--out", str(out), "--plot"]) == 0
    said = capsys.readouterr().out
    for words in ("Bz", "e kinetic", "energy drift", "of the whole", "iteration 900 (76 of 76)"):
        assert words in said
    growth = next(line for line in said.splitlines() if line.startswith("growth of B_z"))
    assert "wave 1 along x" in growth
    assert 0.88 < float(growth.rsplit("ratio ", 1)[1]) < 0.95  # 40 cells per wavelength, TSC
    rows = read(tmp_path / "wave.energies.csv")
    assert [int(row["iteration"]) for row in rows] == list(range(0, 901, 12))
    assert float(rows[-1]["Bz_J"]) > 1e3 * float(rows[4]["Bz_J"])
    assert (tmp_path / "wave.vortices.png").stat().st_size > 20_000
    described = streams.describe(out)
    assert (described.finished, described.boxes, len(described.iterations)) == (True, 2, 76)


def test_of_a_recording_without_fields_the_rest_is_told(capsys, monkeypatch, tmp_path):
    recorded = ROOT / "configs" / "data" / "picongpu_khi2d_growth.bp5"
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", RECORDING, f"source.producer.path={recorded}"]) == 0
    said = capsys.readouterr().out
    assert "26 outputs, iterations 600 to 1400" in said
    assert "e_all kinetic" in said
    assert "growth of B_z: not available: the stream has no B" in said
    (folder,) = (tmp_path / "runs").iterdir()
    assert sorted(p.name for p in folder.iterdir()) == ["config.yaml", "energies.csv"]
    assert len(read(folder / "energies.csv")) == 26


def test_a_taken_path_is_refused_and_nothing_starts(capsys, tmp_path):
    (tmp_path / "x.bp5").mkdir()
    assert main(["simulate", LAPTOP, "--out", str(tmp_path / "x.bp5")]) == 2
    assert "taken" in capsys.readouterr().err


class Simulation:
    """An endless simulation in a process of its own, with two ranks."""

    def __init__(self, tmp_path, *options):
        self.energies = tmp_path / "long.energies.csv"
        course = ["source.producer.first_step=0", "source.producer.last_step=10000000"]
        command = [sys.executable, "-m", "workflow.cli", "simulate", LAPTOP, *SMALL, *course]
        self.process = subprocess.Popen(
            [*command, "--plain", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, condition):
        """Wait for something, as long as the process lives."""
        until = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until
            time.sleep(0.02)

    def computes(self):
        self.until(lambda: self.energies.exists() and len(read(self.energies)) > 3)

    def ranks(self):
        pid = self.process.pid
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def long_simulation(tmp_path):
    """One that writes a file; killed at the end of the test if it still runs."""
    simulation = Simulation(tmp_path, "--out", str(tmp_path / "long.bp5"))
    yield simulation
    simulation.process.kill()
    simulation.process.communicate()


def test_a_killed_rank_ends_the_others_and_the_command_names_it(long_simulation, tmp_path):
    long_simulation.computes()
    ranks = long_simulation.ranks()
    assert len(ranks) == 2
    os.kill(ranks[1], signal.SIGKILL)
    said, error = long_simulation.process.communicate(timeout=PATIENCE_S)
    assert long_simulation.process.returncode == 3, error
    assert f"NodeLost: KelvinHelmholtz: rank 1 (process {ranks[1]}) was killed by SIGKILL" in error
    assert "Traceback" not in error
    assert f"their energies: {long_simulation.energies}" in said
    assert not [pid for pid in ranks if Path(f"/proc/{pid}").exists()]
    note = WriterNote(file=tmp_path / "long.bp5" / "billow.writer")
    assert note.life() is Life.LOST  # readers of the file see a lost producer, never an end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_cleanly_with_what_there_is(long_simulation, tmp_path, number):
    long_simulation.computes()
    ranks = long_simulation.ranks()
    long_simulation.process.send_signal(number)
    said, error = long_simulation.process.communicate(timeout=PATIENCE_S)
    assert long_simulation.process.returncode == 130, error
    assert "interrupted after" in said
    assert "energy drift" in said
    assert "Traceback" not in error
    assert not [pid for pid in ranks if Path(f"/proc/{pid}").exists()]
    described = streams.describe(tmp_path / "long.bp5")
    assert described.finished
    assert len(described.iterations) == len(read(long_simulation.energies)) > 3


def test_a_reader_takes_the_stream_of_a_simulation(capsys, monkeypatch, tmp_path):
    contact = tmp_path / "khi.sst"
    course = ["source.producer.first_step=0", "source.producer.last_step=20"]
    command = [sys.executable, "-m", "workflow.cli", "simulate", LAPTOP, *SMALL, *course]
    process = subprocess.Popen(
        [*command, "--stream", str(contact)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    reader = streams.open_reader("sst", contact, name="khi", deadline_s=PATIENCE_S)
    seen = []
    until = time.monotonic() + PATIENCE_S
    while reader.state() is StreamState.RUNNING and time.monotonic() < until:
        arrival = reader.poll()
        if arrival is None:
            time.sleep(0.01)
            continue
        frames = arrival.read(arrival.boxes, ["e/momentum"])
        assert all(isinstance(f, Frame) for f in frames)
        seen.append((arrival.iteration, sum(len(f.arrays["e/momentum/x"]) for f in frames)))
        arrival.release()
    reader.close()
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert seen == [(0, 16 * 32 * 9), (10, 16 * 32 * 9), (20, 16 * 32 * 9)]
    assert "waiting for a reader" in said
    assert np.isfinite(float(read(next(tmp_path.glob("runs/*/energies.csv")))[-1]["Ex_J"]))
