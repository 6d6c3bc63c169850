"""Checkpoints: weights, optimizer and normalisation in safetensors, written whole or not at all.

checkpoints/step-000120/
    weights.safetensors     the network's arrays by name
    optimizer.safetensors   the optimizer's
    moments.safetensors     the running normalisation that the weights were trained with
    checkpoint.json         step, digest, model, normaliser, versions
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from workflow.errors import CheckpointError
from workflow.types import Array


def write_checkpoint(
    folder: Path,
    *,
    step: int,
    state: Mapping[str, Array],
    moments: Mapping[str, Array],
    facts: Mapping[str, Any],
    keep: int,
) -> Path:
    """Write a checkpoint under `folder`, where the newest `keep` of them stay.

    Non-finite weights are refused with CheckpointError, and the last good checkpoint stays.
    """
    parts: dict[str, dict[str, Array]] = {"weights": {}, "optimizer": {}}
    for name, array in state.items():
        kind, _, rest = name.partition("/")
        parts.setdefault(kind, {})[rest] = np.ascontiguousarray(array)
        if kind == "weights" and not np.isfinite(array).all():
            raise CheckpointError(
                f"weights '{rest}' at step {step}: wanted finite numbers, got some that are not. "
                "The checkpoint is not written; the last good one stays."
            )
    parts["moments"] = {name: np.ascontiguousarray(array) for name, array in moments.items()}
    final = folder / f"step-{step:06d}"
    torn = folder / f".{final.name}.{os.getpid()}"
    torn.mkdir(parents=True)
    for kind, arrays in parts.items():
        save_file(arrays, torn / f"{kind}.safetensors")
    (torn / "checkpoint.json").write_text(json.dumps({"step": step, **facts}, indent=2) + "\n")
    if final.exists():
        shutil.rmtree(final)
    torn.rename(final)
    for old in sorted(folder.glob("step-*"))[:-keep]:
        shutil.rmtree(old)
    return final


def read_checkpoint(path: Path) -> tuple[dict[str, Array], dict[str, Array], dict[str, Any]]:
    """State, moments and facts of a checkpoint; CheckpointError when it is torn or not one."""
    try:
        facts = json.loads((path / "checkpoint.json").read_text())
        loaded = {file.stem: load_file(file) for file in sorted(path.glob("*.safetensors"))}
    except (OSError, ValueError, SafetensorError) as e:
        raise CheckpointError(
            f"{path}: wanted a whole checkpoint, got one that cannot be read: {e}. "
            "Use an older step folder beside it."
        ) from e
    moments = loaded.pop("moments", {})
    state = {f"{kind}/{name}": a for kind, arrays in loaded.items() for name, a in arrays.items()}
    return state, moments, facts
