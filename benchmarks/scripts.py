"""What the comparisons with PIConGPU share as commands, `python -m benchmarks.NAME PICTURE`."""

from __future__ import annotations

import argparse
from pathlib import Path


def arguments(name: str, description: str | None, *, seeds: int) -> argparse.ArgumentParser:
    """The picture to draw, and how many seeds to run."""
    parser = argparse.ArgumentParser(
        prog=f"benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("picture", type=Path)
    parser.add_argument("--seeds", type=int, default=seeds)
    return parser
