"""What boxes of our Kelvin-Helmholtz run radiate into +x, beside six published spectra.

    python -m benchmarks.khi_spectra PICTURE.png [--seeds 1] [--steps 900 950 1000]
    [--window triangle]     (needs matplotlib)

The published boxes are of a 3-D PIConGPU run at step 950: 192 x 256 x 12 cells, 9 electrons per
cell at random places, boxes of 48 x 32 x 12 cells. Spectra are ln(|A|^2 + 1e-9) of one step at 512
frequencies. Ours: 48 x 256 x 12 cells with the same boxes and all else the same, so that only one
wave of the instability fits into the run along x. Boxes beside a shear plane are `vortex`, the
others `bulk`; +x and -x are the directions of the stream. Prints, in Markdown, means of ln(|A|^2 +
1e-9) over a band [omega_pe], smallest to largest box.

The window of the published run is not known. By default it is the triangle of PIConGPU's example:
without one, the thermal noise of our electrons alone is brighter than the published box that lies
at its run's edge.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import radiation_pairs
from benchmarks.scripts import arguments
from producers import course, shear
from producers.khi import KelvinHelmholtz
from producers.radiation import Radiation, Window
from producers.setup import Start
from workflow.types import Array

DATA = Path(__file__).parent / "data" / "khi_boxes_spectra.npz"
GRID, BOXES = (48, 256, 12), (1, 8)  # cells; boxes along x, y
BANDS = ((0.1, 1.0), (1.0, 10.0), (10.0, 50.0))  # [omega_pe]
GROUPS = ((False, True), (False, False), (True, True), (True, False))  # vortex, forward


@dataclass(frozen=True, kw_only=True)
class Spectra:
    """ln(|A|^2 + 1e-9) of boxes, (boxes, frequencies)."""

    name: str
    vortex: Array
    forward: Array
    values: Array

    def of(self, vortex: bool, forward: bool) -> Array:
        return np.asarray(self.values[(self.vortex == vortex) & (self.forward == forward)])


def published() -> tuple[Spectra, Spectra]:
    """The real spectra, and those that the published model predicts from the particles."""
    data = np.load(DATA)
    return tuple(
        Spectra(name=name, vortex=data["vortex"], forward=data["forward"], values=data[key])
        for name, key in (("real, 950", "spectrum"), ("published prediction", "predicted"))
    )  # type: ignore[return-value]


def ours(steps: list[int], seeds: int, threads: int, window: Window) -> list[Spectra]:
    """Of all seeds' boxes, by step."""
    config = KelvinHelmholtz(
        grid=GRID, last_step=steps[-1], period=1, threads=threads, particles_per_cell=9,
        start=Start.RANDOM, radiation=Radiation(directions=((1.0, 0.0, 0.0),), window=window),
    )  # fmt: skip
    assert config.radiation is not None
    omega = config.radiation.omega(radiation_pairs.OMEGA_PE)
    runs = []
    for seed in range(1, seeds + 1):
        fill = functools.partial(course.fill, config, seed)
        runs.append(
            radiation_pairs.ours(
                config, fill, name=str(seed), omega=omega, dumps=steps, every=1, boxes=BOXES
            )
        )
        print(f"seed {seed} is done", file=sys.stderr, flush=True)
    middle = (np.arange(BOXES[1]) + 0.5) * GRID[1] / BOXES[1]
    vortex = shear.distance_to_shear(middle, GRID[1]) < GRID[1] / BOXES[1]
    return [
        Spectra(
            name=f"ours, {step}",
            vortex=np.tile(vortex, seeds),
            forward=np.concatenate([run.forward for run in runs]),
            values=np.log(np.concatenate([run.intensity[i, :, 0] for run in runs]) + 1e-9),
        )
        for i, step in enumerate(steps)
    ]


def title(vortex: bool, forward: bool) -> str:
    return f"{'vortex' if vortex else 'bulk'}, stream to {'+' if forward else '-'}x"


def table(spectra: list[Spectra], frequency: Array) -> str:
    """Means over bands, in Markdown."""
    names = " | ".join(f"{low:g} to {high:g}" for low, high in BANDS)
    lines = [f"| boxes | of | {names} |", f"|---|---|{'---|' * len(BANDS)}"]
    for group in GROUPS:
        for one in spectra:
            cells = []
            for low, high in BANDS:
                inside = (frequency >= 0.999 * low) & (frequency < high)
                means = one.of(*group)[:, inside].mean(axis=1)
                cells.append(f"{means.min():.1f} to {means.max():.1f}")
            lines.append(f"| {title(*group)} | {one.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(spectra: list[Spectra], frequency: Array, picture: Path) -> None:
    """All spectra, a panel per group."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, all_axes = pyplot.subplots(
        1, 4, figsize=(15, 4.2), layout="constrained", sharex=True, sharey=True
    )
    styles = ("k-", "0.6", *(f"C{i}" for i in range(len(spectra) - 2)))
    for group, axes in zip(GROUPS, all_axes, strict=True):
        for one, style in zip(spectra, styles, strict=True):
            line = {"color": style} if style[0] != "k" else {"color": "k", "lw": 1.6}
            for values in one.of(*group):
                axes.plot(frequency, values, **({"lw": 0.8} | line))
            axes.plot([], [], label=one.name, **line)
        axes.set(title=title(*group), xscale="log", xlabel="frequency [omega_pe]")
    all_axes[0].set(ylabel="ln($|A|^2$ + 1e-9), +x, one step")
    all_axes[0].legend(fontsize=8)
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Run the seeds, print the table, draw the picture."""
    parser = arguments("khi_spectra", __doc__, seeds=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--window", type=Window, default=Window.TRIANGLE)
    parser.add_argument("--steps", type=int, nargs="+", default=[900, 950, 1000], help="rising")
    options = parser.parse_args()
    found = ours(options.steps, options.seeds, options.threads, options.window)
    spectra = [*published(), *found]
    frequency = Radiation().omega(1.0)
    print(table(spectra, frequency))
    draw(spectra, frequency, options.picture)


if __name__ == "__main__":
    main()
