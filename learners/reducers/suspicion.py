"""Who pulls against the others, step after step: a judgement from cosines alone, and a slow one.

One opposed step proves nothing: late in training gradients are mostly noise. Somebody who turns
against the others in nearly every step of a long window does it on purpose, or is broken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workflow.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """When a learner that opposes the others becomes a suspect.

    Of pure noise, about 4 offers in 10 lie beyond the margin at worst; the defaults then name an
    honest learner in one window of 30 steps out of 60 million.
    """

    steps: int = 30  # last steps that count; fewer are never judged
    share: float = 0.9  # of them, in which the offer opposed the others
    margin: float = 0.05  # a cosine below -margin opposes

    def __post_init__(self) -> None:
        if self.steps < 1 or not 0.5 < self.share <= 1 or not 0 <= self.margin < 1:
            raise ConfigError(
                f"Suspicion: wanted steps >= 1, 0.5 < share <= 1, 0 <= margin < 1, got {self}."
            )


def opponents(cosines: Mapping[str, Sequence[float]], suspicion: Suspicion) -> dict[str, str]:
    """Learners that opposed the others in most of their last steps, and in how many of them.

    `cosines` are those of each learner's offers to the others' (angles.agreement), oldest first.
    Nobody is named when half of the learners or more would be: then it is not known who lies.
    """
    judged = {name: list(c)[-suspicion.steps :] for name, c in cosines.items()}
    judged = {name: c for name, c in judged.items() if len(c) == suspicion.steps}
    against = {name: sum(x < -suspicion.margin for x in c) for name, c in judged.items()}
    named = {name: n for name, n in against.items() if n >= suspicion.share * suspicion.steps}
    if 2 * len(named) >= len(judged):
        return {}
    return {
        name: f"opposes the others in {n} of {suspicion.steps} steps" for name, n in named.items()
    }
