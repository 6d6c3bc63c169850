"""Checks that the settings of several producers share; a ConfigError names what is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workflow.errors import ConfigError


def at_least(settings: Any, lows: Mapping[str, int]) -> None:
    """Every named setting is as much as its low, or more."""
    for name, low in lows.items():
        if getattr(settings, name) < low:
            raise ConfigError(f"{name}: wanted {low} or more, got {getattr(settings, name)}.")


def positive(settings: Any, *names: str) -> None:
    """Every named setting is a number above 0."""
    for name in names:
        if not 0 < getattr(settings, name) < math.inf:
            raise ConfigError(f"{name}: wanted more than 0, got {getattr(settings, name)}.")


def not_negative(settings: Any, *names: str) -> None:
    """Every named setting is a number, 0 or above."""
    for name in names:
        if not 0 <= getattr(settings, name) < math.inf:
            raise ConfigError(f"{name}: wanted 0 or more, got {getattr(settings, name)}.")


def window(settings: Any) -> None:
    """The output window does not end before it begins."""
    if settings.last_step < settings.first_step:
        raise ConfigError(
            f"last_step: wanted first_step ({settings.first_step}) or more, got "
            f"{settings.last_step}."
        )
