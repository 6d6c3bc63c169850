"""Time pi-PIC on the case, as near as it comes: Boris, float64, but spectral fields; no output.

    P/bin/python benchmarks/peers/pipic_case.py --grid 128 --per-cell 16 --threads 2

Not like for like: its `fourier_boris` solver has Fourier fields instead of Yee's, deposits current
without Esirkepov's continuity, and its particle shape is not documented. It shuffles particles into
cells itself. Its units are CGS.
"""

import os
import tempfile
from importlib import metadata

from case import (
    CELL_M,
    DENSITY_M3,
    DT_S,
    FLOW_U,
    MASS_RATIO,
    TEMPERATURE_EV,
    arguments,
    hold_threads,
    report,
    timed,
)

CM, CM3, ERG_PER_EV = 1e-2, 1e-6, 1.602176634e-12


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--solver", default="fourier_boris", help="or ec, ec2: energy-conserving")
    options = parser.parse_args()
    hold_threads(options.threads)
    with tempfile.TemporaryDirectory(prefix="pipic-") as folder:
        os.chdir(folder)  # it leaves two log files where it runs
        measure(options)


def measure(options) -> None:
    simulation = flow(options.solver, options.grid, options.per_cell)
    simulation.advance(time_step=DT_S, number_of_iterations=options.warm_up)
    stretch = {"time_step": DT_S, "number_of_iterations": options.steps}
    times = timed(options, lambda: simulation.advance(**stretch))
    report(
        options,
        code="pipic",
        version=metadata.version("pipic"),
        particles=simulation.get_number_of_particles(),
        times=times,
        shape=options.solver,
        dtype="float64",
    )


def flow(solver: str, grid: int, per_cell: int):
    """The simulation with its particles."""
    import pipic
    from numba import cfunc
    from pipic.types import add_particles_callback, particle_loop_callback

    half = 0.5 * grid * CELL_M / CM
    box = {"nx": grid, "xmin": -half, "xmax": half, "ny": grid, "ymin": -half, "ymax": half}
    simulation = pipic.init(solver=solver, **box)
    simulation.log_policy(log_to_file=False)
    simulation.set_rng_seed(1)

    @cfunc(add_particles_callback)
    def density(place, numbers, integers):
        return DENSITY_M3 * CM3

    def drift(speed):
        @cfunc(particle_loop_callback)
        def add(place, momentum, weight, identity, numbers, integers):
            momentum[0] += -speed if abs(place[1]) < 0.5 * half else speed

        return add

    for name, charge, mass, temperature_ev in (
        ("electron", pipic.electron_charge, pipic.electron_mass, TEMPERATURE_EV),
        ("ion", -pipic.electron_charge, MASS_RATIO * pipic.electron_mass, 0.0),
    ):
        simulation.add_particles(
            name=name,
            number=grid * grid * per_cell,
            charge=charge,
            mass=mass,
            temperature=temperature_ev * ERG_PER_EV,
            density=density.address,
        )
        loop = drift(FLOW_U * mass * pipic.light_velocity)
        simulation.particle_loop(name=name, handler=loop.address)
    return simulation


if __name__ == "__main__":
    main()
