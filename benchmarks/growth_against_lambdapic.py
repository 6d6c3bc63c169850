"""An independent code as oracle: the same particles, run by ours and by lambdapic, grow alike.

Both start from the very particles of a seeded Kelvin-Helmholtz run (one wavelength, cold, TSC,
float64; see tests/physics/test_kelvin_helmholtz.py) and have the same Yee, Boris and Esirkepov
steps, except that lambdapic splits the step of E, not of B, into halves and starts with u half a
step later. The cold-fluid rate is theory for an infinitely fine grid: the particle shape makes
both codes slower, by the same amount.

    billow bench growth-against-lambdapic --peer-python P      to install it: benchmarks.peers
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.processes import PEERS_FOLDER, call, installed, peer_python
from producers import course, shear, units
from producers.khi import KelvinHelmholtz
from producers.pic import Shape
from producers.shear import Perturbation
from workflow.types import Array, Hosting

GAMMA = 1.021
KV = 0.612  # k v0 / W, near the fastest mode
PERIOD = 8
WINDOW = (4.0, 7.0)  # of Gamma t: after the seed's decaying part, before saturation


def run(*, quick: bool) -> list[dict[str, Any]]:
    """Fit both codes' growth; 40 and 80 cells per wavelength, ions and positrons, or one case."""
    console = Console()
    both = installed("lambdapic", console)
    cases = [(40, 1836.152672), (40, 1.0), (80, 1836.152672)]
    rows = []
    for cells, mass_ratio in cases[:1] if quick else cases:
        config = seeded(cells=cells, mass_ratio=mass_ratio)
        ours = waves(our_bz(config), config)
        theirs = waves(their_bz(config), config) if both else None
        case = f"{cells} cells per wavelength, m_i/m_e = {mass_ratio:.0f}"
        rows += _rows(case, config, ours, theirs)
    _print(rows, console)
    return rows


# ---------------------------------------------------------------- the two runs


def seeded(*, cells: int, mass_ratio: float) -> KelvinHelmholtz:
    """One wavelength along x in `cells` cells, seeded at 1e-6."""
    k = KV * shear.natural_rate(GAMMA, mass_ratio) / shear.beta(GAMMA)  # [omega_pe/c]
    skin_m = units.C / units.plasma_frequency(KelvinHelmholtz.density_m3)
    cell_m = 2 * math.pi / k * skin_m / cells
    return KelvinHelmholtz(
        grid=(cells, 100 if cells == 40 else 140),
        cell_m=cell_m,
        dt_s=0.574 * cell_m / units.C,
        gamma=GAMMA,
        temperature_ev=0.0,
        mass_ratio=mass_ratio,
        particles_per_cell=4,
        perturbation=Perturbation(mode=1, amplitude=1e-6),
        shape=Shape.TSC,
        dtype="float64",
        last_step=17 * cells,
        period=PERIOD,
    )


def our_bz(config: KelvinHelmholtz) -> Array:
    """B_z (outputs, ny, nx)."""
    frames = config.iterations(0, hosting=Hosting.INLINE)
    return np.array([frame.arrays["B/z"].copy() for (frame,) in frames])  # buffers are reused


def their_bz(config: KelvinHelmholtz) -> Array:
    """B_z (outputs, ny, nx) of lambdapic, from the same particles."""
    rows = [course.start_row(config, 0, row) for row in range(config.grid[1])]
    cells, electrons, ions = (np.concatenate(part, axis=1) for part in zip(*rows, strict=True))
    for species in (electrons, ions):
        species[:2] += cells
    scalars = ("cell_m", "dt_s", "density_m3", "mass_ratio", "period")
    with tempfile.TemporaryDirectory(prefix="billow-bench-") as folder:
        start, fields = Path(folder) / "start.npz", Path(folder) / "fields.npz"
        np.savez(
            start,
            electrons=electrons,
            ions=ions,
            nx=config.grid[0],
            ny=config.grid[1],
            per_cell=config.particles_per_cell,
            steps=config.last_step,
            **{name: getattr(config, name) for name in scalars},
        )
        call([peer_python(), PEERS_FOLDER / "lambdapic_growth.py", start, fields])
        return np.load(fields)["bz"]


def waves(bz: Array, config: KelvinHelmholtz) -> Array:
    """|B_z(k)| of the seeded mode near the two shear planes, mean; (outputs,)."""
    ny = config.grid[1]
    planes = [ny // 4 - 1, ny // 4, 3 * ny // 4 - 1, 3 * ny // 4]
    return np.abs(np.fft.fft(bz, axis=2)[:, planes, 1]).mean(axis=1)


# ---------------------------------------------------------------- what is compared


def _rows(
    case: str, config: KelvinHelmholtz, ours: Array, theirs: Array | None
) -> list[dict[str, Any]]:
    """The fitted rates over theory's, and how far the waves themselves are apart."""
    k = KV * shear.natural_rate(GAMMA, config.mass_ratio) / shear.beta(GAMMA)
    theory = shear.growth_rate(k, GAMMA, config.mass_ratio)
    time = np.arange(len(ours)) * PERIOD * config.plasma.omega_dt
    window = (time * theory > WINDOW[0]) & (time * theory < WINDOW[1])

    def rate(wave: Array) -> float:
        return float(np.polyfit(time[window], np.log(wave[window]), 1)[0] / theory)

    row = {"case": f"{case}: growth rate over the cold-fluid rate", "unit": "1",
           "billow": rate(ours), "peer": None, "peer_value": None, "ratio": None}  # fmt: skip
    if theirs is None:
        return [row]
    # closeness to an independent code, not a contest: no ratio
    row |= {"peer": "lambdapic", "peer_value": rate(theirs)}
    quotient = theirs[window] / (ours[window] * config.system.bfield)
    wave = {
        "case": f"{case}: |B_z(k)| over ours, mean in the window",
        "billow": 1.0,
        "peer_value": float(quotient.mean()),
        "range": [float(quotient.min()), float(quotient.max())],
    }
    return [row, row | wave]


def _print(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table(title="The same particles in two codes, TSC float64")
    for column in ("case", "billow", "lambdapic"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for row in rows:
        theirs = "" if row["peer"] is None else f"{row['peer_value']:.5f}"
        table.add_row(row["case"], f"{row['billow']:.5f}", theirs)
    console.print(table)
