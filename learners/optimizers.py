"""Optimizer plug-ins. Each clips the update that all learners agreed on, then takes its step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workflow.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam (Kingma, Ba 2015); with `weight_decay` its decoupled form AdamW (Loshchilov 2019)."""

    lr: float
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip_norm: float | None = None  # the longest update that is taken as it is

    def __post_init__(self) -> None:
        if not (self.lr > 0 and self.eps > 0 and all(0 <= b < 1 for b in self.betas)):
            raise ConfigError(f"Adam: wanted lr > 0, eps > 0 and 0 <= betas < 1, got {self}.")
        _check(self.weight_decay, self.clip_norm, self)

    def build(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            parameters, lr=self.lr, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay
        )

    def clip(self, values: Tensor) -> Tensor:
        return clipped(values, self.clip_norm)


@dataclass(frozen=True, kw_only=True)
class SGD:
    """Gradient descent with momentum."""

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None  # the longest update that is taken as it is

    def __post_init__(self) -> None:
        if not (self.lr > 0 and 0 <= self.momentum < 1):
            raise ConfigError(f"SGD: wanted lr > 0 and 0 <= momentum < 1, got {self}.")
        _check(self.weight_decay, self.clip_norm, self)

    def build(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            parameters, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
        )

    def clip(self, values: Tensor) -> Tensor:
        return clipped(values, self.clip_norm)


def clipped(values: Tensor, longest: float | None) -> Tensor:
    """The values, shortened to Euclidean norm `longest` where they are longer.

    NaN or Inf anywhere stays visible: a non-finite norm makes all values NaN.
    """
    if longest is None:
        return values
    norm = torch.linalg.vector_norm(values, dtype=torch.float64)
    if norm <= longest:
        return values
    scale = longest / norm
    return (values * scale).to(values.dtype) if torch.isfinite(norm) else values * torch.nan


def _check(weight_decay: float, clip_norm: float | None, plugin: object) -> None:
    if not weight_decay >= 0 or (clip_norm is not None and not clip_norm > 0):
        raise ConfigError(f"wanted weight_decay >= 0 and clip_norm > 0 or none, got {plugin}.")
