"""The command itself, as a user types it: exit codes, messages, interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from workflow.cli import main

ROOT = Path(__file__).parents[2]
LAPTOP = str(ROOT / "configs" / "khi-laptop.yaml")
RECORDING = str(ROOT / "configs" / "picongpu-recording.yaml")


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch):
    monkeypatch.chdir(ROOT)


def fails_with(capsys, tmp_path, *arguments):
    """Exit code 2, nothing started, and the message."""
    out = tmp_path / "never"
    assert main(["run", *arguments, "--out", str(out)]) == 2
    assert not out.exists()
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("sede=3", ["sede: unknown key", "Did you mean 'seed'?"]),
        ("learners.count=two", ["learners.count", "valid integer", "'two'"]),
        ("source.producer.use=producers.khi:Kelvin", ["has no 'Kelvin'", "KelvinHelmholtz"]),
        ("source.producer.use=nobody.has:This", ["there is no module 'nobody.has'"]),
        ("source.producer.momentum_prev=false", ["e/momentumPrev1", "PhaseSpace", "offers"]),
        ("transforms.chain.1.species=muon", ["needs the record 'muon/momentum'", "offers"]),
        ("transforms.boxes_per_actor=3", ["2 actors", "need 6 boxes", "has 4"]),
        ("transforms.count=9", ["need 9 boxes", "has 4"]),
    ],
)
def test_bad_input_is_refused_with_exit_code_2(capsys, tmp_path, override, says):
    message = fails_with(capsys, tmp_path, LAPTOP, override)
    assert all(part in message for part in says), message


def test_a_missing_recording_is_named(capsys, tmp_path):
    message = fails_with(capsys, tmp_path, RECORDING, "source.producer.path=nothing/here.bp5")
    assert "nothing/here.bp5" in message


def test_a_file_that_is_not_openpmd_is_named(capsys, tmp_path):
    plain = tmp_path / "plain.bp5"
    script = (
        "import adios2, numpy as np, sys\n"
        "with adios2.Stream(sys.argv[1], 'w') as s:\n"
        "    s.begin_step(); s.write('x', np.arange(4.0)); s.end_step()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(plain)], check=True)
    message = fails_with(capsys, tmp_path, RECORDING, f"source.producer.path={plain}")
    assert "openPMD" in message
    assert plain.name in message


def test_something_that_is_no_series_at_all_is_named(capsys, tmp_path):
    text = tmp_path / "notes.bp5"
    text.write_text("hello")
    message = fails_with(capsys, tmp_path, RECORDING, f"source.producer.path={text}")
    assert str(text) in message


def test_a_config_that_is_missing_is_named(capsys, tmp_path):
    assert "cannot read the config" in fails_with(capsys, tmp_path, str(tmp_path / "no.yaml"))


def test_a_run_folder_with_files_in_it_is_never_written_over(capsys, tmp_path):
    (tmp_path / "precious.txt").write_text("results")
    assert main(["run", LAPTOP, "--out", str(tmp_path)]) == 2
    assert "empty or new folder" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize("config", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_config_of_the_project_checks(capsys, config):
    assert main(["check", str(config)]) == 0
    said = capsys.readouterr().out
    assert "nothing was started" in said
    assert "particles (256, " in said


def test_the_template_checks_and_the_schema_is_json(capsys, tmp_path):
    assert main(["init"]) == 0
    template = capsys.readouterr().out
    path = tmp_path / "mine.yaml"
    path.write_text(template)
    assert main(["check", str(path)]) == 0
    capsys.readouterr()
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert set(yaml.safe_load(template)) <= set(schema["properties"])


def test_watching_something_that_is_no_run_folder_is_refused(capsys, tmp_path):
    assert main(["watch", str(tmp_path)]) == 2
    assert "wanted a run folder" in capsys.readouterr().err


def test_an_unknown_benchmark_names_those_there_are(capsys):
    assert main(["bench", "nothing"]) == 2
    assert "workflow" in capsys.readouterr().err


def test_an_inline_run_ends_with_exit_code_0_and_can_be_watched(capsys, tmp_path):
    out = tmp_path / "run"
    arguments = ["limits.max_steps=20", "--inline", "--plain", "--out", str(out)]
    assert main(["run", RECORDING, *arguments]) == 0
    said = capsys.readouterr().out
    assert "held-out loss" in said
    assert str(out) in said.replace("\n", "")
    assert main(["watch", str(out), "--once"]) == 0
    watched = capsys.readouterr().out
    assert "stopped" in watched
    assert "20" in watched


def test_an_interrupted_run_checkpoints_and_exits_with_130(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "workflow.cli", "run", RECORDING, "--plain", "--inline"]
    command += ["source.producer.repeat=1000", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    journal = out / "journal" / "run.jsonl"
    until = time.monotonic() + 90
    while time.monotonic() < until and not (
        journal.exists() and "reduce/update" in journal.read_text()
    ):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=90)
    assert process.returncode == 130, said
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["status"], summary["reason"]) == ("stopped", "by SIGINT")
    assert summary["ledger_closed"], summary["ledger"]["open"]
    assert list((out / "checkpoints").iterdir())


def test_the_doctor_finds_this_machine_fit():
    done = subprocess.run(
        [sys.executable, "-m", "workflow.cli", "doctor"],
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 iterations from a process of our own" in done.stdout
    assert "this machine can run Billow" in done.stdout
