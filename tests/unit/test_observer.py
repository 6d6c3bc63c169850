"""What is remembered of a run, and what is said at its end."""

from dataclasses import replace

import numpy as np
import pytest

from producers import pictures
from producers.khi import KelvinHelmholtz
from producers.observer import Album, Observer, Picture
from producers.shear import Perturbation
from workflow.types import Hosting

SMALL = KelvinHelmholtz(
    grid=(16, 32), ranks=2, particles_per_cell=4, last_step=20, period=4,
    perturbation=Perturbation(mode=1, amplitude=1e-3),
)  # fmt: skip


def observed(config=SMALL, *, change=lambda frame: frame, pictures=4):
    observer = Observer(config.series(), theory=config.cold_growth_rate, pictures=pictures)
    for frames in config.iterations(1, hosting=Hosting.INLINE):
        observer.look([change(frame) for frame in frames])
    return observer


@pytest.fixture(scope="module")
def whole():
    return observed()


def picture(i):
    return Picture(iteration=i, time_s=0.0, density=None, bz=np.full((2, 2), float(i)))


def test_a_row_has_energies_and_waves_under_plain_names(whole):
    assert [row["iteration"] for row in whole.rows] == [0, 4, 8, 12, 16, 20]
    for name in ("time_s", "Ex_J", "Bz_J", "e_kinetic_J", "i_kinetic_J", "Bz_wave_1_T"):
        assert name in whole.columns
    assert whole.waves().shape == (6, 9)
    energies = whole.energies()
    parts = [energies[f"{f}{a}"] for f in "EB" for a in "xyz"]
    assert np.array_equal(energies["all fields"], np.sum(parts, axis=0))


def test_the_energy_drift_names_the_reservoir_that_it_is_relative_to(whole):
    said = dict(whole.findings())["energy drift"]
    for reservoir in ("of the whole", "of e kinetic", "of i kinetic"):
        assert reservoir in said
    drift = float(said.split(" of the whole")[0])
    assert 0 < abs(drift) < 1e-5


def test_a_run_without_growth_says_so_and_what_to_do(whole):
    said = dict(whole.findings())["growth of B_z"]
    assert said.startswith("not measured")
    assert "Run longer" in said


@pytest.mark.parametrize(
    ("gone", "says"),
    [
        ("B/z", {"growth of B_z": "no B", "field energy": "not all of E and B"}),
        ("e/weighting", {"energy drift": "i kinetic"}),
        ("E/x", {"energy drift": "not available", "field energy": "not available"}),
    ],
)
def test_what_the_stream_lacks_is_named_and_the_rest_is_measured(gone, says):
    def without(frame):
        return replace(frame, arrays={k: v for k, v in frame.arrays.items() if k != gone})

    found = dict(observed(change=without).findings())
    for what, words in says.items():
        assert words in found[what], found


def test_a_species_without_a_mass_is_named():
    config = SMALL
    bare = replace(config.series(), constants={})
    observer = Observer(bare, theory=None, pictures=0)
    observer.look(next(config.iterations(1, hosting=Hosting.INLINE)))
    found = dict(observer.findings())
    assert "e/mass" in found["kinetic energy of e"]
    assert observer.omega_pe is None


def test_an_album_keeps_pictures_evenly_and_the_newest():
    album = Album(4)
    for i in range(23):
        album.add(picture(i))
    assert [p.iteration for p in album.pictures] == [0, 8, 16, 22]
    assert len(album.pictures) <= 5


def test_the_pictures_shown_begin_where_there_is_something_to_see():
    album = [picture(i) for i in (0, 0, 0, 0, 50, 60, 80, 100)]
    assert [p.iteration for p in pictures.instants(album)] == [50, 60, 80, 100]
    assert [p.iteration for p in pictures.instants(album[:3])] == [0, 0, 0]
    assert len(pictures.instants(album[:1])) == 1


def test_pictures_and_a_film_are_drawn_of_whatever_there_is(whole, tmp_path):
    from PIL import Image

    whole.draw(tmp_path / "all.png", "all")
    observed(change=lambda f: replace(f, arrays={
        k: v for k, v in f.arrays.items() if k[:1] not in "EB"
    })).draw(tmp_path / "particles.png", "particles")  # fmt: skip
    whole.film(tmp_path / "film.gif", "film")
    for name in ("all.png", "particles.png"):
        with Image.open(tmp_path / name) as image:
            assert np.asarray(image.convert("L")).std() > 5  # not an empty page
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == len(whole.album.pictures)


def test_theory_is_told_beside_the_rate():
    config = SMALL
    observer = Observer(config.series(), theory=config.cold_growth_rate, pictures=0)
    observer.omega_pe = 1.784e14
    t = np.linspace(0, 30, 60) / observer.omega_pe
    for i, time_s in enumerate(t):
        row = {"iteration": i, "time_s": time_s, "Bz_wave_0_T": 1.0, "Bz_wave_2_T": 0.0}
        row["Bz_wave_1_T"] = 1e-4 * np.exp(0.3 * time_s * observer.omega_pe)
        observer.rows.append({k: row[k] for k in ("iteration", "time_s", "Bz_wave_0_T",
                                                  "Bz_wave_1_T", "Bz_wave_2_T")})  # fmt: skip
    said = dict(observer.findings())["growth of B_z"]
    assert said.startswith("0.3 omega_pe: wave 1 along x")
    assert "cold theory: stable" in said  # 16 cells are shorter than any growing wave
