"""Whole runs in one thread: equal seeds, ledger, what is dropped, what is refused."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from producers.khi import KelvinHelmholtz
from producers.setup import Start
from workflow.errors import ConfigError


def test_two_inline_runs_with_one_seed_are_bit_equal(run_small):
    one, other = (run_small(inline=True, name=name) for name in ("one", "other"))
    assert one.summary["status"] == "ended", one.explain()
    assert one.summary["weights_digest"] == other.summary["weights_digest"]
    losses = [[e["value"] for e in run.events("learner/loss")] for run in (one, other)]
    assert losses[0] == losses[1]
    assert len(losses[0]) > 50


def test_another_seed_gives_other_weights(run_small):
    one, other = run_small(inline=True, name="a"), run_small("seed=6", inline=True, name="b")
    assert one.summary["weights_digest"] != other.summary["weights_digest"]


def test_every_box_of_an_inline_run_is_accounted_for(run_small):
    finished = run_small(inline=True)
    summary, ledger = finished.summary, finished.summary["ledger"]
    assert summary["ledger_closed"], ledger["open"]
    assert ledger["produced"] == 2 * 30
    assert ledger["held_out"] == 2 * 6
    assert ledger["trained"] + ledger["untrained"] + ledger["held_out"] == ledger["produced"]
    assert ledger["drawn"] == summary["training_steps"] * 2 * 4
    assert 0 < ledger["replayed"] <= ledger["drawn"] // 2
    assert summary["suspects"] == {}
    assert json.loads((finished.folder / "summary.json").read_text()) == summary


def test_short_boxes_are_dropped_counted_and_never_fatal_below_the_limit(run_small):
    finished = run_small("transforms.chain.0.particles=2000", inline=True)
    summary = finished.summary
    assert summary["status"] == "failed"  # all of them: that is past limits.max_dropped
    assert "limits.max_dropped" in summary["reason"]
    assert "short box" in summary["reason"]
    assert "2000" in summary["reason"]
    assert summary["ledger_closed"], summary["ledger"]["open"]
    assert summary["ledger"]["dropped"] >= 20


def test_steps_after_the_end_train_from_replay(run_small):
    plain = run_small(inline=True, name="plain")
    more = run_small("limits.steps_after_end=15", inline=True, name="more")
    assert more.summary["training_steps"] == plain.summary["training_steps"] + 15


def test_one_learner_alone_learns_the_same_way(run_small):
    finished = run_small("learners.count=1", inline=True)
    assert finished.summary["status"] == "ended"
    assert finished.summary["learners_alive"] == 1


def test_a_liar_under_the_median_is_named_and_kept_out(run_small):
    finished = run_small(
        "learners.count=5", "reducer.rule=median", "reducer.quorum=3",
        "learners.attacks={3: {use: 'learners.attacks:SignFlip'}}",
        "replay.batches_per_sample=6", "source.producer.last_step=120", inline=True,
    )  # fmt: skip
    summary = finished.summary
    assert summary["status"] == "ended", finished.explain()
    assert summary["loss_last"] < summary["loss_first"]
    assert set(summary["suspects"]) == {"learner-3"}


def test_a_learner_that_sends_nan_is_named_and_the_others_stay_equal(run_small):
    finished = run_small(
        "learners.count=3",
        "learners.attacks={1: {use: 'learners.attacks:NotANumber'}}", inline=True,
    )  # fmt: skip
    summary = finished.summary
    assert summary["status"] == "ended", finished.explain()
    assert "non-finite" in summary["suspects"]["learner-1"]
    assert summary["weights_agree"]
    assert summary["loss_last"] < summary["loss_first"]


@dataclass(frozen=True, kw_only=True)
class FailsAfter:
    """The small plasma, whose code fails after some iterations."""

    good: int

    def _plasma(self):
        return KelvinHelmholtz(
            grid=(16, 32), particles_per_cell=4, start=Start.RANDOM, ranks=2,
            first_step=10, last_step=68, period=2, momentum_prev=True,
        )  # fmt: skip

    def offers(self):
        return self._plasma().offers()

    def series(self):
        return self._plasma().series()

    def boxes(self):
        return 2

    def iterations(self, seed, *, hosting):
        for i, frames in enumerate(self._plasma().iterations(seed, hosting=hosting)):
            if i == self.good:
                raise RuntimeError("the plasma blew up")
            yield frames


@pytest.mark.parametrize("good", [0, 12])
def test_a_producer_whose_code_fails_is_lost_and_never_an_end(run_small, good):
    producer = f"{{use: '{__name__}:FailsAfter', good: {good}}}"
    finished = run_small(f"source.producer={producer}", inline=True)
    summary = finished.summary
    assert summary["status"] == "failed"
    assert "the plasma blew up" in summary["reason"]
    assert summary["stream_state"] == "producer_lost"
    assert summary["frames_seen"] == 2 * good
    assert summary["ledger_closed"], summary["ledger"]["open"]


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["source.producer.momentum_prev=false"], "needs the record 'e/momentumPrev1'"),
        (["transforms.count=3"], r"an iteration of source 'khi' has 2"),
        (["transforms.boxes_per_actor=2"], r"an iteration of source 'khi' has 2"),
        (["source.producer.use=producers.khi:Nothing"], "has no 'Nothing'"),
        (["source.producer.rankz=2"], r"no such field\. Did you mean 'ranks'"),
        (["source.producer.ranks=many"], "source.producer.ranks"),
        (["learners.model.features=3"], "wants 'particles' of shape"),
        (["reducer.rule=medium"], r"has no 'medium'\. Did you mean 'median'"),
        (["transforms.normaliser={use: 'transforms.subsample:Subsample', particles: 3}"],
         "is no Normaliser"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused_before_anything_starts(
    run_small, tmp_path, overrides, says
):
    with pytest.raises(ConfigError, match=says):
        run_small(*overrides, inline=True)
    assert not (tmp_path / "run").exists()


def test_spectra_travel_with_the_particles_into_samples_and_normalisation(run_small, small_yaml):
    text = small_yaml.replace(
        "    momentum_prev: true\n",
        "    momentum_prev: true\n    radiation: {frequencies: 16}\n",
    ).replace(
        "  normaliser:\n",
        '    - {use: "transforms.spectrum:LogSpectrum", frequencies: 16}\n  normaliser:\n',
    )
    finished = run_small("source.producer.last_step=30", text=text, inline=True)
    assert finished.summary["status"] == "ended", finished.explain()
    assert finished.summary["ledger_closed"]
    moments = finished.run.feed.moments
    assert moments["spectrum/mean"].shape == (16,)
    assert moments["spectrum/m2"].max() > 0
    held_out = finished.run.window.arrays(moments)
    assert held_out["spectrum"].shape == (len(held_out["particles"]), 16)
    assert np.isfinite(held_out["spectrum"]).all()
