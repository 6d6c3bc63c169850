"""The same graph in one thread and on Ray gives the same numbers."""

import numpy as np
import pytest
from safetensors.numpy import load_file

pytestmark = pytest.mark.usefixtures("ray_session")


def weights(finished):
    newest = max((finished.folder / "checkpoints").iterdir())
    return load_file(newest / "weights.safetensors")


def trained_rows(finished):
    """(learner, part, loss) of every step: equal only if samples, order and weights are equal."""
    return [
        (e["step"], e["learner"], e["part"], e["value"]) for e in finished.events("learner/loss")
    ]


def test_inline_and_ray_end_with_the_same_weights(run_small):
    inline = run_small(inline=True, name="inline")
    on_ray = run_small(inline=False, name="ray")
    assert inline.summary["status"] == "ended", inline.explain()
    assert on_ray.summary["status"] == "ended", on_ray.explain()
    assert inline.summary["training_steps"] > 40
    assert sorted(trained_rows(inline)) == sorted(trained_rows(on_ray))
    assert inline.summary["weights_digest"] == on_ray.summary["weights_digest"]
    one, other = weights(inline), weights(on_ray)
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)
    for name in ("samples", "held_out_samples", "loss_first", "loss_last"):
        assert inline.summary[name] == on_ray.summary[name]


def test_a_run_on_ray_over_sst_closes_its_ledger_and_learns(run_small):
    finished = run_small("source.producer.last_step=120", inline=False)
    summary = finished.summary
    assert summary["status"] == "ended", finished.explain()
    assert summary["stream_state"] == "ended"
    assert summary["ledger_closed"], summary["ledger"]["open"]
    assert summary["frames_produced"] == summary["frames_seen"] == 2 * 56
    assert summary["frames_lost"] == 0
    assert summary["weights_agree"]
    assert summary["learners_alive"] == 2
    assert summary["loss_last"] < 0.8 * summary["loss_first"]
    assert {"driver", "learner", "transform", "shard", "reducer", "producer", "rank"} == set(
        summary["peak_memory_bytes"]
    )
    for name in ("config.yaml", "manifest.json", "summary.json", "journal", "checkpoints"):
        assert (finished.folder / name).exists()


def test_a_stop_that_is_asked_for_ends_between_steps_with_a_checkpoint(run_small):
    finished = run_small("limits.max_steps=20", inline=False)
    summary = finished.summary
    assert summary["status"] == "stopped"
    assert summary["training_steps"] == 20
    assert summary["ledger_closed"], summary["ledger"]["open"]
    assert (finished.folder / "checkpoints" / "step-000020").is_dir()
