"""The run folder: the contract with every other tool.

config.yaml     the resolved config
manifest.json   versions, seed, plug-ins, host facts
journal/        *.jsonl, one file per process
checkpoints/    weights, optimizer, normalisation
tensorboard/    mirror of the journal, if the extra is installed
stream/ logs/   the streams' contact files, and what processes printed
summary.json    what came of the run
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from workflow.errors import ConfigError
from workflow.plan import Plan

PACKAGES = ("billow", "adios2", "numba", "numpy", "ray", "torch", "safetensors")


def make_run_folder(out: Path | None, name: str) -> Path:
    """A new, empty run folder; ConfigError when the place is taken or cannot be written."""
    folder = out or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(
                f"--out {folder}: wanted an empty or new folder, got one with files in it. "
                "Give another, so that no run writes over an older one."
            )
        (folder / "journal").mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ConfigError(f"--out {folder}: cannot make the run folder: {e}.") from e
    return folder.resolve()


def describe_run(folder: Path, plan: Plan, *, inline: bool, command: list[str]) -> None:
    """Write config.yaml and manifest.json."""
    config = plan.config.model_dump(mode="json", exclude_defaults=False)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    plug_ins = {
        "producer": plan.producer,
        "chain": plan.chain,
        "normaliser": plan.normaliser,
        "model": plan.model,
        "optimizer": plan.optimizer,
        "rule": plan.rule,
        "attacks": dict(plan.attacks),
    }
    manifest = {
        "command": command,
        "seed": plan.config.seed,
        "inline": inline,
        "plug_ins": {name: repr(plug_in) for name, plug_in in plug_ins.items()},
        "versions": {name: _version(name) for name in PACKAGES},
        "python": sys.version.split()[0],
        "host": {
            "name": socket.gethostname(),
            "system": platform.platform(),
            "cpus": os.cpu_count(),
        },
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "pid": os.getpid(),
    }
    write_json(folder / "manifest.json", manifest)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write whole or not at all."""
    torn = path.with_name(f".{path.name}.{os.getpid()}")
    torn.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")
    torn.replace(path)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
