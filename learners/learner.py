"""A learner: weights and optimizer, one gradient per batch, one step per update.

It holds no samples, so any learner can take any part. The first weights depend on the seed alone
and a gradient on weights and batch alone, so honest learners agree bit for bit: in their gradients
of the same batch, and, since all apply the same updates, in their weights.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from learners.digests import digest_of
from learners.protocols import Model, Optimizer
from learners.snapshots import OptimizerState, flat_gradient, set_gradient, weights_of, with_weights
from workflow.errors import ConfigError, DataError
from workflow.protocols import Attack
from workflow.types import Array, Batch, Gradient, Update

EVALUATION_ROWS = 32  # rows evaluated at once: bounds the memory
LAST_STEP = "optimizer/last_step"  # in the state: the training step of the last applied update


class Learner:
    """Node of the run graph; see workflow.protocols.Learner."""

    def __init__(
        self,
        *,
        name: str,
        model: Model,
        optimizer: Optimizer,
        seed: int,
        attack: Attack | None = None,
        threads: int = 1,
    ) -> None:
        self.name = name
        self._model = model
        self._clip = optimizer.clip
        self._attack = attack
        self._lie_seed = [seed, zlib.crc32(name.encode())]
        self._threads = threads
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # CUDA: the same bits each time
        with self._repeatable(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._network = model.build()
            self._parameters = dict(self._network.named_parameters())
            _refuse_statistics(self._network)
            self._optimizer = OptimizerState(optimizer, self._parameters)
        self._device = next(iter(self._parameters.values())).device
        self.size = sum(p.numel() for p in self._parameters.values())
        self.last_step = -1

    # ------------------------------------------------------------ one training step

    def gradient(self, batch: Batch) -> tuple[Mapping[str, Any], Gradient]:
        """(receipt, offer) for one batch; the same bits whoever computes it.

        The receipt has learner, step, part, rows, loss terms, norm, finite and digest of the
        offer, and busy_s. Non-finite data gives a non-finite offer, which the reducer sets aside;
        arrays of a wrong name or shape are a DataError.
        """
        begin = time.perf_counter()
        arrays = self._tensors(batch.arrays, where=f"batch of step {batch.step}")
        with self._repeatable():
            generator = torch.Generator().manual_seed(batch.seed)
            self._network.zero_grad(set_to_none=True)
            terms = self._model.losses(self._network, arrays, generator)
            terms["total"].backward()  # type: ignore[no-untyped-call]
            values = flat_gradient(self._parameters.values())
            self._network.zero_grad(set_to_none=True)
        if self._attack is not None:
            rng = np.random.default_rng(np.random.SeedSequence([*self._lie_seed, batch.step]))
            lie = self._attack(values, step=batch.step, rng=rng)
            values = np.asarray(lie, dtype=np.float32)
        offer = Gradient(
            learner=self.name,
            step=batch.step,
            part=batch.part,
            values=values,
            rows=batch.rows,
            digest=digest_of({"values": values}),
        )
        receipt = {
            "learner": self.name,
            "step": batch.step,
            "part": batch.part,
            "rows": len(batch.rows),
            "loss": {term: float(value.detach()) for term, value in terms.items()},
            "norm": float(np.sqrt(np.square(values, dtype=np.float64).sum())),
            "finite": bool(np.isfinite(values).all()),
            "digest": offer.digest,
            "busy_s": time.perf_counter() - begin,
        }
        return receipt, offer

    def apply(self, update: Update) -> Mapping[str, Any]:
        """Take one update; returns step, applied, digest of the weights and busy_s.

        Nothing changes when its values are None, or when this step (or a later one) was applied
        before: an update that is sent again is applied once. Non-finite values and values of
        another size are a DataError, and nothing changes.
        """
        begin = time.perf_counter()
        fresh = update.values is not None and update.step > self.last_step
        if update.values is not None and fresh:
            values = self._checked(update.values, update.step)
            with self._repeatable():
                set_gradient(self._parameters.values(), self._clip(values))
                self._optimizer.step()
                self._network.zero_grad(set_to_none=True)
            self.last_step = update.step
        return {
            "learner": self.name,
            "step": update.step,
            "applied": fresh,
            "digest": self.digest(),
            "busy_s": time.perf_counter() - begin,
        }

    # ------------------------------------------------------------ what it has learnt

    def evaluate(
        self, arrays: Mapping[str, Array], state: Mapping[str, Array] | None = None
    ) -> Mapping[str, float]:
        """Loss terms, mean over rows, on normalised arrays (rows, ...); without random draws.

        With the learner's own weights, or with those of a `state` (its own stay as they are).
        """
        tensors = self._tensors(arrays, where="evaluation")
        network = self._network if state is None else with_weights(self._network, state)
        rows = len(next(iter(tensors.values())))
        sums: dict[str, float] = {}
        with self._repeatable(), torch.no_grad():
            for first in range(0, rows, EVALUATION_ROWS):
                part = {n: t[first : first + EVALUATION_ROWS] for n, t in tensors.items()}
                count = min(EVALUATION_ROWS, rows - first)
                for term, value in self._model.losses(network, part, None).items():
                    sums[term] = sums.get(term, 0.0) + count * float(value)
        return {term: value / rows for term, value in sums.items()}

    def state(self) -> Mapping[str, Array]:
        """Copies of the weights ("weights/<name>") and of the optimizer ("optimizer/<...>")."""
        last = {LAST_STEP: np.array(self.last_step, dtype=np.int64)}
        return weights_of(self._network) | self._optimizer.arrays() | last

    def load_state(self, state: Mapping[str, Array]) -> str:
        """Go on from a state as if it were one's own; returns the weights' digest.

        A missing, unknown, misshapen or non-finite array is a CheckpointError, and nothing changes.
        """
        network = with_weights(self._network, state)
        loaded = self._optimizer.checked({k: v for k, v in state.items() if k != LAST_STEP})
        last_step = int(state[LAST_STEP]) if LAST_STEP in state else -1
        self._network.load_state_dict(network.state_dict())
        self._optimizer.load(loaded)
        self.last_step = last_step
        return self.digest()

    def digest(self) -> str:
        """blake2b over name, dtype, shape and bytes of the weights."""
        return digest_of(weights_of(self._network))

    # ------------------------------------------------------------ checks

    def _tensors(self, arrays: Mapping[str, Array], *, where: str) -> dict[str, Tensor]:
        """The arrays that the model needs as float32 tensors on its device; DataError if unfit."""
        tensors = {}
        counts = set()
        for name, shape in self._model.needs().items():
            if name not in arrays:
                raise DataError(
                    f"{self.name}, {where}: wanted the array '{name}' {shape}, got "
                    f"{sorted(arrays)}. Add a transform that makes it."
                )
            array = arrays[name]
            row = array.shape[1:]
            fits = len(row) == len(shape) and all(w in (None, g) for w, g in zip(shape, row))  # noqa: B905
            if not fits or array.shape[0] == 0 or not np.issubdtype(array.dtype, np.floating):
                raise DataError(
                    f"{self.name}, {where}: '{name}': wanted one or more rows of floats, each of "
                    f"shape {shape} (None: any), got {array.dtype} {array.shape}. "
                    "Check the transform that makes it."
                )
            counts.add(array.shape[0])
            tensors[name] = torch.from_numpy(np.array(array, dtype=np.float32)).to(self._device)
        if len(counts) > 1:
            raise DataError(f"{self.name}, {where}: arrays differ in rows: {sorted(counts)}.")
        return tensors

    def _checked(self, values: Array, step: int) -> Tensor:
        """The values of an update as a tensor; DataError when they do not fit."""
        if values.shape != (self.size,):
            raise DataError(
                f"{self.name}: update of step {step}: wanted {self.size} values, got "
                f"{values.shape}. All learners must have the same model."
            )
        if not np.isfinite(values).all():
            raise DataError(
                f"{self.name}: update of step {step}: wanted finite values, got "
                f"{np.count_nonzero(~np.isfinite(values)):,} of {self.size:,} that are not. "
                "Nothing was applied; the reducer must set such offers aside."
            )
        return torch.from_numpy(np.array(values, dtype=np.float32)).to(self._device)

    @contextmanager
    def _repeatable(self) -> Iterator[None]:
        """Torch with this learner's threads and deterministic algorithms; as it was afterwards.

        Learners may share a process (inline runs), so none may change torch for the others.
        """
        threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        if threads != self._threads:
            torch.set_num_threads(self._threads)
        torch.use_deterministic_algorithms(True, warn_only=True)  # digests judge the rest
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn_only)
            if threads != self._threads:
                torch.set_num_threads(threads)


def _refuse_statistics(network: torch.nn.Module) -> None:
    """ConfigError for buffers that training changes: they would differ between learners."""
    constants = set(network.state_dict()) - {name for name, _ in network.named_parameters()}
    if constants:
        raise ConfigError(
            f"model: wanted no running statistics, got {sorted(constants)[0]} and others "
            f"({len(constants)} in all): learners see different data, so these would differ. "
            "Use layer norm instead of batch norm, and register constants with persistent=False."
        )
