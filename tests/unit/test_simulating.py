"""Where `billow simulate` writes, and what it refuses before anything starts."""

import csv
import importlib.util
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from producers.khi import KelvinHelmholtz
from workflow import simulate
from workflow.config import read_config
from workflow.errors import ConfigError
from workflow.types import Frame, Hosting

LAPTOP = Path(__file__).parents[2] / "configs" / "khi-laptop.yaml"
PLASMA = KelvinHelmholtz(grid=(16, 32), particles_per_cell=1, last_step=8, period=2)


@pytest.fixture
def config():
    return read_config(LAPTOP)


def placed(config, *, out=None, stream=None, plot=False, movie=False):
    return simulate.places(config, out=out, stream=stream, plot=plot, movie=movie)


def test_everything_lies_beside_the_series_or_in_a_folder_of_its_own(config, tmp_path):
    beside = placed(config, out=tmp_path / "khi.bp5", plot=True, movie=True)
    assert beside.energies == tmp_path / "khi.energies.csv"
    assert beside.picture == tmp_path / "khi.vortices.png"
    assert beside.movie == tmp_path / "khi.vortices.gif"
    alone = placed(config, plot=True)
    assert alone.series is None
    assert alone.energies.parent.parent == Path("runs")
    assert alone.picture.parent == alone.energies.parent
    assert alone.movie is None


@pytest.mark.parametrize("taken", ["khi.bp5", "khi.energies.csv"])
def test_nothing_is_written_over(config, tmp_path, taken):
    (tmp_path / taken).write_text("results")
    with pytest.raises(ConfigError, match=f"{taken}.*taken"):
        placed(config, out=tmp_path / "khi.bp5")


def test_another_format_is_refused(config, tmp_path):
    with pytest.raises(ConfigError, match="BP5"):
        placed(config, out=tmp_path / "khi.h5")


def test_a_file_and_a_stream_at_once_are_refused(config, tmp_path):
    with pytest.raises(ConfigError, match="one of the two"):
        placed(config, out=tmp_path / "a.bp5", stream=tmp_path / "a.sst")


def test_a_plot_without_matplotlib_is_refused_before_the_run(config, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"matplotlib.*billow\[plot\]"):
        placed(config, out=tmp_path / "khi.bp5", plot=True)
    assert not list(tmp_path.iterdir())


def test_somebody_elses_stream_is_not_simulated(tmp_path):
    text = LAPTOP.read_text()
    start, end = text.index("  producer:"), text.index("  stream:")
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text(text[:start] + "  contact: /nowhere/x.sst\n" + text[end:])
    config = read_config(theirs)
    with pytest.raises(ConfigError, match="producer"):
        simulate.simulate(config, placed(config, out=tmp_path / "x.bp5"), plain=True)
    assert [p.name for p in tmp_path.iterdir()] == ["theirs.yaml"]


def test_the_table_keeps_the_columns_of_its_first_row(tmp_path):
    path = tmp_path / "table.csv"
    with simulate._table(path) as write:
        write({"iteration": 3, "Ex_J": 1.25e-12})
        write({"iteration": 4, "new": 7.0})
        with path.open() as file:  # while it is still written
            rows = list(csv.DictReader(file))
    assert rows == [{"iteration": "3", "Ex_J": "1.25e-12"}, {"iteration": "4", "Ex_J": ""}]


@dataclass(frozen=True)
class Interrupted:
    """A producer that is interrupted by Ctrl-C while it computes iteration number `at`."""

    at: int

    def offers(self):
        return PLASMA.offers()

    def series(self):
        return PLASMA.series()

    def boxes(self):
        return 1

    def iterations(self, seed: int, *, hosting: Hosting) -> Iterator[tuple[Frame, ...]]:
        for i, frames in enumerate(PLASMA.iterations(seed, hosting=Hosting.INLINE)):
            if i == self.at:
                os.kill(os.getpid(), signal.SIGINT)
            yield frames


@pytest.mark.parametrize(("at", "files"), [(0, []), (2, ["x.bp5", "x.energies.csv"])])
def test_an_interruption_leaves_whole_iterations_or_nothing(capsys, tmp_path, at, files):
    producer = f"source.producer={{use: '{__name__}:Interrupted', at: {at}}}"
    config = read_config(LAPTOP, [producer])
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    where = placed(config, out=tmp_path / "x.bp5")
    assert simulate.simulate(config, where, plain=True) is False
    assert "interrupted" in capsys.readouterr().out
    assert sorted(p.name for p in tmp_path.iterdir()) == files
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    if files:
        with where.energies.open() as file:
            assert [row["iteration"] for row in csv.DictReader(file)] == ["0", "2"]
