"""What the far field costs: binned against the direct sum, and against the particle step itself.

Electrons of a warm Kelvin-Helmholtz flow (500 eV, so that their cuts differ as they do after the
vortices), 4 directions x 512 frequencies, one thread. The particle step is that of the same box:
electrons and ions, TSC or CIC, float32. Best of several repetitions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from benchmarks.rows import row, show, timed
from producers import course, pic
from producers.khi import KelvinHelmholtz
from producers.radiation import FarField, Method, Radiation

DIRECT_PARTICLES = 300  # the direct sum is slow
ROWS = {10_000: 8, 30_000: 24, 100_000: 80}  # electrons in a box of 50 columns: its rows


def run(*, quick: bool) -> list[dict[str, Any]]:
    """Time the parts and the whole, and print the table."""
    repetitions = 5 if quick else 30
    rows: list[dict[str, Any]] = []
    for electrons, height in ROWS.items():
        rows += _of_box(electrons, height, repetitions)
    show("far-field radiation, 4 directions x 512 frequencies, one thread", rows, 2)
    return rows


def _of_box(electrons: int, height: int, repetitions: int) -> list[dict[str, Any]]:
    config = KelvinHelmholtz(
        grid=(50, height), temperature_ev=500.0, last_step=1, period=1, radiation=Radiation()
    )
    assert config.radiation is not None
    n_directions, n_frequencies = len(config.radiation.directions), config.radiation.frequencies
    slabs = _started(config, electrons)
    far_field = config.far_field()
    assert far_field is not None
    step_s = _best(lambda: pic.step(slabs, keep=True), repetitions)
    coarse = _started(dataclasses.replace(config, shape=pic.Shape.CIC), electrons)
    coarse_s = _best(lambda: pic.step(coarse, keep=True), repetitions)

    def add() -> None:
        course.radiate(slabs[0], {0: far_field}, config.system.weighting, 1)

    def transform() -> None:
        far_field.amplitude()
        far_field.reset()

    def filled_transform() -> float:
        add()
        return timed(transform)

    add_s = _best(add, repetitions)
    transform_s = min(filled_transform() for _ in range(repetitions))
    direct_s = _direct(config, slabs[0], max(2, repetitions // 10))  # per particle
    size = f"{electrons:,} electrons"
    return [
        row(f"{size}: to bins", "ns/(particle, direction)",
             1e9 * add_s / electrons / n_directions),
        row(f"{size}: transform of all directions", "ms", 1e3 * transform_s),
        row(f"{size}: direct sum", "ns/(particle, direction, frequency)",
             1e9 * direct_s / n_directions / n_frequencies),
        row(f"{size}: a step and its output", "ms", 1e3 * (add_s + transform_s),
             "direct sum", 1e3 * direct_s * electrons),
        row(f"{size}: a step, output every step", "ms", 1e3 * (add_s + transform_s),
             "particle step", 1e3 * step_s),
        row(f"{size}: a step, output every step", "ms", 1e3 * (add_s + transform_s),
             "particle step, CIC", 1e3 * coarse_s),
        row(f"{size}: a step, output every 10 steps", "ms", 1e3 * (add_s + 0.1 * transform_s),
             "particle step", 1e3 * step_s),
        row(f"{size}: a step, output every 10 steps", "ms", 1e3 * (add_s + 0.1 * transform_s),
             "particle step, CIC", 1e3 * coarse_s),
    ]  # fmt: skip


def _started(config: KelvinHelmholtz, electrons: int) -> tuple[pic.Slab, ...]:
    """The one slab of a run after two steps."""
    course.warm_up(config.plasma, config.far_field())
    slabs = pic.allocate(config.plasma, particles=electrons, zeros=pic.private_zeros)
    course.fill(config, 1, slabs[0])
    for _ in range(2):
        pic.step(slabs, keep=True)
    return slabs


def _direct(config: KelvinHelmholtz, slab: pic.Slab, repetitions: int) -> float:
    """Seconds per particle of the direct sum, of the first so many particles."""
    assert config.radiation is not None
    radiation = dataclasses.replace(config.radiation, method=Method.DIRECT)
    far_field = FarField(
        radiation,
        omega=radiation.omega(config.plasma.omega_dt),
        cell=(1.0 / config.plasma.step,) * 2,
        length=config.grid,
    )
    at, inside, u = (a[:, :DIRECT_PARTICLES] for a in pic.read(slab, course.ELECTRON))
    position, now, before = at + inside, u[:3].astype("f8"), u[3:].astype("f8")
    far_field.add(position, before, now, 1.0, 1)
    return _best(lambda: far_field.add(position, before, now, 1.0, 1), repetitions) / len(u.T)


def _best(work: Callable[[], None], repetitions: int) -> float:
    return min(timed(work) for _ in range(repetitions))
