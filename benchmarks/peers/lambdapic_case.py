"""Time lambdapic on the case: Yee, Boris, Esirkepov, triangular shape (TSC), float64; no output.

    P/bin/python benchmarks/peers/lambdapic_case.py --grid 128 --per-cell 16 --threads 2

It also deposits the charge density, which the case does not need, and cannot be told not to.
"""

import os
from importlib import metadata

from case import (
    CELL_M,
    DENSITY_M3,
    DT_S,
    FLOW_U,
    MASS_RATIO,
    THERMAL_U,
    C,
    arguments,
    hold_threads,
    report,
    timed,
)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--patch", type=int, default=32, help="cells along the side of a patch")
    options = parser.parse_args()
    hold_threads(options.threads)
    os.environ["LAMBDAPIC_CHECK_UPDATE"] = "0"  # it would ask PyPI
    os.environ["LAMBDAPIC_LOG_LEVEL"] = "WARNING"
    simulation = flow(options.grid, options.per_cell, options.patch)
    simulation.run(nsteps=options.warm_up)
    times = timed(options, lambda: simulation.run(nsteps=options.steps))
    report(
        options,
        code="lambdapic",
        version=metadata.version("lambdapic"),
        particles=sum(
            int(p.is_alive.sum()) for patch in simulation.patches for p in patch.particles
        ),
        times=times,
        shape="tsc",
        dtype="float64",
        patch=options.patch,
    )


def flow(grid: int, per_cell: int, patch: int):
    """The initialised simulation."""
    import numpy as np
    from lambdapic import Electron, Simulation, Species

    simulation = Simulation(
        nx=grid,
        ny=grid,
        dx=CELL_M,
        dy=CELL_M,
        npatch_x=grid // patch,
        npatch_y=grid // patch,
        dt_cfl=2**0.5 * C * DT_S / CELL_M,
        boundary_conditions=dict.fromkeys(("xmin", "xmax", "ymin", "ymax"), "periodic"),
        random_seed=1,
    )
    electrons = Electron(density=lambda x, y: DENSITY_M3, ppc=per_cell)
    ions = Species(
        name="i", charge=1, mass=MASS_RATIO, density=lambda x, y: DENSITY_M3, ppc=per_cell
    )
    simulation.add_species([electrons, ions])
    simulation.initialize()
    height = grid * CELL_M
    rng = np.random.default_rng(1)
    for patch in simulation.patches:
        for species, thermal in ((electrons, THERMAL_U), (ions, 0.0)):
            p = patch.particles[species.ispec]
            p.ux[:], p.uy[:], p.uz[:] = rng.normal(0.0, thermal, (3, len(p.x)))
            p.ux += np.where((p.y >= 0.25 * height) & (p.y < 0.75 * height), -FLOW_U, FLOW_U)
            p.inv_gamma[:] = (1.0 + p.ux**2 + p.uy**2 + p.uz**2) ** -0.5
    return simulation


if __name__ == "__main__":
    main()
