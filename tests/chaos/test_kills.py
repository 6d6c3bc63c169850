"""Real kills at random moments: the right state is named, the ledger closes, the run goes on or
stops as designed. The moment is drawn anew in every run of the tests and shown when one fails."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workflow.journal import read_journal
from workflow.vitals import run_state

pytestmark = pytest.mark.usefixtures("ray_session")

LONGER = (  # 60 iterations of 2 boxes; some 100 training steps or more
    "source.producer.last_step=128",
    "replay.batches_per_sample=4",
    "source.producer.pace_s=0.05",  # slow enough to be hit in mid-run
)


@pytest.fixture
def moment():
    """A random training step in mid-run."""
    return random.SystemRandom().randint(5, 60)


def kill(node, at_step, number="KILL"):
    return f"faults=[{{at_step: {at_step}, node: {node}, signal: {number}}}]"


def check(finished, moment):
    summary = finished.summary
    assert summary["ledger_closed"], (moment, summary["ledger"]["open"], finished.explain())
    assert len(finished.events("fault/inject")) == 1, (moment, finished.explain())
    return summary


@pytest.mark.parametrize("node", ["rank-0", "rank-1", "producer"])
def test_a_killed_producer_is_lost_and_never_an_end(run_small, node, moment):
    finished = run_small(*LONGER, kill(node, moment), inline=False)
    summary = check(finished, moment)
    assert summary["status"] == "failed", finished.explain()
    assert "the producer was lost" in summary["reason"]
    assert summary["stream_state"] == "producer_lost"
    assert [e["value"] for e in finished.events("stream/state")][-1] == "producer_lost"
    assert summary["training_steps"] >= moment
    assert summary["weights_agree"]
    assert list((finished.folder / "checkpoints").iterdir())


def test_a_lost_producer_is_restarted_when_the_config_says_so(run_small, moment):
    finished = run_small(*LONGER, kill("producer", moment), "source.on_lost=restart", inline=False)
    summary = check(finished, moment)
    assert summary["status"] == "ended", finished.explain()
    assert summary["restarts"] == 1
    epochs = {e["stream"] for e in finished.events("stream/iteration")}
    assert epochs == {"khi", "khi#2"}


def test_a_killed_transform_actor_is_replaced_and_its_boxes_go_to_the_survivor(run_small, moment):
    finished = run_small(*LONGER, kill("transform-1", moment), inline=False)
    summary = check(finished, moment)
    assert summary["status"] == "ended", finished.explain()
    assert summary["restarts"] == 1
    lost = finished.events("frame/lost")
    assert all(e["by"] == "transform-1" for e in lost)
    assert summary["frames_lost"] == len(lost) <= 6
    deals = [e["deal"] for e in finished.events("stream/iteration")]
    assert {"transform-0": [0, 1]} in deals  # the survivor took all boxes


def test_a_killed_learner_is_replaced_and_ends_with_everybody_elses_weights(run_small, moment):
    finished = run_small(*LONGER, "learners.count=3", kill("learner-1", moment), inline=False)
    summary = check(finished, moment)
    assert summary["status"] == "ended", finished.explain()
    assert summary["restarts"] == 1
    assert summary["frames_lost"] == 0
    joins = [e for e in finished.events("learner/join") if e["learner"] == "learner-1"]
    assert len(joins) == 2
    assert summary["learners_alive"] == 3
    assert summary["weights_agree"], finished.run.digests
    missed = [e for e in finished.events("reduce/update") if "learner-1" in e["missing"]]
    assert summary["updates_skipped"] == 0
    assert len(missed) <= 2


def test_when_all_learners_die_the_run_goes_back_to_the_newest_checkpoint(run_small):
    finished = run_small(
        *LONGER, "learners.checkpoint_every=20",
        "faults=[{at_step: 50, node: learner-0}, {at_step: 50, node: learner-1}]", inline=False,
    )  # fmt: skip
    summary = finished.summary
    assert summary["status"] == "ended", finished.explain()
    assert summary["ledger_closed"], summary["ledger"]["open"]
    rewound = finished.events("learner/rewound")
    assert [e["step"] for e in rewound] == [40]
    assert summary["weights_agree"]
    assert summary["loss_last"] < summary["loss_first"]
    assert len(list((finished.folder / "checkpoints").iterdir())) == 3


def test_a_frozen_producer_is_stalled_and_then_lost(run_small, moment):
    finished = run_small(
        *LONGER, "source.stream.silence_s=1", "source.stream.lost_deadline_s=2",
        kill("producer", moment, "STOP"), inline=False,
    )  # fmt: skip
    summary = check(finished, moment)
    assert summary["status"] == "failed", finished.explain()
    assert "stalled for" in summary["reason"]
    states = [e["value"] for e in finished.events("stream/state")]
    assert states[-2:] == ["stalled", "producer_lost"]


def test_with_all_transform_actors_dead_at_once_new_ones_take_the_stream_up(run_small):
    finished = run_small(
        "source.producer.last_step=400", "source.producer.pace_s=0.12",
        "faults=[{at_step: 20, node: transform-0}, {at_step: 20, node: transform-1}]",
        inline=False,
    )  # fmt: skip
    summary = finished.summary
    assert summary["status"] == "ended", finished.explain()
    assert summary["ledger_closed"], summary["ledger"]["open"]
    assert summary["restarts"] == 2
    assert 0 < summary["frames_lost"] < summary["frames_produced"]  # how many, the machine says
    deals = [e["deal"] for e in finished.events("stream/iteration")]
    assert deals[-1].keys() == {"transform-0", "transform-1"}


@pytest.mark.parametrize("node", ["shard-0", "reducer"])
def test_a_killed_shard_or_reducer_is_replaced_and_the_run_goes_on(run_small, node, moment):
    finished = run_small(*LONGER, kill(node, moment), inline=False)
    summary = check(finished, moment)
    assert summary["status"] == "ended", finished.explain()
    assert summary["restarts"] == 1
    assert summary["weights_agree"]


@pytest.mark.parametrize("node", ["shard-0", "reducer"])
def test_a_frozen_shard_or_reducer_is_taken_down_and_replaced(run_small, node, moment):
    finished = run_small(
        *LONGER, "reducer.deadline_s=3", "learners.silent_s=3", kill(node, moment, "STOP"),
        inline=False,
    )  # fmt: skip
    summary = check(finished, moment)
    assert summary["status"] == "ended", finished.explain()
    assert summary["restarts"] == 1
    assert summary["weights_agree"]
    (lost,) = finished.events("shard/lost") + finished.events("reducer/lost")
    assert "no answer" in lost["why"]


def test_a_frozen_learner_misses_a_deadline_and_is_replaced(run_small, moment):
    finished = run_small(
        *LONGER, "learners.count=3", "reducer.deadline_s=3", "learners.silent_s=4",
        kill("learner-2", moment, "STOP"), inline=False,
    )  # fmt: skip
    summary = check(finished, moment)
    assert summary["status"] == "ended", finished.explain()
    assert finished.events("learner/late")
    assert [e["learner"] for e in finished.events("learner/lost")] == ["learner-2"]
    assert summary["weights_agree"]


def test_a_frozen_transform_actor_is_evicted_so_that_the_simulation_goes_on(run_small, moment):
    finished = run_small(
        *LONGER, "transforms.silent_s=4", kill("transform-0", moment, "STOP"), inline=False
    )
    summary = check(finished, moment)
    assert summary["status"] == "ended", finished.explain()
    assert [e["node"] for e in finished.events("transform/lost")] == ["transform-0"]


def test_a_killed_driver_leaves_no_process_behind_and_is_shown_as_lost(tmp_path, small_yaml):
    config = tmp_path / "small.yaml"
    config.write_text(small_yaml)
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "workflow.cli", "run", str(config), *LONGER]
    command += ["source.producer.last_step=100000", "--plain", "--out", str(folder)]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 90
        while not updates(folder):
            assert time.monotonic() < until
            assert driver.poll() is None
            time.sleep(0.2)
    finally:
        driver.kill()
        driver.wait()
    pids = {e["pid"] for e in read_journal(folder) if isinstance(e.get("pid"), int)}
    pids |= {rank for e in read_journal(folder) for rank in e.get("ranks", ())}
    assert len(pids) >= 1 + 2 + 2 + 2 + 1 + 1 + 2  # driver, nodes, producer and its ranks
    until = time.monotonic() + 60
    while left := {pid for pid in pids if alive(pid)}:
        assert time.monotonic() < until, f"still there: {left}"
        time.sleep(0.2)
    state = run_state(folder, time.time())
    assert state.state == "lost", state


def updates(folder):
    journal = folder / "journal"
    return journal.exists() and any(e["event"] == "reduce/update" for e in read_journal(folder))


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
