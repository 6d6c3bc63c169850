"""The arithmetic of `billow bench pic`; the timing itself is not tested."""

import argparse
import json
import time

import pytest
from rich.console import Console

from benchmarks import pic, processes, triad
from benchmarks.peers import case


def test_the_ratio_is_the_median_within_rounds_not_the_ratio_of_medians():
    ours = [{pic.WALL: value} for value in (10.0, 20.0, 40.0)]
    theirs = [{pic.WALL: value} for value in (40.0, 20.0, 60.0)]
    row = pic._row("case", ours, pic.WALL, peer="peer 1.0", theirs=theirs)
    assert (row["billow"], row["peer_value"]) == (20.0, 40.0)
    assert row["ratio"] == 1.5
    assert row["ratio_range"] == [1.0, 4.0]


def test_a_crowded_round_does_not_count_beside_a_quiet_one():
    ours = [{pic.WALL: 10.0, "crowding": 0.0}, {pic.WALL: 30.0, "crowding": 0.0}]
    theirs = [{pic.WALL: 20.0, "crowding": 0.1}, {pic.WALL: 300.0, "crowding": 0.9}]
    row = pic._row("case", ours, pic.WALL, peer="peer 1.0", theirs=theirs)
    assert (row["ratio"], row["rounds"], row["crowding"]) == (2.0, 1, 0.1)
    assert pic._row("case", ours[1:], pic.WALL, peer="p", theirs=theirs[1:])["crowding"] == 0.9


def test_the_memory_bound_is_five_numbers_in_and_out():
    assert triad.bound(dtype="float32", gb_per_s=40.0) == pytest.approx(1.0)
    assert triad.bound(dtype="float64", gb_per_s=40.0) == pytest.approx(2.0)


def test_a_report_counts_the_particles_of_all_species_and_shares_processor_time(capsys):
    options = argparse.Namespace(steps=10, threads=2)
    times = {"wall_s": 1e-3, "cpu_s": 1.8e-3, "crowding": 0.0}
    case.report(options, code="x", version="1", particles=1000, times=times)
    line = json.loads(capsys.readouterr().out)
    assert line["ns_per_particle_step"] == pytest.approx(100.0)
    assert line["cpu_ns_per_particle_step"] == pytest.approx(90.0)


@pytest.mark.skipif(not case.STAT.exists(), reason="reads Linux's /proc/stat")
def test_a_sleeping_code_takes_wall_time_and_no_processor_time():
    times = case.timed(argparse.Namespace(threads=1), lambda: time.sleep(0.02))
    assert times["wall_s"] >= 0.02
    assert times["cpu_s"] < times["wall_s"]


def test_a_missing_peer_is_said_in_words(monkeypatch):
    monkeypatch.setenv("BILLOW_PEER_PYTHON", "/nowhere/python")
    console = Console(record=True, width=200)
    assert not processes.installed("lambdapic", console)
    said = console.export_text()
    assert "cannot import lambdapic" in said
    assert "--peer-python" in said


def test_a_process_that_fails_is_quoted():
    with pytest.raises(RuntimeError, match=r"ended with 1: .*no such physics"):
        processes.call([processes.peer_python(), "-c", "raise SystemExit('no such physics')"])
