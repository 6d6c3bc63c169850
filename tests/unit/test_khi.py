"""The Kelvin-Helmholtz producer: its config, its units, its start, and the life of its ranks."""

import itertools
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from producers import ranks, shear
from producers.khi import KelvinHelmholtz
from producers.pic import Shape
from producers.setup import Start, lattice
from producers.shear import Perturbation
from workflow import plugins
from workflow.errors import ConfigError, NodeLost
from workflow.types import Hosting

PATIENCE_S = 60.0


def small(**changes):
    values = {"grid": (8, 16), "particles_per_cell": 4, "last_step": 4, "period": 1}
    return KelvinHelmholtz(**(values | changes))


def copied(producer, seed=1, hosting=Hosting.INLINE):
    return [
        [{k: np.array(a) for k, a in frame.arrays.items()} for frame in frames]
        for frames in producer.iterations(seed, hosting=hosting)
    ]


# ---------------------------------------------------------------- config


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"ranks": 5}, "ranks"),
        ({"ranks": 0}, "ranks"),
        ({"hosts": 0}, "hosts"),
        ({"ranks": 2, "hosts": 3}, "hosts"),
        ({"listen": "7001"}, "listen"),
        ({"listen": "here:99999"}, "listen"),
        ({"join_s": 0.0}, "join_s"),
        ({"grid": (2, 16)}, "grid"),
        ({"grid": (8, 18)}, "grid"),
        ({"dt_s": 3e-16}, "c dt"),
        ({"dt_s": -1.0}, "dt_s"),
        ({"density_m3": 2e28}, "dt_s"),
        ({"gamma": 0.9}, "gamma"),
        ({"period": 0}, "period"),
        ({"first_step": 5}, "last_step"),
        ({"temperature_ev": float("nan")}, "temperature_ev"),
        ({"particles_per_cell": 0}, "particles_per_cell"),
        ({"dtype": "float16"}, "dtype"),
        ({"pace_s": -1.0}, "pace_s"),
        ({"shear_width_m": -1.0}, "shear_width_m"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(wrong, name):
    with pytest.raises(ConfigError, match=rf"{name}.*wanted .*got"):
        small(**wrong)


def test_a_fast_flow_is_warned_of_and_told_why():
    small(gamma=1.5, shape=Shape.CIC)  # a warning would be an error
    small(gamma=1.3)
    with pytest.warns(UserWarning, match=r"gamma = 1\.5: above 1\.3 with shape tsc") as caught:
        small(gamma=1.5)
    (warning,) = caught
    for reason in ("numerical Cherenkov radiation", "outrun the slowest light", "Do not trust"):
        assert reason in str(warning.message)


def test_a_smooth_shear_has_a_tanh_profile_and_a_sharp_one_a_step():
    width = 2.0  # cells
    config = small(grid=(8, 64), shear_width_m=width * 93.4635e-9, temperature_ev=0.0)
    y, u = (
        np.concatenate(part) for part in zip(*(_row(config, row) for row in range(64)), strict=True)
    )
    speed = u / np.sqrt(1.0 + u * u) / shear.beta(config.gamma)
    lower = y < 32
    np.testing.assert_allclose(speed[lower], -np.tanh((y[lower] - 16.0) / width), atol=1e-12)
    np.testing.assert_allclose(speed[~lower], np.tanh((y[~lower] - 48.0) / width), atol=1e-12)
    _, step = _row(small(grid=(8, 64), temperature_ev=0.0), 0)
    assert step == pytest.approx(math.sqrt(1.021**2 - 1.0), rel=1e-12)


def _row(config, row):
    """y [cells] and u_x of the electrons of a row."""
    _, inside, electrons, _ = config.particles(1, row)
    return row + inside[1], electrons[0]


def test_algorithms_are_named_as_picongpu_names_them():
    attributes = small().series().attributes
    assert attributes["fields/fieldSolver"] == "Yee"
    assert attributes["particles/e/currentDeposition"] == "Esirkepov"
    assert attributes["particles/i/particlePush"] == "Boris"
    assert attributes["particles/i/particleShape"] == 2.0
    assert small(shape=Shape.CIC).series().attributes["particles/e/particleShape"] == 1.0
    assert "fields/fieldSolver" not in small(fields=False).series().attributes


def test_a_config_builds_it_from_plain_values():
    built = plugins.build(
        {
            "use": "producers.khi:KelvinHelmholtz",
            "grid": [8, 16],
            "last_step": 4,
            "period": 2,
            "shape": "cic",
            "start": "random",
            "perturbation": {"mode": 1},
        },
        "source.producer",
    )
    assert built.shape is Shape.CIC
    assert built.start is Start.RANDOM
    assert built.perturbation == Perturbation(mode=1)
    assert built.grid == (8, 16)


# ---------------------------------------------------------------- units and the start


def test_units_are_those_of_picongpu_at_its_parameters():
    series = small(particles_per_cell=25).series()
    expected = {  # read from a run of PIConGPU 0.8.0-dev with these parameters
        "unit_length": 5.3662849982e-08,
        "unit_time": 1.79e-16,
        "unit_speed": 299792458.0,
        "unit_mass": 2.974918747855623e-28,
        "unit_charge": 5.2323466170272913e-17,
        "unit_energy": 2.6737236309564903e-11,
        "unit_efield": 9522396795234.623,
        "unit_bfield": 31763.2967112022,
        "cell_width": np.float32(1.7416798),
        "cell_height": np.float32(1.7416798),
        "eps0": np.float32(4640.299),
        "mue0": np.float32(0.00021550336),
    }
    for name, value in expected.items():
        assert series.attributes[name] == pytest.approx(value, rel=1e-6), name
        assert series.attributes[name].dtype == np.asarray(value).dtype, name
    assert series.units["e/position/x"].si == pytest.approx(9.34635e-08)
    assert series.units["e/momentum/x"].si == pytest.approx(8.918582e-20, rel=1e-6)
    assert series.units["E/x"].si == pytest.approx(9.522397e12, rel=1e-6)
    assert series.constants["e/charge"] == pytest.approx(-0.0030620612669736147, rel=1e-7)
    assert series.constants["i/mass"] == pytest.approx(5.622412204742432, rel=1e-7)
    assert series.mesh_position["B/z"] == (0.5, 0.5)


@pytest.mark.parametrize("species", ["e", "i"])
def test_momenta_become_gamma_beta_by_the_rule_of_the_layout(species):
    config = small(temperature_ev=0.0, last_step=0)
    series = config.series()
    (frame,) = next(config.iterations(0, hosting=Hosting.INLINE))
    mass_kg = series.constants[f"{species}/mass"] * series.units[f"{species}/mass"].si
    weighting = frame.arrays[f"{species}/weighting"].astype(float)
    p = frame.arrays[f"{species}/momentum/x"] * series.units[f"{species}/momentum/x"].si
    u = p / weighting / (mass_kg * 299792458.0)
    row = frame.arrays[f"{species}/positionOffset/y"]
    expected = np.where((row < 4) | (row >= 12), 1.0, -1.0) * np.sqrt(1.021**2 - 1)
    np.testing.assert_allclose(u, expected, rtol=1e-5)


def test_it_starts_neutral_with_warm_electrons_and_cold_ions():
    config = small(grid=(32, 32), start=Start.RANDOM, last_step=0)
    (frame,) = next(config.iterations(0, hosting=Hosting.INLINE))
    for path in ("position/x", "position/y", "positionOffset/x", "positionOffset/y", "weighting"):
        np.testing.assert_array_equal(frame.arrays[f"e/{path}"], frame.arrays[f"i/{path}"])
    assert frame.arrays["e/momentum/z"].std() == pytest.approx(9.89e-4, rel=0.05)
    assert not frame.arrays["i/momentum/y"].any()
    assert all(not frame.arrays[f"{f}/{a}"].any() for f in "EB" for a in "xyz")
    assert frame.arrays["e/weighting"][0] == pytest.approx(1e25 * 93.4635e-9**3 / 4)


def test_the_start_does_not_depend_on_the_ranks():
    (one,), (three,) = (copied(small(ranks=r, last_step=0, period=1)) for r in (1, 3))
    for path in one[0]:
        axis = 0
        np.testing.assert_array_equal(
            np.concatenate([box[path] for box in three], axis=axis), one[0][path]
        )


@pytest.mark.parametrize(("count", "shape"), [(25, (5, 5)), (9, (3, 3)), (12, (4, 3)), (7, (7, 1))])
def test_a_lattice_is_as_square_as_can_be(count, shape):
    places = lattice(count)
    assert places.shape == (2, count)
    assert tuple(len(np.unique(axis)) for axis in places) == shape
    np.testing.assert_allclose(places.mean(axis=1), 0.5)


def test_a_perturbation_is_strongest_at_the_shear_planes():
    plain, seeded = (
        copied(small(grid=(16, 32), last_step=0, perturbation=p))[0][0]
        for p in (None, Perturbation(mode=2, amplitude=0.1))
    )
    added = seeded["e/momentum/y"] - plain["e/momentum/y"]
    x = seeded["e/positionOffset/x"] + seeded["e/position/x"]
    row = seeded["e/positionOffset/y"]
    at_plane = np.isin(row, [7, 8, 23, 24])
    wave = np.cos(2 * np.pi * 2 * x / 16)
    strength = np.dot(added[at_plane], wave[at_plane]) / np.dot(wave[at_plane], wave[at_plane])
    assert 0.06 < strength < 0.1  # half a cell or less from a plane
    assert np.abs(added[~at_plane]).max() < np.abs(added[at_plane]).max()
    np.testing.assert_array_equal(seeded["i/momentum/y"], plain["i/momentum/y"])


# ---------------------------------------------------------------- outputs


def test_outputs_are_the_iterations_that_were_asked_for():
    config = small(first_step=2, last_step=9, period=3)
    found = [frames[0].iteration for frames in config.iterations(0, hosting=Hosting.INLINE)]
    assert found == [2, 5, 8]


def test_momentum_prev_is_each_particles_momentum_one_step_before():
    config = small(ranks=3, momentum_prev=True, temperature_ev=5000.0, start=Start.RANDOM)
    steps = [
        {
            record: np.stack(
                [np.concatenate([box[f"e/{record}/{axis}"] for box in frames]) for axis in "xyz"]
            )
            for record in ("momentum", "momentumPrev1")
        }
        for frames in copied(config)
    ]
    for before, after in itertools.pairwise(steps):
        old, noted = before["momentum"], after["momentumPrev1"]
        # the order of particles changes between steps: compare as sets
        np.testing.assert_array_equal(noted[:, np.lexsort(noted)], old[:, np.lexsort(old)])
        kick = np.linalg.norm(after["momentum"] - noted, axis=0)
        assert kick.max() < 0.1 * noted.std()  # and it is the same particle's
    assert np.any(kick > 0)


def test_periods_do_not_change_the_numbers():
    every = copied(small(momentum_prev=True))
    rare = copied(small(momentum_prev=True, period=4))
    for path, array in rare[-1][0].items():
        np.testing.assert_array_equal(array, every[-1][0][path])


# ---------------------------------------------------------------- ranks that die


def endless(**changes):
    return small(grid=(16, 32), ranks=3, last_step=10**7, period=5, **changes)


def gone(pid):
    """Whether a process has ended (a zombie has: nobody may be there to bury it)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_a_killed_rank_is_named_and_takes_the_others_with_it():
    run = endless().iterations(0, hosting=Hosting.PROCESSES)
    next(run)
    pids = run.pids
    assert len(set(pids)) == 3
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(NodeLost, match=rf"rank 1 \(process {pids[1]}\) was killed by SIGKILL"):
        for _ in run:
            pass
    assert all(gone(pid) for pid in pids)
    with pytest.raises(NodeLost, match="rank 1"):
        next(run)


def test_a_frozen_rank_that_is_killed_while_the_parent_waits_is_noticed():
    run = endless().iterations(0, hosting=Hosting.PROCESSES)
    next(run)
    os.kill(run.pids[2], signal.SIGSTOP)  # the others now wait for it, and the parent for them
    killer = subprocess.Popen(["sh", "-c", f"sleep 1; kill -KILL {run.pids[2]}"])
    with pytest.raises(NodeLost, match="rank 2"):
        for _ in run:
            pass
    killer.wait()
    assert all(gone(pid) for pid in run.pids)


def test_a_rank_that_dies_between_two_paced_outputs_is_noticed():
    run = endless(pace_s=3600.0).iterations(0, hosting=Hosting.PROCESSES)
    next(run)
    killer = subprocess.Popen(["sh", "-c", f"sleep 1; kill -KILL {run.pids[0]}"])
    with pytest.raises(NodeLost, match="rank 0"):
        next(run)
    killer.wait()


def test_a_closed_run_leaves_no_process():
    run = endless().iterations(0, hosting=Hosting.PROCESSES)
    assert run.pids == ()
    next(run)
    pids = run.pids
    run.close()
    assert all(gone(pid) for pid in pids)
    assert next(run, None) is None


def test_a_forgotten_run_leaves_no_process():
    run = endless().iterations(0, hosting=Hosting.PROCESSES)
    frames = next(run)
    pids = run.pids
    del run, frames
    wait_until(lambda: all(gone(pid) for pid in pids))


def named_memory(pid):
    """Names under /dev/shm that a process has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line}


def test_shared_memory_has_no_name_that_could_leak():
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    before = named_memory("self")  # others in this process may have named memory
    run = endless().iterations(0, hosting=Hosting.PROCESSES)
    next(run)
    assert named_memory(run.pids[0]) <= before
    assert "/dev/zero (deleted)" in Path(f"/proc/{run.pids[0]}/maps").read_text()
    run.close()


ORPHANS = """
import sys, time
from producers.khi import KelvinHelmholtz
from workflow.types import Hosting

config = KelvinHelmholtz(
    grid=(16, 32), ranks=3, particles_per_cell=4, last_step=10**7, period=int(sys.argv[1])
)
run = config.iterations(0, hosting=Hosting.PROCESSES)
next(run)
sys.stdout.write(" ".join(map(str, run.pids)) + "\\n")
sys.stdout.flush()
time.sleep(600)
"""


@pytest.mark.parametrize("period", [1, 10**6], ids=["waiting for a slot", "computing"])
def test_ranks_end_when_their_parent_is_killed(period):
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, str(period)],
        stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True,
    )  # fmt: skip
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 3
    assert not any(gone(pid) for pid in pids)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: all(gone(pid) for pid in pids))


def test_an_error_in_a_rank_reaches_the_consumer_in_words():
    def program(rank):
        yield ranks.Signal.CLAIM
        yield ranks.Signal.SHOW
        if rank == 1:
            raise ValueError("a shoe is missing")
        yield ranks.Signal.MEET

    def take_all(started):
        while started.next_slot() is not None:
            pass

    with pytest.raises(ValueError, match="a shoe is missing"):
        take_all(ranks.start(program, 2, hosting=Hosting.INLINE, name="test"))
    with pytest.raises(NodeLost, match=r"rank 1 .* failed: ValueError: a shoe is missing"):
        take_all(ranks.start(program, 2, hosting=Hosting.PROCESSES, name="test"))
