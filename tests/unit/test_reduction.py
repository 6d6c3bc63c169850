"""The reducer: what is lost, late or wrong is data in its answer; the honest are not accused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from learners.attacks import SignFlip
from learners.autoencoder import PointCloudVAE
from learners.learner import Learner
from learners.optimizers import Adam
from learners.reducers import TrimmedMean, mean, median
from learners.reducers.angles import agreement, products
from learners.reducers.reducer import Reducer
from learners.reducers.suspicion import Suspicion, opponents
from workflow.errors import CheckpointError, ConfigError
from workflow.types import Batch, Gradient

D = 51_234
NAMES = ("a", "b", "c")


def offer(learner, *, step=4, part=0, values=None, d=D):
    if values is None:
        values = np.random.default_rng(ord(learner[0])).standard_normal(d)
    values = np.asarray(values, dtype=np.float32)
    return Gradient(learner=learner, step=step, part=part, values=values, rows=(), digest="")


def reduce(offers, *, rule=mean, quorum=1, expected=NAMES, step=4):
    return Reducer(rule=rule, quorum=quorum).reduce(step, offers, expected)


def test_offers_become_the_update_of_the_rule():
    offers = [offer(n) for n in NAMES]
    receipt, update = reduce(offers)
    assert np.array_equal(update.values, mean(np.stack([o.values for o in offers])))
    assert (update.step, update.heard, update.missing, update.suspects) == (4, NAMES, (), {})
    assert update.reason == receipt["reason"] == ""
    assert receipt["used"] == list(NAMES)


def test_the_order_of_arrival_changes_no_bit():
    offers = [offer("a", part=1), offer("b", part=0), offer("c", part=0)]
    updates = [reduce(p)[1] for p in itertools.permutations(offers)]
    assert len({u.values.tobytes() for u in updates}) == 1
    assert {u.heard for u in updates} == {("b", "c", "a")}


def test_missing_learners_are_named():
    _, update = reduce([offer("b"), None])
    assert update.missing == ("a", "c")
    assert update.values is not None


@pytest.mark.parametrize("came", [[], [None, None], ["a"]])
def test_a_lost_quorum_is_data_not_an_exception(came):
    receipt, update = reduce([n and offer(n) for n in came], quorum=2)
    usable = len([n for n in came if n])
    assert update.values is None
    assert update.reason == f"quorum: {usable} usable of 2 wanted"
    assert receipt["used"] == []
    assert receipt["norm"] == 0.0


def test_a_non_finite_offer_is_set_aside_with_its_place():
    bad = np.ones(D)
    bad[[17, 20, 40]] = np.nan, np.inf, -np.inf
    receipt, update = reduce([offer("a"), offer("b", values=bad), offer("c")])
    assert update.suspects == {"b": "non-finite: 3 of 51,234 values, first at 17"}
    assert np.array_equal(update.values, mean(np.stack([offer("a").values, offer("c").values])))
    assert update.heard == NAMES
    assert receipt["used"] == ["a", "c"]


def test_offers_set_aside_do_not_count_for_the_quorum():
    _, update = reduce([offer("a"), offer("b", values=np.full(D, np.nan))], quorum=2)
    assert update.values is None
    assert update.reason == "quorum: 1 usable of 2 wanted"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (offer("c", step=3), "wrong step: wanted 4, got 3"),
        (offer("c", d=7), r"wrong shape: wanted float32 (51234,), got float32 (7,)"),
        (offer("d"), "was not dealt a part of this step"),
    ],
)
def test_an_offer_that_does_not_belong_here_is_set_aside(wrong, reason):
    _, update = reduce([offer("a"), offer("b"), wrong])
    assert update.suspects == {wrong.learner: reason}
    assert np.array_equal(update.values, mean(np.stack([offer("a").values, offer("b").values])))


def test_the_size_is_that_of_the_last_update_whoever_is_in_the_majority():
    reducer = Reducer(rule=mean, quorum=1)
    reducer.reduce(4, [offer("a"), offer("b")], NAMES)
    _, update = reducer.reduce(
        5, [offer("a", step=5), *(offer(n, step=5, d=3) for n in "bc")], NAMES
    )
    assert set(update.suspects) == {"b", "c"}
    assert update.values.shape == (D,)


def test_when_offers_disagree_on_the_size_nothing_is_guessed():
    _, update = reduce([offer("a"), offer("b", d=3)])
    assert update.values is None
    assert set(update.suspects) == {"a", "b"}


def test_the_same_offer_twice_counts_once_and_two_different_ones_not_at_all():
    _, twice = reduce([offer("a"), offer("a"), offer("b")])
    assert twice.suspects == {}
    assert np.array_equal(twice.values, mean(np.stack([offer("a").values, offer("b").values])))
    _, torn = reduce([offer("a"), offer("a", values=np.ones(D)), offer("b")])
    assert torn.suspects == {"a": "made two different offers"}
    assert np.array_equal(torn.values, offer("b").values)


def test_a_late_offer_does_not_bar_the_one_that_is_in_time():
    receipt, update = reduce([offer("a", step=3), offer("a"), offer("b")])
    assert update.suspects == {"a": "wrong step: wanted 4, got 3"}
    assert receipt["used"] == ["a", "b"]


def test_too_few_offers_for_the_rule_are_a_reason_not_an_exception():
    _, update = reduce([offer("a"), offer("b")], rule=TrimmedMean(trim=1))
    assert update.values is None
    assert "TrimmedMean(trim=1): wanted more than 2 offers" in update.reason


def test_a_rule_that_makes_nonsense_makes_no_update():
    for rule in (lambda x: x[0] * np.nan, lambda x: x[0][:5]):
        _, update = reduce([offer("a")], rule=rule)
        assert update.values is None
        assert "made" in update.reason


def test_norms_and_cosines_by_hand():
    offers = [offer("a", values=[3, 4]), offer("b", values=[3, -4]), offer("c", values=[0, 0])]
    receipt, _ = reduce(offers)
    assert receipt["norms"] == {"a": 5.0, "b": 5.0, "c": 0.0}
    assert receipt["norm"] == pytest.approx(2.0)
    assert receipt["cosines"] == pytest.approx({"a": 0.6, "b": 0.6, "c": 0.0})


def test_agreement_is_the_cosine_to_the_sum_of_the_others_directions():
    rng = np.random.default_rng(0)
    vectors = {n: rng.standard_normal(200_000).astype(np.float32) for n in "abcd"}
    vectors["d"] *= 1e20
    unit = {n: v / np.linalg.norm(v.astype(np.float64)) for n, v in vectors.items()}
    agreements = agreement(products(list(vectors.values())))
    for name, agreed in zip(vectors, agreements, strict=True):
        others = sum(unit[n] for n in vectors if n != name)
        assert agreed == pytest.approx(unit[name] @ others / np.linalg.norm(others), abs=1e-9)


def test_agreement_with_nobody_is_zero():
    one = np.ones(3, np.float32)
    assert agreement(products([one])).tolist() == [0.0]
    assert agreement(products([one, 0 * one])).tolist() == [0.0, 0.0]
    assert agreement(products([one, one, -one])) == pytest.approx([0.0, 0.0, -1.0])
    assert agreement(products([])).tolist() == []


def test_huge_finite_offers_are_measured_without_overflow():
    receipt, update = reduce([offer(n, values=np.full(D, 3e38)) for n in NAMES])
    assert np.isfinite(receipt["norm"])
    assert receipt["cosines"]["a"] == pytest.approx(1.0)
    assert np.allclose(update.values, 3e38)


def test_a_reducer_without_a_quorum_is_refused():
    with pytest.raises(ConfigError, match="quorum"):
        Reducer(rule=mean, quorum=0)


# ---------------------------------------------------------------- suspicion


def test_who_opposes_in_nearly_every_step_is_named():
    history = {"a": [-0.5] * 19 + [0.2], "b": [0.5] * 20, "c": [0.3] * 20}
    assert opponents(history, Suspicion(steps=20)) == {"a": "opposes the others in 19 of 20 steps"}


@pytest.mark.parametrize(
    "history",
    [
        {"a": [-0.5] * 19, "b": [0.5] * 20, "c": [0.3] * 20},  # too short to judge
        {"a": [-0.5] * 17 + [0.1] * 3, "b": [0.5] * 20, "c": [0.3] * 20},  # not often enough
        {"a": [-0.04] * 20, "b": [0.5] * 20, "c": [0.3] * 20},  # within the margin
        {"a": [-0.5] * 20 + [0.5] * 20, "b": [0.5] * 40, "c": [0.3] * 40},  # long ago
        {"a": [-0.5] * 20, "b": [0.5] * 20},  # one of two: which one is not known
        {
            "a": [-0.5] * 20,
            "b": [-0.5] * 20,
            "c": [0.9] * 20,
        },  # half or more: who lies is not known
    ],
)
def test_nobody_is_named_without_proof(history):
    assert opponents(history, Suspicion(steps=20)) == {}


def test_the_memory_travels_and_a_step_counts_once():
    reducer = Reducer(rule=mean, quorum=1, suspicion=Suspicion(steps=3))
    for step in (0, 1, 1, 2, 3):
        reducer.reduce(step, [offer(n, step=step) for n in NAMES], NAMES)
    state = reducer.state()
    assert state["agreement/a"][:, 0].tolist() == [1, 2, 3]
    other = Reducer(rule=mean, quorum=1, suspicion=Suspicion(steps=3))
    other.load_state(state)
    assert all(np.array_equal(other.state()[n], state[n]) for n in state)
    with pytest.raises(CheckpointError, match="wanted 'agreement"):
        other.load_state({"weights/x": np.zeros(3)})


def counter_streams(rng, rows=4):
    cloud = 0.3 * rng.standard_normal((rows, 32, 6))
    cloud[:, :, 0] += 1.7 * rng.choice([-1, 1], (rows, 1))
    return cloud.astype(np.float32)


def training(*, rule, attacks, steps, count=5):
    """Real learners and a real reducer; yields each update."""
    model = PointCloudVAE(encoder=(16, 32), latent=4, decoder=(16,), points=16, device="cpu")
    learners = [
        Learner(
            name=f"learner-{i}",
            model=model,
            optimizer=Adam(lr=5e-3),
            seed=3,
            attack=attacks.get(i),
        )
        for i in range(count)
    ]
    reducer = Reducer(rule=rule, quorum=3)
    for step in range(steps):
        offers = []
        for part, one in enumerate(learners):
            rng = np.random.default_rng([step, part])
            batch = Batch(
                step=step,
                part=part,
                arrays={"particles": counter_streams(rng)},
                rows=(),
                from_now=0,
                seed=step * count + part,
                digest="",
            )
            offers.append(one.gradient(batch)[1])
        _, update = reducer.reduce(step, offers, [one.name for one in learners])
        assert len({one.apply(update)["digest"] for one in learners}) == 1
        yield update


@pytest.mark.parametrize("rule", [mean, median], ids=repr)
def test_honest_learners_are_never_accused(rule):
    updates = list(training(rule=rule, attacks={}, steps=120))
    assert all(update.suspects == {} for update in updates)


@pytest.mark.parametrize(("rule", "scale"), [(median, 1.0), (mean, 3.0), (mean, 50.0)], ids=repr)
def test_a_liar_is_named_and_nobody_else_whether_the_update_is_saved_or_turned(rule, scale):
    updates = list(training(rule=rule, attacks={2: SignFlip(scale=scale)}, steps=40))
    assert {name for update in updates for name in update.suspects} == {"learner-2"}
    assert "opposes the others in" in updates[-1].suspects["learner-2"]
