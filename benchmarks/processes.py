"""The processes that benchmarks start, and the interpreter that has the peers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parents[1]
PEERS_FOLDER = ROOT / "benchmarks" / "peers"


def call(command: Sequence[str | Path], *, folder: Path = ROOT) -> str:
    """What a process printed; RuntimeError with its last words if it failed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def peer_python() -> str:
    """The interpreter with the peers: `billow bench --peer-python`, or the current one."""
    name = os.environ.get("BILLOW_PEER_PYTHON", sys.executable)
    return os.path.abspath(shutil.which(name) or name)  # not resolved: a link makes the venv


def installed(peer: str, console: Console) -> bool:
    """Whether that interpreter imports the peer; says so if not."""
    try:
        with tempfile.TemporaryDirectory() as folder:  # importing pipic writes a log file
            call([peer_python(), "-c", f"import {peer}"], folder=Path(folder))
    except (RuntimeError, OSError) as e:
        why = (str(e).strip().splitlines() or ["no message"])[-1]
        console.print(
            f"{peer_python()} cannot import {peer} ({why}): only ours is run. To have the peer, "
            "see benchmarks/peers/__init__.py, and name its interpreter: --peer-python P.",
            highlight=False,
            soft_wrap=True,
        )
        return False
    return True
