"""Weights, gradients and optimizer state as NumPy arrays, and back, bit for bit."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from learners.protocols import Optimizer
from workflow.errors import CheckpointError
from workflow.types import Array

WEIGHTS = "weights/"
OPTIMIZER = "optimizer/"


def flat_gradient(parameters: Iterable[torch.nn.Parameter]) -> Array:
    """All gradients in one (d,) float32 array; zeros for a parameter that the loss did not use."""
    parts = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters]
    return torch.cat(parts).to(device="cpu", dtype=torch.float32).numpy()


def set_gradient(parameters: Iterable[torch.nn.Parameter], values: Tensor) -> None:
    """Give each parameter its piece of a flat (d,) tensor as its gradient."""
    first = 0
    for parameter in parameters:
        piece = values[first : first + parameter.numel()]
        parameter.grad = piece.view_as(parameter).to(parameter.dtype)
        first += parameter.numel()


def weights_of(network: torch.nn.Module) -> dict[str, Array]:
    """Copies of the weights by "weights/<name>"."""
    return {WEIGHTS + name: _array(tensor) for name, tensor in network.state_dict().items()}


def with_weights(network: torch.nn.Module, state: Mapping[str, Array]) -> torch.nn.Module:
    """A copy of the network that has the weights of a state; CheckpointError if they do not fit."""
    wanted = {WEIGHTS + name: tensor for name, tensor in network.state_dict().items()}
    given = {name: array for name, array in state.items() if name.startswith(WEIGHTS)}
    tensors = _fitting(given, wanted)
    twin = copy.deepcopy(network)
    twin.load_state_dict({name.removeprefix(WEIGHTS): t for name, t in tensors.items()})
    return twin


class OptimizerState:
    """A torch optimizer whose state is arrays by "optimizer/<parameter>/<entry>"."""

    def __init__(self, plugin: Optimizer, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        self._parameters = dict(parameters)
        self._optimizer = plugin.build(list(self._parameters.values()))
        self._wanted = _entries_after_a_step(plugin, self._parameters)

    def step(self) -> None:
        self._optimizer.step()

    def arrays(self) -> dict[str, Array]:
        """Copies of all entries; none before the first step."""
        entries = _entries(self._optimizer, self._parameters)
        return {name: _array(tensor) for name, tensor in entries.items()}

    def checked(self, state: Mapping[str, Array]) -> dict[str, Tensor]:
        """The optimizer's entries of a state: all or, before the first step, none of them."""
        given = {name: array for name, array in state.items() if name.startswith(OPTIMIZER)}
        return _fitting(given, self._wanted) if given else {}

    def load(self, entries: Mapping[str, Tensor]) -> None:
        """Replace the state by checked entries."""
        self._optimizer.state.clear()
        for name, tensor in entries.items():
            parameter, _, entry = name.removeprefix(OPTIMIZER).rpartition("/")
            self._optimizer.state[self._parameters[parameter]][entry] = tensor


def _entries(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, Tensor]:
    return {
        f"{OPTIMIZER}{name}/{entry}": value
        for name, parameter in parameters.items()
        for entry, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _entries_after_a_step(
    plugin: Optimizer, parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, Tensor]:
    """What entries the optimizer keeps: it makes them only in a first step, so a twin takes one."""
    twins = {name: torch.nn.Parameter(p.detach().clone()) for name, p in parameters.items()}
    optimizer = plugin.build(list(twins.values()))
    for twin in twins.values():
        twin.grad = torch.zeros_like(twin)
    optimizer.step()
    return _entries(optimizer, twins)


def _fitting(given: Mapping[str, Array], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The given arrays as tensors, all of the wanted names, shapes and dtypes, and finite."""
    if given.keys() != wanted.keys():
        missing, unknown = (
            sorted(wanted.keys() - given.keys()),
            sorted(given.keys() - wanted.keys()),
        )
        raise CheckpointError(
            f"state: missing {_few(missing)}; unknown {_few(unknown)}. "
            "It is of another model or optimizer: use the config that it was written with."
        )
    return {name: _tensor(name, given[name], like=wanted[name]) for name in wanted}


def _tensor(name: str, array: Array, *, like: Tensor) -> Tensor:
    wanted: np.dtype[Any] = _array(like).dtype
    array = np.array(array)
    if array.shape != tuple(like.shape) or array.dtype != wanted:
        raise CheckpointError(
            f"state: '{name}': wanted {wanted} {tuple(like.shape)}, got {array.dtype} "
            f"{array.shape}. Use the config that it was written with."
        )
    if not np.isfinite(array).all():
        raise CheckpointError(
            f"state: '{name}': wanted finite values, got "
            f"{np.count_nonzero(~np.isfinite(array)):,} of {array.size:,} that are not. "
            "Go back to an earlier checkpoint."
        )
    return torch.from_numpy(array).to(like.device)


def _array(tensor: Tensor) -> Array:
    return tensor.detach().to("cpu", copy=True).numpy()


def _few(names: list[str]) -> str:
    if not names:
        return "none"
    return f"'{names[0]}'" + (f" and {len(names) - 1} more" if names[1:] else "")
