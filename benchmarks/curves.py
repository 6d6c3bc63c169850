"""A picture of a run's learning curves, from its journal.

python -m benchmarks.curves RUNFOLDER PICTURE.png        (needs matplotlib: extra `plot`)
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from workflow.journal import read_journal


def draw(folder: Path, picture: Path) -> None:
    """Training loss of each learner, held-out loss, and the plasma time at which data came."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    curves: dict[str, list[tuple[float, float]]] = defaultdict(list)
    held_out: list[tuple[float, float]] = []
    events: list[tuple[float, str]] = []
    arrivals: list[tuple[float, float]] = []
    step = 0
    for event in read_journal(folder):
        name = event["event"]
        if name == "learner/loss":
            step = event["step"]
            curves[event["learner"]].append((step, event["value"]))
        elif name == "learner/heldout_loss":
            held_out.append((event["step"], event["value"]))
        elif name in ("learner/lost", "transform/lost", "producer/lost"):
            events.append((step, name.replace("/", " ") + " " + str(event.get("learner", ""))))
        elif name == "sample/insert":
            arrivals.append((step, event["step"]))
    figure, (top, bottom) = pyplot.subplots(
        2, 1, figsize=(9, 5.4), sharex=True, height_ratios=[3, 1], layout="constrained"
    )
    for learner in sorted(curves):
        top.plot(
            *zip(*curves[learner], strict=True), lw=0.6, alpha=0.6, label=f"{learner}, training"
        )
    if held_out:
        top.plot(*zip(*held_out, strict=True), "k.-", label="held out")
    for at, what in events:
        top.axvline(at, color="crimson", ls=":", label=what)
    top.set(yscale="log", ylabel="loss (Chamfer + KL)", title=_title(folder))
    top.legend(fontsize=8)
    bottom.plot(*zip(*arrivals, strict=True), "C4-", drawstyle="steps-post")
    bottom.set(xlabel="training step", ylabel="newest iteration\nof the simulation")
    figure.savefig(picture, dpi=110)


def _title(folder: Path) -> str:
    """The name of the run's config."""
    start = next(e for e in read_journal(folder) if e["event"] == "run/start")
    return str(start["name"])


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
