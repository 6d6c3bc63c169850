"""Time our solver on the case of benchmarks.peers.case; prints its one JSON line.

    python -m benchmarks.pic_case --shape tsc --dtype float64 --threads 2

Two threads are two ranks, a process each. The time is from one output to the next, with the steps
between them and one copy of the particles into the output buffer, as for every output of a run.
"""

from benchmarks.peers import case


def main() -> None:
    parser = case.arguments(__doc__)
    parser.add_argument("--shape", default="tsc")
    parser.add_argument("--dtype", default="float64")
    options = parser.parse_args()
    case.hold_threads(1)  # of each rank

    from producers import pic
    from producers.khi import KelvinHelmholtz
    from producers.shear import Start
    from workflow.types import Hosting

    config = KelvinHelmholtz(
        first_step=options.warm_up,
        last_step=options.warm_up + (case.STRETCHES + 1) * options.steps,  # ranks outlive timing
        period=options.steps,
        grid=(options.grid, options.grid),
        ranks=options.threads,
        cell_m=case.CELL_M,
        dt_s=case.DT_S,
        density_m3=case.DENSITY_M3,
        gamma=case.GAMMA,
        temperature_ev=case.TEMPERATURE_EV,
        mass_ratio=case.MASS_RATIO,
        particles_per_cell=options.per_cell,
        start=Start.RANDOM,
        shape=pic.Shape(options.shape),
        dtype=options.dtype,
        fields=False,
    )
    run = config.iterations(
        1, hosting=Hosting.INLINE if options.threads == 1 else Hosting.PROCESSES
    )
    frames = next(run)
    times = case.timed(options, lambda: next(run), run.pids)
    case.report(
        options,
        code="billow",
        version=config.series().software_version,
        particles=sum(len(f.arrays[f"{s}/weighting"]) for f in frames for s in "ei"),
        times=times,
        shape=options.shape,
        dtype=options.dtype,
    )
    run.close()


if __name__ == "__main__":
    main()
