"""Run lambdapic from given particles and keep B_z: for benchmarks.growth_against_lambdapic.

    P/bin/python benchmarks/peers/lambdapic_growth.py start.npz fields.npz

start.npz has the scalars nx, ny, per_cell, cell_m, dt_s, density_m3, mass_ratio, steps, period and
the arrays electrons and ions (5, n): x, y [cells] from the corner of the box, u. fields.npz gets
bz (outputs, ny, nx) [T], after 0, period, 2 period ... steps.
"""

import os
import sys

import numpy as np

C = 299792458.0


def main() -> None:
    start, fields = sys.argv[1:]
    os.environ["LAMBDAPIC_CHECK_UPDATE"] = "0"  # it would ask PyPI
    os.environ["LAMBDAPIC_LOG_LEVEL"] = "WARNING"
    given = dict(np.load(start))
    simulation = placed(given)
    (patch,) = simulation.patches
    nx, ny, period = int(given["nx"]), int(given["ny"]), int(given["period"])
    bz = [patch.fields.bz[:nx, :ny].T.copy()]
    for _ in range(int(given["steps"]) // period):
        simulation.run(nsteps=period)
        bz.append(patch.fields.bz[:nx, :ny].T.copy())
    np.savez(fields, bz=np.array(bz))


def placed(given):
    """The simulation, one patch, with the given particles."""
    from lambdapic import Electron, Simulation, Species

    cell, density, per_cell = (given[k].item() for k in ("cell_m", "density_m3", "per_cell"))
    simulation = Simulation(
        nx=int(given["nx"]),
        ny=int(given["ny"]),
        dx=cell,
        dy=cell,
        npatch_x=1,
        npatch_y=1,
        dt_cfl=2**0.5 * C * given["dt_s"].item() / cell,
        boundary_conditions=dict.fromkeys(("xmin", "xmax", "ymin", "ymax"), "periodic"),
        random_seed=1,
    )
    mass = given["mass_ratio"].item()
    electrons = Electron(density=lambda x, y: density, ppc=per_cell)
    ions = Species(name="i", charge=1, mass=mass, density=lambda x, y: density, ppc=per_cell)
    simulation.add_species([electrons, ions])
    simulation.initialize()
    (patch,) = simulation.patches
    for species, (x, y, *u) in ((electrons, given["electrons"]), (ions, given["ions"])):
        p = patch.particles[species.ispec]
        # its box reaches from half a cell before the first node to half a cell before the last
        p.x[:] = (np.mod(x + 0.5, given["nx"]) - 0.5) * cell
        p.y[:] = (np.mod(y + 0.5, given["ny"]) - 0.5) * cell
        p.ux[:], p.uy[:], p.uz[:] = u
        p.inv_gamma[:] = (1.0 + p.ux**2 + p.uy**2 + p.uz**2) ** -0.5
    return simulation


if __name__ == "__main__":
    main()
