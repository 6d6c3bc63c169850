"""What the openPMD reader asks of an engine's open step, and what a step says at its root."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from workflow.errors import DataError
from workflow.streams.openpmd import JSON_SUFFIX, SNAPSHOT
from workflow.types import Array

Span = tuple[tuple[int, ...], tuple[int, ...]]  # start, count


class Step(Protocol):
    """What an engine holds open."""

    def variables(self) -> Collection[str]: ...
    def attributes(self) -> Collection[str]: ...
    def attribute(self, name: str) -> Any:
        """A string, a list of strings, or an array (n,); None if there is none."""
        ...

    def shape(self, variable: str) -> tuple[int, ...]: ...
    def spans(self, variable: str) -> list[Span]:
        """Start and count of every block."""
        ...

    def fetch(self, wanted: Sequence[tuple[str, Span]]) -> list[Array]:
        """Transfer parts of variables, all at once. Raises DataError if that is impossible."""
        ...


def iterations_of(step: Step, *, name: str) -> list[tuple[int, str]]:
    """Number and base path of every iteration in this step: never the engine's step number."""
    if step.attribute("/openPMD") is None:
        known = ", ".join(sorted(step.variables())[:5]) or "no variables"
        raise DataError(
            f"{name}: wanted openPMD data (root attribute /openPMD), got {known}. Give the path "
            "of an openPMD series, as PIConGPU or openPMD-api write it."
        )
    if step.attribute("/iterationEncoding") == "variableBased":
        for place in (SNAPSHOT, "/data/iteration"):
            value = step.attribute(place)
            if value is None and place in step.variables():
                shape = step.shape(place)
                value = step.fetch([(place, ((0,) * len(shape), shape))])[0]
            if value is not None:
                return [(int(np.asarray(value).ravel()[0]), "/data/")]
        raise DataError(
            f"{name}: wanted the iteration number in {SNAPSHOT}, got neither an attribute nor a "
            "variable of that name."
        )
    found = {
        int(match[1])
        for v in step.variables()
        if (match := re.match(r"/data/(\d+)/", v)) is not None
    }
    if not found:  # a step of constants only
        snapshot = step.attribute(SNAPSHOT)
        found = {int(n) for n in np.atleast_1d(snapshot)} if snapshot is not None else set()
    return [(number, f"/data/{number}/") for number in sorted(found)]


def attribute_of(step: Step, name: str) -> Any:
    """An attribute; a list of strings comes from its JSON twin, where there is one."""
    twin = step.attribute(name + JSON_SUFFIX)
    return step.attribute(name) if twin is None else json.loads(twin)


def number_of(value: Any, otherwise: float) -> float:
    """An attribute as a number, whatever type it was written with."""
    if value is None:
        return otherwise
    flat = np.asarray(value).ravel()
    return float(flat[0]) if flat.size else otherwise


def path_of(value: Any, otherwise: str) -> str:
    return otherwise if not value else str(value).strip("/") + "/"
