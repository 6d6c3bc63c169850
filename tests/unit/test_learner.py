"""Learners agree bit for bit, apply each update once, and go on from a state as if never away."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from learners.attacks import NotANumber, SignFlip
from learners.autoencoder import PointCloudVAE
from learners.digests import digest_of
from learners.learner import Learner
from learners.optimizers import SGD, Adam, clipped
from workflow.errors import CheckpointError, ConfigError, DataError
from workflow.protocols import Learner as LearnerSeam
from workflow.types import Batch, Key, Update

MODEL = PointCloudVAE(encoder=(8, 16), latent=4, decoder=(8,), points=16, device="cpu")
OPTIMIZERS = [
    Adam(lr=3e-3),
    Adam(lr=3e-3, weight_decay=0.1),
    SGD(lr=0.1),
    SGD(lr=0.1, momentum=0.9),
]


def learner(name="learner-0", *, model=MODEL, optimizer=OPTIMIZERS[0], seed=1, **kwargs):
    return Learner(name=name, model=model, optimizer=optimizer, seed=seed, **kwargs)


def batch(step=0, *, seed=None, rows=4, points=32, scale=1.0):
    rng = np.random.default_rng(step)
    particles = (scale * rng.standard_normal((rows, points, 6))).astype(np.float32)
    return Batch(
        step=step,
        part=0,
        arrays={"particles": particles},
        rows=tuple(Key("s", i, 0) for i in range(rows)),
        from_now=rows,
        seed=step if seed is None else seed,
        digest="",
    )


def update(step, values):
    return Update(step=step, values=values, heard=(), missing=(), suspects={}, reason="")


def train(one, steps):
    for step in steps:
        _, offer = one.gradient(batch(step))
        one.apply(update(step, offer.values))
    return one


def test_the_learner_fits_its_seam():
    typed: LearnerSeam = learner()
    assert typed.digest() == learner().digest()


def test_first_weights_depend_on_the_seed_and_nothing_else():
    torch.manual_seed(5)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    one = learner("learner-0")
    assert torch.equal(torch.rand(3), drawn)  # nor is torch's own generator touched
    assert one.digest() == learner("learner-7").digest()
    assert one.digest() != learner(seed=2).digest()


def test_two_learners_give_bit_equal_gradients_and_weights():
    one, other = learner("learner-0"), learner("learner-1")
    for step in range(5):
        (receipt, a), (_, b) = one.gradient(batch(step)), other.gradient(batch(step))
        assert a.values.tobytes() == b.values.tobytes()
        assert a.digest == b.digest == receipt["digest"]
        assert (
            one.apply(update(step, a.values))["digest"]
            == other.apply(update(step, b.values))["digest"]
        )
    assert one.digest() != learner().digest()


def test_a_gradient_changes_nothing_and_repeats():
    one = learner()
    before = one.digest()
    first = one.gradient(batch(3))[1]
    one.gradient(batch(4))
    assert one.gradient(batch(3))[1].digest == first.digest
    assert one.digest() == before


def test_the_latent_noise_comes_from_the_batch_seed():
    one = learner()
    assert one.gradient(batch(1, seed=5))[1].digest != one.gradient(batch(1, seed=6))[1].digest


def test_the_receipt_says_what_was_done():
    receipt, offer = learner().gradient(batch(2))
    assert (receipt["learner"], receipt["step"], receipt["part"]) == ("learner-0", 2, 0)
    assert receipt["rows"] == 4
    assert receipt["finite"]
    assert set(receipt["loss"]) == {"total", "chamfer", "kl"}
    assert np.isclose(receipt["norm"], np.linalg.norm(offer.values.astype(np.float64)))
    assert offer.values.dtype == np.float32
    assert offer.rows == batch(2).rows


def test_the_offer_is_the_derivative_of_the_loss():
    one = learner()
    _, offer = one.gradient(batch(0, seed=3))
    length = np.linalg.norm(offer.values.astype(np.float64))
    losses = []
    for sign in (1, -1):
        moved, first = dict(one.state()), 0
        for name in [n for n in moved if n.startswith("weights/")]:
            piece = offer.values[first : first + moved[name].size].reshape(moved[name].shape)
            moved[name] = (moved[name] + sign * 0.01 / length * piece).astype(np.float32)
            first += piece.size
        other = learner()
        other.load_state(moved)
        losses.append(other.gradient(batch(0, seed=3))[0]["loss"]["total"])
    assert np.isclose((losses[0] - losses[1]) / 0.02, length, rtol=0.02)


def test_an_attack_replaces_what_is_sent_and_not_what_is_learnt():
    honest, liar = learner(), learner(attack=SignFlip(scale=2.0))
    truth, lie = honest.gradient(batch(1))[1], liar.gradient(batch(1))[1]
    assert np.array_equal(lie.values, -2 * truth.values)
    receipt, _ = learner(attack=NotANumber(share=0.1)).gradient(batch(1))
    assert not receipt["finite"]
    assert liar.digest() == honest.digest()


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_training_lowers_the_loss(optimizer):
    one = learner(optimizer=optimizer)
    arrays = batch(1000).arrays
    before = one.evaluate(arrays)
    after = train(one, range(40)).evaluate(arrays)
    assert after["total"] < before["total"]


def test_an_update_without_values_changes_nothing_and_may_come_later():
    one = learner()
    before = one.digest()
    receipt = one.apply(update(0, None))
    assert (receipt["applied"], receipt["digest"]) == (False, before)
    assert one.apply(update(0, one.gradient(batch(0))[1].values))["applied"]


def test_nothing_is_applied_twice():
    one = learner()
    values = one.gradient(batch(0))[1].values
    first = one.apply(update(3, values))
    again = one.apply(update(3, values))
    older = one.apply(update(2, values))
    assert first["applied"]
    assert not again["applied"]
    assert not older["applied"]
    assert first["digest"] == again["digest"] == older["digest"]


@pytest.mark.parametrize("fault", ["nan", "inf", "short"])
def test_an_update_that_does_not_fit_is_refused_and_nothing_changes(fault):
    one = train(learner(), range(2))
    before = one.state()
    values = np.ones(one.size, dtype=np.float32)
    if fault == "short":
        values = values[:-1]
    else:
        values[7] = float(fault)
    with pytest.raises(DataError, match="update of step 9"):
        one.apply(update(9, values))
    assert digest_of(one.state()) == digest_of(before)


def test_clipping_shortens_and_does_not_hide_nan():
    long = torch.tensor([3.0, 4.0])
    assert torch.allclose(clipped(long, 1.0), torch.tensor([0.6, 0.8]))
    assert torch.equal(clipped(long, 5.0), long)
    assert torch.equal(clipped(long, None), long)
    for bad in (float("nan"), float("inf")):
        assert torch.isnan(clipped(torch.tensor([1.0, bad]), 1.0)).all()
    huge = torch.tensor([3e38, 3e38])  # its norm overflows float32
    assert torch.allclose(clipped(huge, 1.0), torch.full((2,), 0.5**0.5))


def test_a_clipped_update_moves_the_weights_by_no_more():
    one = learner(optimizer=SGD(lr=1.0, clip_norm=0.01))
    before = one.state()
    one.apply(update(0, np.full(one.size, 100.0, dtype=np.float32)))
    after = one.state()
    moved = sum(np.sum((after[n] - before[n]) ** 2) for n in before if n.startswith("weights/"))
    assert np.isclose(np.sqrt(moved), 0.01, rtol=1e-3)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("steps", [0, 5])
def test_a_restored_learner_goes_on_bit_for_bit(optimizer, steps):
    going = train(learner(optimizer=optimizer), range(steps))
    restored = train(learner("learner-1", optimizer=optimizer, seed=8), range(3))
    assert restored.load_state(going.state()) == going.digest()
    assert digest_of(restored.state()) == digest_of(going.state())
    train(going, range(steps, steps + 5))
    train(restored, range(steps, steps + 5))
    assert digest_of(restored.state()) == digest_of(going.state())


def test_a_restored_learner_knows_what_was_applied():
    restored = learner("learner-1")
    restored.load_state(train(learner(), range(4)).state())
    assert not restored.apply(update(3, np.ones(restored.size, dtype=np.float32)))["applied"]


def test_a_state_is_a_copy():
    one = learner()
    kept = one.state()
    before = digest_of(kept)
    train(one, range(2))
    assert digest_of(kept) == before


FAULTS = ["missing weight", "missing moment", "unknown", "shape", "dtype", "nan", "nan moment"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_state_that_does_not_fit_is_refused_and_nothing_changes(fault):
    one = train(learner(), range(2))
    before = digest_of(one.state())
    state = dict(train(learner(seed=4), range(3)).state())
    name, moment = "weights/mean.bias", "optimizer/mean.bias/exp_avg"
    if fault.startswith("missing"):
        del state[name if fault == "missing weight" else moment]
    elif fault == "unknown":
        state["weights/other"] = state[name]
    elif fault == "shape":
        state[name] = state[name][:-1]
    elif fault == "dtype":
        state[name] = state[name].astype(np.float64)
    else:
        state[moment if "moment" in fault else name] = np.full_like(state[name], np.nan)
    with pytest.raises(CheckpointError, match="state: "):
        one.load_state(state)
    assert digest_of(one.state()) == before


def test_evaluation_draws_nothing_and_does_not_depend_on_its_chunks():
    one = learner()
    arrays = batch(5, rows=70).arrays
    whole = one.evaluate(arrays)
    assert whole == one.evaluate(arrays)
    rows = [one.evaluate({"particles": arrays["particles"][i : i + 1]}) for i in range(70)]
    for term in whole:
        assert np.isclose(whole[term], np.mean([row[term] for row in rows]), rtol=1e-5)


def test_evaluation_with_a_foreign_state_leaves_the_own_weights():
    one, other = learner(), train(learner("learner-1"), range(3))
    before = digest_of(one.state())
    arrays = batch(5).arrays
    foreign = one.evaluate(arrays, other.state())
    assert foreign == other.evaluate(arrays)
    assert foreign != one.evaluate(arrays)
    assert digest_of(one.state()) == before


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "wanted the array 'particles'"),
        ({"particles": np.zeros((2, 5, 3), np.float32)}, r"float32 \(2, 5, 3\)"),
        ({"particles": np.zeros((2, 6), np.float32)}, r"float32 \(2, 6\)"),
        ({"particles": np.zeros((0, 5, 6), np.float32)}, "one or more rows"),
        ({"particles": np.zeros((2, 5, 6), np.int32)}, "int32"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_by_name(arrays, message):
    with pytest.raises(DataError, match=message):
        learner().gradient(replace(batch(0), arrays=arrays))


def test_non_finite_data_gives_a_non_finite_offer_and_no_error():
    receipt, offer = learner().gradient(batch(0, scale=np.nan))
    assert not receipt["finite"]
    assert not np.isfinite(offer.values).all()


def test_torch_is_as_it_was_after_a_gradient():
    before = (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled())
    learner(threads=before[0] + 1).gradient(batch(0))
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


@dataclass(frozen=True, kw_only=True)
class WithStatistics:
    """A model that keeps running statistics."""

    def needs(self):
        return {"particles": (None, 6)}

    def build(self):
        return torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6))

    def losses(self, network, arrays, generator):
        raise AssertionError("never trained")


def test_a_model_with_running_statistics_is_refused():
    with pytest.raises(ConfigError, match=r"1\.num_batches_tracked"):
        learner(model=WithStatistics())


@pytest.mark.parametrize(
    ("factory", "fields"),
    [
        (Adam, {"lr": 0.0}),
        (SGD, {"lr": 1.0, "momentum": 1.0}),
        (Adam, {"lr": 1.0, "clip_norm": -1}),
    ],
)
def test_an_optimizer_that_cannot_work_is_refused(factory, fields):
    with pytest.raises(ConfigError, match="wanted"):
        factory(**fields)
