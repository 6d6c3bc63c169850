"""Where a step of the solver spends its time: ns per particle-step of every part, one thread.

    python -m benchmarks.pic_parts --shape tsc --dtype float32      one JSON line

Whole parts are timed as they run (median of many steps). The particle loop (`kernels.advance`) is
one function; its parts are loops over the same cells that do only that part: gather and push,
deposition of the particles that stay. What is left of the loop is particles that leave their cell.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import contextlib
import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
from numba import njit

from benchmarks.peers import case
from benchmarks.rows import timed
from producers.kernels import bring, deposit, flush_all, load, push, take_fields
from producers.layout import N0, N1, N2, U_GUARD, U_LANES, WEIGHTS, WORK
from producers.splines import ONE


def main() -> None:
    """Time the case of `benchmarks.peers.case`."""
    parser = case.arguments(__doc__ or "")
    parser.add_argument("--shape", default="tsc")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    case.hold_threads(1)
    print(json.dumps(by_part(options)))


def by_part(options: Any) -> dict[str, float]:
    """ns per particle-step of every part; "step" is the whole, without output."""
    from producers import course, pic
    from producers.khi import KelvinHelmholtz
    from producers.setup import Start

    config = KelvinHelmholtz(
        last_step=1, period=1, grid=(options.grid, options.grid), cell_m=case.CELL_M,
        dt_s=case.DT_S, density_m3=case.DENSITY_M3, gamma=case.GAMMA,
        temperature_ev=case.TEMPERATURE_EV, mass_ratio=case.MASS_RATIO,
        particles_per_cell=options.per_cell, start=Start.RANDOM, shape=pic.Shape(options.shape),
        dtype=options.dtype, fields=True,
    )  # fmt: skip
    each = options.grid**2 * options.per_cell
    (slab,) = slabs = pic.allocate(config.plasma, particles=each, zeros=pic.private_zeros)
    course.fill(config, 1, slab)
    slot = course.Slot.of(slabs, pic.private_zeros)
    for _ in range(options.warm_up):
        pic.step(slabs)
    laps: dict[str, list[float]] = defaultdict(list)
    with _timing(pic, "push_particles", laps), _timing(pic, "take_movers", laps):
        for _ in range(5 * options.steps):
            laps["step"].append(timed(lambda: pic.step(slabs)))
    loops = _loops(slab)
    for _ in range(options.steps):
        laps["output"].append(timed(lambda: slot.fill(slabs)))
        for name, loop in loops.items():
            laps[name].append(timed(loop))
    found = {name: 1e9 * statistics.median(times) / (2 * each) for name, times in laps.items()}
    loop, movers = found.pop("push_particles"), found.pop("take_movers")
    found["fields"] = found["step"] - loop - movers
    found["deposition"] -= found["gather and push"]  # that loop does both
    found["leaving a cell"] = loop - found["gather and push"] - found["deposition"]
    found["movers to their cells"] = movers
    return found


@contextlib.contextmanager
def _timing(module: ModuleType, name: str, laps: dict[str, list[float]]) -> Iterator[None]:
    """Time every call of a module's function."""
    function = getattr(module, name)

    def lap(*args: Any, **more: Any) -> None:
        laps[name].append(timed(lambda: function(*args, **more)))

    setattr(module, name, lap)
    try:
        yield
    finally:
        setattr(module, name, function)


# ---------------------------------------------------------------- parts of the particle loop


def _loops(slab: Any) -> dict[str, Callable[[], None]]:
    """Loops over all particles that do parts of `kernels.advance`; particles stay as they are."""
    plasma = slab.plasma
    scalar = plasma.dtype.type
    current = np.zeros_like(slab.current)

    def loop(deposits: bool) -> None:
        for species, mine in zip(plasma.species, slab.particles, strict=True):
            _loop(
                mine.block, mine.starts, mine.count, plasma.width, slab.fields, current, slab.shape,
                scalar(0.5 * species.charge / species.mass), scalar(1e-9), scalar(plasma.step),
                *plasma.order, plasma.pusher.code, deposits,
            )  # fmt: skip

    return {"gather and push": lambda: loop(False), "deposition": lambda: loop(True)}


@njit(error_model="numpy")
def _loop(
    block, first, count, width, fields, current, shape, half_kick, amount, step, order, depth,
    pusher, deposits,
):  # fmt: skip
    """`kernels.advance` without what is done for particles that leave their cell."""
    rows, columns = np.uintp(shape[1]), np.uintp(shape[2])
    work = np.zeros(WORK, block.dtype)
    work[WEIGHTS + 12] = ONE
    size = np.uintp(width) * U_LANES
    for c in range(np.uintp(count.size)):
        n = np.uintp(count[c])
        if n == 0:
            continue
        j, i = c // columns % rows + U_GUARD, c % columns + U_GUARD
        bring(block, np.uintp(first[min(c + N2, np.uintp(count.size - 1))]) * size)
        take_fields(work, fields, N0, j, i, order, depth)
        for b in range((n + U_LANES - N1) // U_LANES):
            load(work, block, (np.uintp(first[c]) + b) * size, False, N0, depth)
            alive = min(n - b * U_LANES, U_LANES)
            push(work, half_kick, step, order, depth, pusher)
            if deposits:
                deposit(work, alive, amount, order, depth)
        if deposits:
            flush_all(work, current, N0, j, i, order, depth)


if __name__ == "__main__":
    main()
