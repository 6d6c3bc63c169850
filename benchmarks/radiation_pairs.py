"""What boxes of our Kelvin-Helmholtz run radiate, beside the same boxes of a PIConGPU run.

    python -m benchmarks.radiation_pairs PICTURE.png [--seeds 3] [--window triangle]

(needs matplotlib). PIConGPU's run: 3-D, 48 x 96 x 12 cells, 25 electrons and protons per cell on a
lattice, TSC, float32, on 2 x 4 ranks, each a box of 24 x 24 x 12 cells, of which six are known.
Each of its dumps, steps 720 to 1100, holds what the electrons of a box radiated in the 20 steps up
to it, in 4 directions from +x to +y and 64 frequencies. Form factor, cut and window are the
example's: gauss_spherical, half of the sampling limit, a triangle over the whole run's box.

Ours: the same run from our own thermal noise, one far field per box. Each of the two shear planes
grows from its own noise; one that got less of the growing waves comes later. So a plane's boxes are
compared as many steps `ahead` as the energy of B_z (and, another clock, E_x) in its half of the
run's box passes sooner what PIConGPU's has at step MIDDLE (half of the whole). Powers are means of
|A|^2 over a band of frequencies. Boxes are equivalent where their streams have the same direction.
Prints, in Markdown, by stage of growth, directions of the stream and of observation, and band:

    ratio     median over PIConGPU's boxes / median over ours, means of logarithms over a stage
    scatter   exp(sqrt(a^2 + b^2)), standard deviations a, b of ln(power) over their boxes and ours

A cell agrees if the ratio is between 1/scatter and scatter. The runs agree if nine in ten cells do,
and the ratios' geometric mean is between 2/3 and 3/2 in every band.
"""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.scripts import arguments
from producers import course, pic, shear
from producers.khi import KelvinHelmholtz
from producers.radiation import FarField, Radiation, Window
from workflow.types import Array

DATA = Path(__file__).parent / "data" / "picongpu_khi3d_radiation.npz"
GRID, BOXES = (48, 96, 12), (2, 4)  # cells x, y, z; boxes along x, y
EVERY = 20  # steps per window
DUMPS = range(560, 1221, EVERY)  # of ours
MIDDLE = 900  # step
STAGES = ((720, 800), (820, 900), (920, 1000), (1020, 1100))  # steps, both included
BANDS = ((0.1, 1.0), (1.0, 3.0), (3.0, 10.0), (10.0, 25.0), (25.0, 40.0))  # [omega_pe]
OMEGA_PE = 1.78e14  # [rad/s] as PIConGPU's example rounds it


class Clock(enum.Enum):
    """What tells how far a plane has grown: a field's energy, by its component number."""

    BZ = 5
    EX = 0


@dataclass(frozen=True, kw_only=True)
class Boxes:
    """What boxes radiated, each by its own clock."""

    name: str
    steps: Array  # of the dumps
    forward: Array  # (boxes,) whether the box's stream moves to +x
    plane: Array  # (boxes,) which shear plane it is at
    intensity: Array  # (dumps, boxes, directions, frequencies): |A|^2 of the window up to a dump
    energy: dict[Clock, Array]  # (dumps, planes) [J] in the half of the run's box around a plane


def picongpu() -> tuple[Boxes, Array, Array]:
    """The recorded boxes, the directions (directions, 3), the frequencies [rad/s]."""
    data = np.load(DATA)
    run = Boxes(
        name="PIConGPU",
        steps=data["steps"][1:].astype(float),  # the first window has 10 steps
        intensity=data["intensity"][1:].astype(float),
        energy={  # of both planes together is known
            clock: np.repeat(0.5 * data[f"{clock.name.lower()}_energy"][1:, None], 2, axis=1)
            for clock in Clock
        },
        **sides(data["offset"][:, 1] + 12.0, GRID[1]),
    )
    return run, data["direction"], data["omega"]


def sides(middle: Array, height: int) -> dict[str, Array]:
    """forward and plane of boxes whose middles are at y [cells]."""
    return {
        "forward": shear.flow_sign(middle, height) > 0,
        "plane": (middle > height / 2).astype(int),
    }


def settings(direction: Array, frequencies: int, window: Window) -> Radiation:
    """What PIConGPU's run observed; lowest and highest frequency are the defaults."""
    directions = tuple((float(x), float(y), float(z)) for x, y, z in direction)
    return Radiation(directions=directions, frequencies=frequencies, window=window)


# ---------------------------------------------------------------- our run


def ours(
    config: KelvinHelmholtz,
    fill: Callable[[pic.Slab], None],
    *,
    name: str,
    omega: Array,
    dumps: Sequence[int] = DUMPS,
    every: int = EVERY,
    boxes: tuple[int, int] = BOXES,
) -> Boxes:
    """One run of ours, in this process; threads: of config.

    fill: puts the particles into a slab. omega [rad/s]; every: steps that a dump holds; boxes along
    x, y, along y a multiple of the threads.
    """
    radiation, plasma = config.radiation, config.plasma
    assert radiation is not None
    particles = int(np.prod(config.grid)) * config.particles_per_cell
    slabs = pic.allocate(plasma, particles=particles, zeros=pic.private_zeros)
    chosen = {slab.index: _cells(slab, boxes) for slab in slabs}
    far_fields = {
        index: [
            FarField(
                radiation,
                omega=omega * config.dt_s,
                cell=(1.0 / plasma.step,) * len(config.grid),
                length=config.grid,
            )
            for _ in cells
        ]
        for index, cells in chosen.items()
    }

    def radiate(slab: pic.Slab, step: int) -> None:
        for far, cells in zip(far_fields[slab.index], chosen[slab.index], strict=True):
            far.add_particles(course.electrons(slab, cells), config.system.weighting, step)

    found, energies = [], []
    with course.Crew(slabs) as each:
        each(fill)
        for step in range(1, dumps[-1] + 1):
            observed = any(dump - every < step <= dump for dump in dumps)
            each(functools.partial(pic.advance, keep=observed))
            each(functools.partial(pic.meet, slabs=slabs))
            each(functools.partial(pic.finish, slabs=slabs))
            if observed:
                each(functools.partial(radiate, step=step))
            if step in dumps:
                found.append([_taken(f, config) for fields in far_fields.values() for f in fields])
                energies.append(_energies(config, slabs))
    middle = (np.arange(boxes[1]).repeat(boxes[0]) + 0.5) * config.grid[1] / boxes[1]
    return Boxes(
        name=name,
        steps=np.array(dumps, float),
        intensity=np.array(found),
        energy={clock: np.array([e[clock] for e in energies]) for clock in Clock},
        **sides(middle, config.grid[1]),
    )


def _energies(config: KelvinHelmholtz, slabs: tuple[pic.Slab, ...]) -> dict[Clock, Array]:
    """[J] in each half of the box (2,)."""
    found = {clock: np.zeros(2) for clock in Clock}
    per_square = config.cell_m**3 / (2.0 * 4e-7 * np.pi) * config.system.bfield**2
    for slab in slabs:
        upper = np.array(slab.rows) >= config.grid[1] // 2
        for clock, energy in found.items():
            field = slab.inside(slab.fields)[clock.value].astype(np.float64)
            rows = np.square(field).sum(axis=(0, 2)) * per_square
            energy += rows[~upper].sum(), rows[upper].sum()
    return found


def _cells(slab: pic.Slab, boxes: tuple[int, int]) -> list[Array]:
    """The cells of each box in a slab, rows of boxes one after the other."""
    columns, rows = (n // b for n, b in zip(slab.plasma.grid, boxes, strict=False))
    _, y, x = np.unravel_index(np.arange(np.prod(slab.shape)), slab.shape)
    box = (y + slab.rows.start) // rows * boxes[0] + x // columns
    return [np.flatnonzero(box == n) for n in np.unique(box)]


def _taken(far_field: FarField, config: KelvinHelmholtz) -> Array:
    """|A|^2 (directions, frequencies) since the last time, in the units of the output."""
    amplitude = far_field.amplitude() / config.system.weighting
    far_field.reset()
    return np.asarray(np.square(np.abs(amplitude)).sum(axis=-1))


# ---------------------------------------------------------------- side by side


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Boxes on a common clock: ln |A|^2, nan where a run does not reach."""

    forward: Array  # (boxes,)
    spectrum: Array  # (steps, boxes, directions, frequencies)


def passed(steps: Array, values: Array, level: float) -> float:
    """When rising values pass a level; nan if they do not."""
    over = np.flatnonzero(values > level)
    if not over.size or over[0] == 0:
        return float("nan")
    i = int(over[0])
    (a, b), (s, t) = np.log(values[i - 1 : i + 1]), steps[i - 1 : i + 1]
    return float(s + (t - s) * (np.log(level) - a) / (b - a))


def ahead(run: Boxes, plane: int, reference: Boxes, clock: Clock) -> float:
    """How many steps sooner than at MIDDLE a plane is as far as the reference's is then."""
    level = float(reference.energy[clock][reference.steps == MIDDLE, 0][0])
    return MIDDLE - passed(run.steps, run.energy[clock][:, plane], level)


def on_clock(runs: list[Boxes], reference: Boxes, clock: Clock) -> Growth:
    """Boxes of all planes and runs at the same stages."""
    spectra, forward = [], []
    for run in runs:
        with np.errstate(divide="ignore"):
            logs = np.log(run.intensity)
        for plane in np.unique(run.plane):
            early = 0.0 if run is reference else ahead(run, plane, reference, clock)
            for box in np.flatnonzero(run.plane == plane):
                spectra.append(_interpolated(reference.steps - early, run.steps, logs[:, box]))
                forward.append(run.forward[box])
    return Growth(forward=np.array(forward), spectrum=np.stack(spectra, axis=1))


def _interpolated(at: Array, steps: Array, values: Array) -> Array:
    """values (steps, ...) at other steps; nan outside."""
    i = np.clip(np.searchsorted(steps, at, side="right") - 1, 0, len(steps) - 2)
    share = ((at - steps[i]) / (steps[i + 1] - steps[i])).reshape(-1, *[1] * (values.ndim - 1))
    with np.errstate(invalid="ignore"):  # 0 times the logarithm of nothing
        found = np.where(share == 0, values[i], (1 - share) * values[i] + share * values[i + 1])
    found[(at < steps[0]) | (at > steps[-1]) | np.isnan(at)] = np.nan
    return np.asarray(found)


def bands_of(growth: Growth, omega: Array) -> Array:
    """ln of the mean |A|^2 in each band: (steps, boxes, directions, bands)."""
    frequency = omega[: growth.spectrum.shape[-1]] / OMEGA_PE
    inside = [(frequency >= 0.999 * low) & (frequency < high) for low, high in BANDS]
    power = np.exp(growth.spectrum)
    return np.log(np.stack([power[..., i].mean(axis=-1) for i in inside], axis=-1))


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The comparison: arrays (stages, forward or backward, directions, bands)."""

    ratio: Array
    scatter: Array

    @property
    def agree(self) -> Array:
        return np.abs(np.log(self.ratio)) <= np.log(self.scatter)


def compare(theirs: Array, ours: Array, sides: tuple[Array, Array], steps: Array) -> Cells:
    """theirs, ours: ln of band powers (steps, boxes, directions, bands); sides: both's forward."""
    ratio, scatter = [], []
    for first, last in STAGES:
        during = (steps >= first) & (steps <= last)
        for way in (True, False):
            a, b = (
                np.nanmean(logs[during][:, side == way], axis=0)
                for logs, side in zip((theirs, ours), sides, strict=True)
            )
            ratio.append(np.nanmedian(a, axis=0) - np.nanmedian(b, axis=0))
            scatter.append(np.hypot(np.nanstd(a, axis=0, ddof=1), np.nanstd(b, axis=0, ddof=1)))
    shape = (len(STAGES), 2, *ratio[0].shape)
    return Cells(
        ratio=np.exp(np.array(ratio)).reshape(shape), scatter=np.exp(scatter).reshape(shape)
    )


# ---------------------------------------------------------------- what is shown


def clocks(runs: list[Boxes], reference: Boxes) -> str:
    """Which plane is how far ahead, in Markdown."""
    names = " | ".join(clock.name for clock in Clock)
    lines = [f"| run | plane | {names} |", f"|---|---|{'---|' * len(Clock)}"]
    for run in runs:
        lines += [
            f"| {run.name} | {plane} | "
            + " | ".join(f"{ahead(run, plane, reference, clock):.0f}" for clock in Clock)
            + " |"
            for plane in np.unique(run.plane)
        ]
    return "\n".join(lines)


def table(cells: Cells, direction: Array) -> str:
    """Every cell as ratio (scatter), in bold where they do not agree, in Markdown."""
    names = " | ".join(f"{low:g} to {high:g}" for low, high in BANDS)
    lines = [f"| steps | stream | direction | {names} |", f"|---|---|---|{'---|' * len(BANDS)}"]
    for i, j, k in np.ndindex(cells.ratio.shape[:3]):
        first, last = STAGES[i]
        angle = np.degrees(np.arctan2(direction[k, 1], direction[k, 0]))
        row = [
            f"{mark}{ratio:.2f}{mark} ({scatter:.1f})"
            for ratio, scatter, mark in zip(
                cells.ratio[i, j, k],
                cells.scatter[i, j, k],
                np.where(cells.agree[i, j, k], "", "**"),
                strict=True,
            )
        ]
        lines.append(f"| {first} to {last} | {'+-'[j]}x | {angle:.0f} deg | {' | '.join(row)} |")
    return "\n".join(lines)


def verdict(cells: Cells) -> str:
    """How many cells agree, and the mean ratio of each band."""
    means = np.exp(np.log(cells.ratio).mean(axis=(0, 1, 2)))
    told = ", ".join(
        f"{mean:.2f} at {low:g} to {high:g}" for mean, (low, high) in zip(means, BANDS, strict=True)
    )
    good = cells.agree.mean() >= 0.9 and np.all(np.abs(np.log(means)) <= np.log(1.5))
    return (
        f"{int(cells.agree.sum())} of {cells.agree.size} cells agree; geometric mean of the ratios "
        f"of a band [omega_pe]: {told}. The runs {'agree' if good else 'do not agree'}."
    )


def draw(theirs: Growth, ours: Growth, omega: Array, steps: Array, picture: Path) -> None:
    """Spectra at three stages, by stream and direction: our 16 to 84 %, each box of theirs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, all_axes = pyplot.subplots(
        2, 4, figsize=(15, 7), layout="constrained", sharex=True, sharey=True
    )
    frequency = omega[: theirs.spectrum.shape[-1]] / OMEGA_PE
    for (j, k), axes in np.ndenumerate(all_axes):
        for colour, step in enumerate((760, 900, 1060)):
            at = int(np.flatnonzero(steps == step)[0])
            mine = ours.spectrum[at, ours.forward == (j == 0), k, : len(frequency)]
            low, middle, high = np.exp(np.nanpercentile(mine, (16, 50, 84), axis=0))
            axes.fill_between(frequency, low, high, color=f"C{colour}", alpha=0.25, lw=0)
            axes.plot(frequency, middle, f"C{colour}", label=f"Billow, step {step}, median")
            for box in theirs.spectrum[at, theirs.forward == (j == 0), k]:
                axes.plot(frequency, np.exp(box), f"C{colour}--", lw=0.9)
        axes.set(xscale="log", yscale="log", ylim=(1e-6, 3e3))
        axes.set_title(f"stream to {'+-'[j]}x, {30 * k} deg from +x to +y", fontsize=10)
    all_axes[0, 0].plot([], [], "k--", lw=0.9, label="PIConGPU, each box")
    all_axes[0, 0].legend(fontsize=8)
    for axes in all_axes[1]:
        axes.set(xlabel="frequency [omega_pe]")
    for axes in all_axes[:, 0]:
        axes.set(ylabel="$|A|^2$ of a box and 20 steps")
    figure.savefig(picture, dpi=100)


def main() -> None:
    """Run the seeds one after the other, print the tables, draw the picture."""
    parser = arguments("radiation_pairs", __doc__, seeds=3)
    parser.add_argument("--window", type=Window, default=Window.TRIANGLE)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    reference, direction, omega = picongpu()
    config = KelvinHelmholtz(
        grid=GRID, last_step=DUMPS[-1], period=EVERY, threads=options.threads,
        radiation=settings(direction, len(omega), options.window),
    )  # fmt: skip
    runs = []
    for seed in range(1, options.seeds + 1):
        fill = functools.partial(course.fill, config, seed)
        runs.append(ours(config, fill, name=f"Billow, seed {seed}", omega=omega))
        print(f"{runs[-1].name} is done", file=sys.stderr, flush=True)
    print(clocks(runs, reference))
    for clock in Clock:
        theirs, mine = (on_clock(r, reference, clock) for r in ([reference], runs))
        cells = compare(
            *(bands_of(g, omega) for g in (theirs, mine)),
            (theirs.forward, mine.forward),
            reference.steps,
        )
        print(f"By {clock.name}:", table(cells, direction), verdict(cells), sep="\n\n")
        if clock is Clock.BZ:
            draw(theirs, mine, omega, reference.steps, options.picture)


if __name__ == "__main__":
    main()
