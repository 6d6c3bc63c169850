"""A small simulation output for stream tests, and writers of it that run as processes.

Awkward on purpose: box 2 never has particles, ions are absent in iteration 20 and there are none
in iteration 30, counts change, and iterations are not evenly spaced.
"""

import os
import select
import sys
import time
from itertools import count as count_up

import numpy as np

from workflow import streams
from workflow.types import (
    CHARGE,
    ELECTRIC_FIELD,
    LENGTH,
    MASS,
    MOMENTUM,
    Box,
    Frame,
    Grid,
    Series,
    StreamState,
    Unit,
)

PATIENCE_S = 60.0
DT_S = 1.79e-16
ITERATIONS = (10, 20, 30, 50)
ENCODINGS = ("variable_based", "group_based")
SPECIES = ("e", "i")
BOXES = (
    Box(index=0, offset=(0, 0), extent=(4, 3), host="node-a"),
    Box(index=1, offset=(0, 3), extent=(4, 5), host="node-b"),
    Box(index=2, offset=(4, 0), extent=(6, 8), host="a-much-longer-name"),
)


def series() -> Series:
    units = {"E/x": Unit(si=9.5e12, dimension=ELECTRIC_FIELD, time_offset=0.5)}
    units["E/y"] = units["E/x"]
    units["density"] = Unit(si=3.4e5, dimension=(-3.0, 0, 1.0, 1.0, 0, 0, 0))
    for s in SPECIES:
        p = Unit(si=8.9e-20, dimension=MOMENTUM, macro_weighted=True, weighting_power=1.0)
        units |= {f"{s}/momentum/{a}": p for a in "xyz"}
        units |= {f"{s}/position/{a}": Unit(si=9.3e-8, dimension=LENGTH) for a in "xy"}
        units |= {f"{s}/positionOffset/{a}": Unit(si=9.3e-8, dimension=LENGTH) for a in "xy"}
        units[f"{s}/weighting"] = Unit(si=1.0, macro_weighted=True, weighting_power=1.0)
        units[f"{s}/mass"] = Unit(si=2.9e-28, dimension=MASS, weighting_power=1.0)
        units[f"{s}/charge"] = Unit(si=5.2e-17, dimension=CHARGE, weighting_power=1.0)
    return Series(
        grid=Grid(shape=(10, 8), spacing_m=(9.25e-8, 9.5e-8)),
        dt_s=DT_S,
        software="Billow test",
        software_version="1",
        units=units,
        meshes=frozenset({"E", "density"}),
        mesh_position={"E/x": (0.5, 0.0), "E/y": (0.0, 0.5), "density": (0.0, 0.0)},
        constants={"e/mass": 0.003, "e/charge": -0.003, "i/mass": 5.6, "i/charge": 0.003},
        attributes={
            "unit_length": 5.5e-8,
            "particleBoundary": ["periodic", "open"],
            "fields/fieldSolver": "Yee",
            "particles/i/particlePush": "Boris",
            "sim_slides": np.uint32(0),
        },
    )


def count(species: str, iteration: int, box: int) -> int | None:
    """Particles; None: the species does not exist."""
    if species == "i" and iteration == 20:
        return None
    if box == 2 or (species == "i" and iteration == 30):
        return 0
    return 3 + box + iteration // 10 + 2 * (species == "i")


def frames(iteration: int, stream: str = "s") -> tuple[Frame, ...]:
    made = []
    for box in BOXES:
        rng = np.random.default_rng([iteration, box.index])
        shape = box.extent[::-1]
        arrays = {n: rng.random(shape, np.float32) for n in ("E/x", "E/y", "density")}
        for s in SPECIES:
            n = count(s, iteration, box.index)
            if n is None:
                continue
            arrays |= {f"{s}/momentum/{a}": rng.random(n, np.float32) for a in "xyz"}
            for i, a in enumerate("xy"):
                arrays[f"{s}/position/{a}"] = rng.random(n, np.float32)
                low = box.offset[i]
                arrays[f"{s}/positionOffset/{a}"] = rng.integers(
                    low, low + box.extent[i], n, np.int32
                )
            arrays[f"{s}/weighting"] = np.full(n, 326.5, np.float32)
        made.append(
            Frame(
                stream=stream,
                iteration=iteration,
                time_s=iteration * DT_S,
                dt_s=DT_S,
                box=box,
                arrays=arrays,
                units=series().units,
            )
        )
    return tuple(made)


def wait_for(condition, what: str):
    """Poll until a condition holds; its value."""
    ends = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < ends, f"no {what} within {PATIENCE_S} s"
        time.sleep(0.005)
    return value


def collect(reader, *, pump=lambda: None, records=None, boxes=None):
    """Read a stream to its end: [(iteration, offers, boxes, [Frame | Dropped])]."""
    seen = []

    def over():
        arrival = reader.poll()
        if arrival is not None:
            chosen = arrival.boxes if boxes is None else [arrival.boxes[i] for i in boxes]
            got = arrival.read(chosen, records or arrival.offers())
            seen.append((arrival.iteration, arrival.offers(), arrival.boxes, got))
            arrival.release()
            return False
        if reader.state() in (StreamState.ENDED, StreamState.PRODUCER_LOST):
            return True
        pump()
        return False

    wait_for(over, f"end of the stream (seen: {len(seen)})")
    return seen


def assert_equal_frames(got, wanted: Frame, told: Series) -> None:
    """Every value, unit, offset and time."""
    assert isinstance(got, Frame), got
    assert (got.iteration, got.time_s, got.dt_s) == (wanted.iteration, wanted.time_s, wanted.dt_s)
    assert (got.box.index, got.box.offset, got.box.extent) == (
        wanted.box.index, wanted.box.offset, wanted.box.extent,
    )  # fmt: skip
    for name, array in wanted.arrays.items():
        assert got.arrays[name].dtype == array.dtype, name
        np.testing.assert_array_equal(got.arrays[name], array, err_msg=name)
    kinds = {name.split("/")[0] for name in wanted.arrays}
    constants = {n: v for n, v in told.constants.items() if n.split("/")[0] in kinds}
    assert got.arrays.keys() == wanted.arrays.keys() | constants.keys()
    for name, value in constants.items():
        n = len(wanted.arrays[f"{name.split('/')[0]}/weighting"])
        np.testing.assert_array_equal(got.arrays[name], np.full(n, value))
    assert dict(got.units) == {name: told.units[name] for name in got.arrays}


# ---------------------------------------------------------------- writers as processes


def _open(engine, path, encoding, readers, **more):
    parameters = {"RendezvousReaderCount": str(readers), **more} if engine == "sst" else more
    return streams.open_writer(engine, path, series(), parameters=parameters, encoding=encoding)


def main(how, engine, path, encoding="variable_based", readers="1", *more):
    writer = _open(engine, path, encoding, readers, **dict(m.split("=") for m in more))
    if how == "all":
        for iteration in ITERATIONS:
            writer.put(frames(iteration))
        writer.close()
    elif how == "raise":
        writer.put(frames(10))
        writer.put(frames(20))
        raise RuntimeError("the simulation failed")
    elif how == "raise_inside":
        with writer:
            writer.put(frames(10))
            raise RuntimeError("the simulation failed")
    elif how == "endless":  # until somebody kills it; one iteration per line of input
        print("open", flush=True)
        for iteration, _ in enumerate(sys.stdin):
            writer.put(frames(iteration * 10))
            print(iteration * 10, flush=True)
        os._exit(0)
    elif how == "ticking":  # until its input is closed
        for iteration in count_up(0, 10):
            writer.put(frames(iteration))
            print(iteration, flush=True)
            if select.select([sys.stdin], [], [], 0.05)[0]:
                break
        writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
