"""The learners' inner seams. (The seams of the whole: workflow/protocols.py.)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor


class Model(Protocol):
    """A plug-in that describes a network and what it is trained on; a frozen dataclass.

    The arrays it is given are the normalised, stacked arrays of a Batch, as tensors by name.
    """

    def needs(self) -> Mapping[str, tuple[int | None, ...]]:
        """Arrays that it is trained on, with the shape of one row (None: any)."""
        ...

    def build(self) -> torch.nn.Module:
        """The network on its device, weights drawn from torch's current CPU generator.

        It keeps no running statistics (batch norm): learners see different data, so these would
        differ between them. Constants are buffers that are not persistent.
        """
        ...

    def losses(
        self,
        network: torch.nn.Module,
        arrays: Mapping[str, Tensor],
        generator: torch.Generator | None,
    ) -> dict[str, Tensor]:
        """Loss terms by name; "total" is what is differentiated. No generator: no random draws
        (the latent is its mean), as in evaluation."""
        ...


class Optimizer(Protocol):
    """A plug-in that describes an optimizer; a frozen dataclass."""

    def build(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer: ...

    def clip(self, values: Tensor) -> Tensor:
        """The update (d,) that the optimizer is given: shortened, or as it is. Keeps NaN NaN."""
        ...
