"""Momenta of our boxes beside those of six real boxes of a PIConGPU Kelvin-Helmholtz run.

    python -m benchmarks.khi_boxes PICTURE.png [--seeds 3] [--steps 950]     (needs matplotlib)

The real run is 3-D (192 x 256 x 12 cells on 4 x 8 ranks, step 950); ours is 2-D (192 x 256 cells,
cut into the same 4 x 8 boxes), with the same gamma, cells, time step, temperature and 9 electrons
per cell at random places. Boxes beside a shear plane are `vortex`, the others `bulk`. A wave that
starts from less noise comes later, so several steps can be given. Prints a Markdown table of

    u_x along the flow, mean and spread; spreads of u_y and u_z   [m_e c], of the electrons
    counter     share of electrons that move against the box's flow
    W1          mean distance of the quantiles of u_x from those of the region's real boxes [m_e c]
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.scripts import arguments
from producers import diagnostics, shear
from producers.khi import KelvinHelmholtz
from producers.setup import Start
from workflow.types import Array, Hosting

DATA = Path(__file__).parent / "data" / "khi_boxes.csv"
GRID, BOXES = (192, 256), (4, 8)  # cells and boxes along x, y
REGIONS = ("bulk", "vortex")
STATISTICS = ("mean u_x", "spread u_x", "spread u_y", "spread u_z", "counter")


@dataclass(frozen=True, kw_only=True)
class Momenta:
    """What is known of the electrons of one box."""

    region: str
    statistics: Array  # (5,) as in STATISTICS
    quantiles: Array  # (q,) of u_x along the flow [m_e c]


def real_boxes() -> list[Momenta]:
    """The six boxes."""
    found = []
    with DATA.open() as file:
        for row in csv.DictReader(file):
            numbers = [float(row["mean_ux"]) * int(row["flow"])]
            numbers += [float(row[f"std_u{a}"]) for a in "xyz"] + [float(row["counter_share"])]
            quantiles = [float(v) for k, v in row.items() if k.startswith("along_")]
            found.append(
                Momenta(
                    region=row["region"],
                    statistics=np.array(numbers),
                    quantiles=np.array(quantiles),
                )
            )
    return found


def our_boxes(steps: list[int], seed: int) -> Iterator[tuple[int, list[Momenta]]]:
    """(step, all 32 boxes), in this process."""
    config = KelvinHelmholtz(
        grid=GRID,
        ranks=BOXES[1],
        particles_per_cell=9,
        start=Start.RANDOM,
        first_step=steps[0],
        last_step=steps[-1],
        period=steps[1] - steps[0] if len(steps) > 1 else 1,
    )
    series = config.series()
    for frames in config.iterations(seed, hosting=Hosting.INLINE):
        found = []
        for frame in frames:
            u = diagnostics.momentum(frame, series, "e")
            column = diagnostics.places(frame, "e")[0] // (GRID[0] // BOXES[0])
            middle = frame.box.offset[1] + 0.5 * frame.box.extent[1]
            found += [box(u[:, column == c], middle) for c in range(BOXES[0])]
        yield frames[0].iteration, found


def box(u: Array, y: float) -> Momenta:
    """Of the electrons (3, n) of a box whose middle is at y [cells]."""
    flow = float(shear.flow_sign(np.array(y), GRID[1]))
    beside = shear.distance_to_shear(np.array(y), GRID[1]) < GRID[1] / BOXES[1]
    along = flow * u[0]
    counter = float(np.mean(along < 0))
    return Momenta(
        region=REGIONS[int(beside)],
        statistics=np.array([along.mean(), *u.std(axis=1), counter]),
        quantiles=np.quantile(along, np.linspace(0.0, 1.0, len(real_boxes()[0].quantiles))),
    )


def distance(some: list[Momenta], others: list[Momenta]) -> float:
    """W1 between the pooled distributions of u_x, from their mean quantiles."""
    a, b = (np.mean([m.quantiles for m in group], axis=0) for group in (some, others))
    return float(np.mean(np.abs(a - b)))


def of(region: str, boxes: list[Momenta]) -> list[Momenta]:
    """The boxes of a region."""
    return [m for m in boxes if m.region == region]


def table(real: list[Momenta], ours: dict[int, list[Momenta]]) -> str:
    """Means over boxes, with the smallest and largest box in brackets, in Markdown."""
    lines = [f"| region | boxes | {' | '.join(STATISTICS)} | W1 |", f"|---|---|{'---|' * 6}"]
    for region in REGIONS:
        theirs = of(region, real)
        for name, boxes in [("real, 950", real), *((f"ours, {s}", b) for s, b in ours.items())]:
            here = of(region, boxes)
            numbers = np.array([m.statistics for m in here])
            cells = [
                f"{m:.4f} ({low:.4f} to {high:.4f})"
                for m, low, high in zip(
                    numbers.mean(axis=0), numbers.min(axis=0), numbers.max(axis=0), strict=True
                )
            ]
            w1 = "" if boxes is real else f"{distance(here, theirs):.4f}"
            lines.append(f"| {region} | {name}: {len(here)} | {' | '.join(cells)} | {w1} |")
    return "\n".join(lines)


def draw(real: list[Momenta], ours: dict[int, list[Momenta]], picture: Path) -> None:
    """Cumulative distributions of u_x along the flow, box by box."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, both = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for axes, region in zip(both, REGIONS, strict=True):
        share = np.linspace(0.0, 1.0, len(real[0].quantiles))
        for i, (step, boxes) in enumerate(ours.items()):
            for m in of(region, boxes):
                axes.plot(m.quantiles, share, f"C{i}", lw=0.4, alpha=0.5)
            axes.plot([], [], f"C{i}", label=f"ours (2-D), step {step}")
        for m in of(region, real):
            axes.plot(m.quantiles, share, "k--", lw=1.3)
        axes.plot([], [], "k--", label="real boxes (PIConGPU, 3-D), step 950")
        axes.set(title=region, xlabel="$u_x$ along the flow [$m_e c$]")
        axes.set(ylabel="share of electrons below", yscale="log", ylim=(5e-3, 1))
        axes.legend(fontsize=8)
    figure.savefig(picture, dpi=110)


def main() -> None:
    """Run the seeds one after the other, print the table, draw the picture."""
    parser = arguments("khi_boxes", __doc__, seeds=3)
    parser.add_argument(
        "--steps", type=int, nargs="+", default=[900, 950, 1000], help="rising evenly"
    )
    options = parser.parse_args()
    ours: dict[int, list[Momenta]] = {}
    for seed in range(1, options.seeds + 1):
        for step, boxes in our_boxes(options.steps, seed):
            ours.setdefault(step, []).extend(boxes)
        print(f"seed {seed} is done", file=sys.stderr, flush=True)
    print(table(real_boxes(), ours))
    draw(real_boxes(), ours, options.picture)


if __name__ == "__main__":
    main()
