"""The reducer: offers in, one update out. What is lost, late or wrong is data in the answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from learners.reducers.angles import agreement, cosines, lengths, products
from learners.reducers.suspicion import Suspicion, opponents
from workflow.errors import CheckpointError, ConfigError, DataError
from workflow.protocols import Rule
from workflow.types import Array, Gradient, Update

AGREEMENT = "agreement/"


class Reducer:
    """Node of the run graph: one rule over the usable offers of a training step."""

    def __init__(self, *, rule: Rule, quorum: int, suspicion: Suspicion | None = None) -> None:
        if quorum < 1:
            raise ConfigError(f"reducer.quorum: wanted 1 offer or more, got {quorum}.")
        self._rule = rule
        self._quorum = quorum
        self._suspicion = suspicion or Suspicion()
        self._size: int | None = None  # d, once an update was made
        self._agreement: dict[str, dict[int, float]] = {}  # learner -> step -> cosine to the others

    def reduce(
        self, step: int, offers: Sequence[Gradient | None], expected: Sequence[str]
    ) -> tuple[Mapping[str, Any], Update]:
        """(receipt, update) of one training step, whatever the order in which offers came.

        `expected` are the learners that were dealt a part; None stands for an offer that did not
        come. An offer that cannot be used is set aside and its learner named in `suspects`; with
        fewer usable offers than the quorum the update has no values and says why. The receipt
        has step, heard, missing, used, suspects, reason, by learner the norm of its offer, its
        cosine to the update and to the others (`agreement`), the norm of the update, and busy_s.
        A learner that opposed the others for long is named in `suspects` too, but its offers are
        used: to leave it out is the driver's decision.
        """
        begin = time.perf_counter()
        came = sorted((o for o in offers if o is not None), key=lambda o: (o.part, o.learner))
        usable, suspects = set_aside(came, step=step, expected=expected, size=self._size)
        values, reason = self._apply_rule(usable)
        measured = measure({o.learner: o.values for o in usable}, values)
        if values is not None:
            self._size = len(values)
            self._remember(step, measured["agreement"])
        opposed = {k: v for k, v in self.opponents().items() if k in expected}
        suspects = opposed | suspects
        heard = tuple(dict.fromkeys(o.learner for o in came))
        update = Update(
            step=step,
            values=values,
            heard=heard,
            missing=tuple(name for name in expected if name not in heard),
            suspects=suspects,
            reason=reason,
        )
        receipt = {
            "step": step,
            "heard": list(heard),
            "missing": list(update.missing),
            "used": [o.learner for o in usable] if values is not None else [],
            "suspects": dict(suspects),
            "reason": reason,
            **measured,
            "busy_s": time.perf_counter() - begin,
        }
        return receipt, update

    def _apply_rule(self, usable: Sequence[Gradient]) -> tuple[Array | None, str]:
        """The rule's values, or None and why there are none."""
        if len(usable) < self._quorum:
            return None, f"quorum: {len(usable)} usable of {self._quorum} wanted"
        try:
            values = np.asarray(self._rule(np.stack([o.values for o in usable])), np.float32)
        except DataError as e:  # too few offers for this rule: a fact of this step
            return None, f"rule: {e}"
        if values.shape != usable[0].values.shape:
            return None, f"rule: {self._rule} made shape {values.shape}"
        if not np.isfinite(values).all():
            return None, f"rule: {self._rule} made {_non_finite(values)}"
        return values, ""

    def opponents(self) -> dict[str, str]:
        """Learners that opposed the others in most of the last steps; see `suspicion`."""
        history = {name: [c[s] for s in sorted(c)] for name, c in self._agreement.items()}
        return opponents(history, self._suspicion)

    def _remember(self, step: int, agreed: Mapping[str, float]) -> None:
        for learner, cosine in agreed.items():
            history = self._agreement.setdefault(learner, {})
            history[step] = cosine  # a step that is reduced again counts once
            for old in sorted(history)[: -self._suspicion.steps]:
                del history[old]

    def state(self) -> Mapping[str, Array]:
        """What it remembers of each learner: (n, 2) float64 of step and cosine."""
        return {
            AGREEMENT + name: np.array(sorted(history.items()), dtype=np.float64)
            for name, history in self._agreement.items()
        }

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Go on from a state; CheckpointError when it is none of ours."""
        loaded = {}
        for name, table in state.items():
            if not name.startswith(AGREEMENT) or table.ndim != 2 or table.shape[1] != 2:
                raise CheckpointError(
                    f"reducer state: '{name}': wanted '{AGREEMENT}<learner>' (n, 2), got "
                    f"{table.shape}. Use a checkpoint of this version."
                )
            loaded[name.removeprefix(AGREEMENT)] = {int(step): float(c) for step, c in table}
        self._agreement = loaded


def set_aside(
    offers: Sequence[Gradient], *, step: int, expected: Sequence[str], size: int | None
) -> tuple[list[Gradient], dict[str, str]]:
    """The usable offers, in the given order, and by learner why each other one is not.

    `size` is the number of values wanted; None: the number that most offers have.
    """
    if size is None:
        size = _most_common([o.values.size for o in offers if o.learner in expected])
    usable: dict[str, Gradient] = {}
    suspects: dict[str, str] = {}
    barred: set[str] = set()
    for offer in offers:
        if problem := _problem(offer, step=step, expected=expected, size=size):
            suspects[offer.learner] = problem
            if offer.step == step:  # who is only late may still have made this step's offer
                barred.add(offer.learner)
        elif offer.learner in usable:
            first = usable[offer.learner]
            if first.part != offer.part or not np.array_equal(first.values, offer.values):
                suspects[offer.learner] = "made two different offers"
                barred.add(offer.learner)
        else:
            usable[offer.learner] = offer
    return [o for name, o in usable.items() if name not in barred], suspects


def _problem(offer: Gradient, *, step: int, expected: Sequence[str], size: int | None) -> str:
    """Why an offer cannot be used, or nothing."""
    values = offer.values
    if offer.learner not in expected:
        return "was not dealt a part of this step"
    if offer.step != step:
        return f"wrong step: wanted {step}, got {offer.step}"
    if size is None:
        return f"wrong shape: offers disagree on it, got {values.shape}"
    if values.shape != (size,) or values.dtype != np.float32:
        return f"wrong shape: wanted float32 ({size},), got {values.dtype} {values.shape}"
    return "" if np.isfinite(values).all() else _non_finite(values)


def _non_finite(values: Array) -> str:
    wrong = np.flatnonzero(~np.isfinite(values))
    return f"non-finite: {len(wrong):,} of {values.size:,} values, first at {wrong[0]:,}"


def _most_common(sizes: Sequence[int]) -> int | None:
    """The size that most have; None when two sizes are equally common."""
    counts = Counter(sizes).most_common(2)
    if not counts or (len(counts) == 2 and counts[0][1] == counts[1][1]):
        return None
    return counts[0][0]


def measure(offers: Mapping[str, Array], update: Array | None) -> dict[str, Any]:
    """By learner: norms of the offers, cosines to the update, agreement with the others' offers.

    And the norm of the update. Without an update: no cosines, no agreement, norm 0.
    """
    gram = products([*offers.values(), *([] if update is None else [update])])
    norms = dict(zip(offers, lengths(gram).tolist(), strict=False))  # the last is the update's
    if update is None:
        return {"norms": norms, "cosines": {}, "agreement": {}, "norm": 0.0}
    return {
        "norms": norms,
        "cosines": dict(zip(offers, cosines(gram)[-1, :-1].tolist(), strict=True)),
        "agreement": dict(zip(offers, agreement(gram[:-1, :-1]).tolist(), strict=True)),
        "norm": float(lengths(gram)[-1]),
    }
