"""Our Kelvin-Helmholtz run beside PIConGPU's: the same parameters, field energies over time.

    python -m benchmarks.picongpu_energy PICTURE.png [--seeds 5]     (needs matplotlib)

128 x 128 cells, 25 electrons and protons per cell on a lattice, TSC, float32, 2000 steps, from
thermal noise: each seed of ours is another noise, and so is PIConGPU's. A wave that starts from
less noise comes later, so curves are also compared shifted in time: `ahead` is how many steps
sooner than PIConGPU's step 900 the energy of B_z is as large. Prints a Markdown table:

    rate        half the slope of ln(energy of B_z), steps 800 to 1000, least squares [omega_pe]
    rate, shifted    the same over steps 800 - ahead to 1000 - ahead
    energy      of B_z at step 2000, over PIConGPU's
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.scripts import arguments
from producers import diagnostics
from producers.khi import KelvinHelmholtz
from workflow.types import Array, Hosting

DATA = Path(__file__).parent / "data" / "picongpu_khi2d_128x128_energy.csv"
CONFIG = KelvinHelmholtz(grid=(128, 128), last_step=2000, period=10)
WINDOW, MIDDLE, LAST = (800, 1000), 900, 2000  # steps
COMPONENTS = ("E/x", "E/y", "B/z")
MARKS = {"E/x": "C0", "E/y": "C1", "B/z": "C3"}


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Energies [J] of one run at its steps."""

    name: str
    steps: Array
    fields: dict[str, Array]  # by component
    kinetic_steps: Array
    kinetic: Array  # of the electrons

    @property
    def bz(self) -> Array:
        return self.fields["B/z"]


def picongpu() -> Curves:
    """The recorded curves."""
    table = np.genfromtxt(DATA, delimiter=",", names=True)
    with_kinetic = np.isfinite(table["e_Ekin_J"])
    return Curves(
        name="PIConGPU",
        steps=table["step"],
        fields={path: table[f"{path.replace('/', '')}_J"] for path in COMPONENTS},
        kinetic_steps=table["step"][with_kinetic],
        kinetic=table["e_Ekin_J"][with_kinetic],
    )


def ours(config: KelvinHelmholtz, seed: int) -> Curves:
    """One run of ours, in this process."""
    series = config.series()
    steps, fields, kinetic = [], [], []
    for frames in config.iterations(seed, hosting=Hosting.INLINE):
        energy = diagnostics.field_energy(frames, series)
        steps.append(frames[0].iteration)
        fields.append([energy[path] for path in COMPONENTS])
        kinetic.append(diagnostics.kinetic_energy(frames, series, "e"))
    return Curves(
        name=f"Billow, seed {seed}",
        steps=np.array(steps),
        fields=dict(zip(COMPONENTS, np.array(fields).T, strict=True)),
        kinetic_steps=np.array(steps),
        kinetic=np.array(kinetic),
    )


def rate(curves: Curves, omega_dt: float, first: float, last: float) -> float:
    """Half the slope of ln(energy of B_z) [omega_pe] between two steps."""
    inside = (curves.steps >= first) & (curves.steps <= last)
    t = curves.steps[inside] * omega_dt
    return 0.5 * float(np.polyfit(t, np.log(curves.bz[inside]), 1)[0])


def passes(curves: Curves, level: float) -> float:
    """The step at which the energy of B_z first passes a level [J]."""
    i = int(np.argmax(curves.bz > level))
    (a, b), (s, t) = np.log(curves.bz[i - 1 : i + 1]), curves.steps[i - 1 : i + 1]
    return float(s + (t - s) * (np.log(level) - a) / (b - a))


def ahead(curves: Curves, reference: Curves) -> float:
    """How many steps sooner than the reference's step MIDDLE this run is as far."""
    level = np.exp(np.interp(MIDDLE, reference.steps[1:], np.log(reference.bz[1:])))
    return MIDDLE - passes(curves, float(level))


def compare(runs: list[Curves], reference: Curves, omega_dt: float) -> Array:
    """Rows (runs, 4): rate, ahead, rate in the shifted window, energy at LAST over reference's."""
    rows = []
    for run in runs:
        early = ahead(run, reference)
        rows.append(
            (
                rate(run, omega_dt, *WINDOW),
                early,
                rate(run, omega_dt, WINDOW[0] - early, WINDOW[1] - early),
                float(run.bz[run.steps == LAST][0] / reference.bz[reference.steps == LAST][0]),
            )
        )
    return np.array(rows)


def table(runs: list[Curves], rows: Array, reference_rate: float) -> str:
    """The comparison in Markdown."""
    lines = ["| run | rate [omega_pe] | ahead [steps] | rate, shifted | energy, step 2000 |"]
    lines += ["|---|---|---|---|---|"]
    lines += [f"| PIConGPU | {reference_rate:.4f} | 0 | {reference_rate:.4f} | 1 |"]
    for run, (a, b, c, d) in zip(runs, rows, strict=True):
        lines.append(f"| {run.name} | {a:.4f} | {b:.0f} | {c:.4f} | {d:.3f} |")
    low, high = rows.min(axis=0), rows.max(axis=0)
    spread = [f"{a:.4f} to {b:.4f}" for a, b in zip(low, high, strict=True)]
    spread[1] = f"{low[1]:.0f} to {high[1]:.0f}"
    return "\n".join([*lines, f"| spread of {len(runs)} seeds | {' | '.join(spread)} |"])


def draw(runs: list[Curves], reference: Curves, picture: Path) -> None:
    """B_z's energy as it is and shifted, and all fields and the electrons of one seed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, middle, right) = pyplot.subplots(
        1, 3, figsize=(15, 4.6), layout="constrained", sharex=True
    )
    for axes, shifted in ((left, False), (middle, True)):
        for run in runs:
            early = ahead(run, reference) if shifted else 0.0
            axes.plot(run.steps + early, run.bz, "C0", lw=0.8, alpha=0.8)
        axes.plot([], [], "C0", label=f"Billow, {len(runs)} seeds")
        axes.plot(reference.steps, reference.bz, "k--", label="PIConGPU")
        axes.axvspan(*WINDOW, color="0.92", label="window of the rate")
    left.set(title="energy of $B_z$", ylabel="energy [J]")
    middle.set(title="the same, shifted to meet at step 900")
    for path in COMPONENTS:
        name = f"${path[0]}_{path[2]}$"
        for run in runs:
            right.plot(run.steps, run.fields[path], MARKS[path], lw=0.7, alpha=0.7)
        right.plot(reference.steps, reference.fields[path], "k--", lw=1)
        right.plot([], [], MARKS[path], label=name)
    for run in runs:
        right.plot(run.kinetic_steps, run.kinetic, "C2", lw=0.7)
    right.plot(reference.kinetic_steps, reference.kinetic, "k--", lw=1, label="PIConGPU, each")
    right.plot([], [], "C2", label="electrons, kinetic")
    right.set(title="all fields and the electrons")
    for axes in (left, middle, right):
        axes.set(yscale="log", ylim=(1e-15, 1e-6), xlim=(0, LAST), xlabel="step")
        axes.legend(fontsize=8)
    figure.savefig(picture, dpi=110)


def main() -> None:
    """Run the seeds one after the other, print the table, draw the picture."""
    parser = arguments("picongpu_energy", __doc__, seeds=5)
    options = parser.parse_args()
    reference, omega_dt = picongpu(), CONFIG.plasma.omega_dt
    runs = []
    for seed in range(1, options.seeds + 1):
        runs.append(ours(CONFIG, seed))
        print(f"{runs[-1].name} is done", file=sys.stderr, flush=True)
    rows = compare(runs, reference, omega_dt)
    print(table(runs, rows, rate(reference, omega_dt, *WINDOW)))
    draw(runs, reference, options.picture)


if __name__ == "__main__":
    main()
