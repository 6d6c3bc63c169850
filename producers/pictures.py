"""Pictures of a run: the vortices over time, its energies, its waves. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workflow.types import Array

if TYPE_CHECKING:
    from producers.observer import Observer, Picture

INSTANTS = 4
FAINT = 0.02  # of the largest rms B_z: before it there is nothing to see
FILM_HZ = 12


def instants(album: list[Picture], count: int = INSTANTS) -> list[Picture]:
    """So many of these pictures, evenly from where the field is to be seen to the end."""
    strength = [0.0 if p.bz is None else float(np.sqrt(np.mean(p.bz**2))) for p in album]
    seen = [s >= FAINT * max(strength) for s in strength]
    start = max(0, min(seen.index(True), len(album) - count))
    chosen = np.unique(np.linspace(start, len(album) - 1, count).round().astype(int))
    return [album[i] for i in chosen]


def draw(observer: Observer, path: Path, title: str) -> None:
    """Electron density and B_z at some instants, energies and waves over time, as a PNG."""
    pyplot = _pyplot()
    chosen = instants(observer.album.pictures)
    rows = _planes(chosen[0])
    columns = len(chosen)
    tall = _aspect(chosen[0])
    figure = pyplot.figure(
        figsize=(3.2 * columns + 1, 2.9 * tall * len(rows) + 3.4), layout="constrained"
    )
    grid = figure.add_gridspec(len(rows) + 1, 2 * columns, height_ratios=[*[tall] * len(rows), 1])
    for r, name in enumerate(rows):
        for c, picture in enumerate(chosen):
            axes = figure.add_subplot(grid[r, 2 * c : 2 * c + 2])
            image = _show(axes, picture, name)
            axes.set_title(_when(picture, observer) if r == 0 else "", fontsize=9)
            figure.colorbar(image, ax=axes, shrink=0.85)
            if c == 0:
                axes.set_ylabel(
                    {"density": "electron density\n[of its mean]", "bz": "$B_z$ [T]"}[name]
                )
    _energies(figure.add_subplot(grid[len(rows), :columns]), observer)
    _waves(figure.add_subplot(grid[len(rows), columns:]), observer)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def film(observer: Observer, path: Path, title: str) -> None:
    """Electron density and B_z over the whole run, as a GIF."""
    pyplot = _pyplot()
    from matplotlib.animation import FuncAnimation, PillowWriter

    album = observer.album.pictures
    names = _planes(album[0])
    tall = _aspect(album[0])
    size = (3.2 * len(names), 3.0 * tall + 0.5)
    figure, all_axes = pyplot.subplots(
        1, len(names), figsize=size, squeeze=False, layout="constrained"
    )
    images = [_show(axes, album[0], n) for axes, n in zip(all_axes[0], names, strict=True)]

    def turn(i: int) -> list[Any]:
        for image, name in zip(images, names, strict=True):
            values, low, high = _scaled(album[i], name)
            image.set_data(values)
            image.set_clim(low, high)
        figure.suptitle(f"{title}: {_when(album[i], observer)}", fontsize=9)
        return images

    animation = FuncAnimation(figure, turn, frames=len(album))
    animation.save(path, writer=PillowWriter(fps=FILM_HZ), dpi=80)
    pyplot.close(figure)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _planes(picture: Picture) -> list[str]:
    """What a picture has."""
    return [name for name in ("density", "bz") if getattr(picture, name) is not None]


def _aspect(picture: Picture) -> float:
    """Height over width of the plasma, within what fits a page."""
    plane = picture.density if picture.density is not None else picture.bz
    return 1.0 if plane is None else min(2.0, max(0.4, plane.shape[0] / plane.shape[1]))


def _show(axes: Any, picture: Picture, name: str) -> Any:
    values, low, high = _scaled(picture, name)
    colours = {"density": "magma", "bz": "RdBu_r"}[name]
    image = axes.imshow(
        values, origin="lower", cmap=colours, vmin=low, vmax=high, interpolation="nearest"
    )
    axes.set_xticks([])
    axes.set_yticks([])
    return image


def _scaled(picture: Picture, name: str) -> tuple[Array, float, float]:
    """The values of a picture and the ends of its colours."""
    if name == "density":
        assert picture.density is not None
        values = picture.density / np.mean(picture.density)
        return values, 0.0, max(1.5, float(np.percentile(values, 99.5)))
    assert picture.bz is not None
    most = max(1e-30, float(np.abs(picture.bz).max()))
    return picture.bz, -most, most


def _when(picture: Picture, observer: Observer) -> str:
    t = "" if observer.omega_pe is None else f", $\\omega_{{pe}}t$ = {_time(observer, picture):.1f}"
    return f"iteration {picture.iteration}{t}"


def _time(observer: Observer, picture: Picture) -> float:
    return picture.time_s * (observer.omega_pe or 1.0)


def _energies(axes: Any, observer: Observer) -> None:
    t, label = _axis(observer)
    for name, values in observer.energies().items():
        if np.any(values > 0):
            axes.plot(t, values, label=name, lw=2 if name == "all fields" else 1)
    axes.set(xlabel=label, ylabel="energy [J]")
    if axes.lines:
        axes.set_yscale("log")
        axes.legend(fontsize=7, ncols=3)


def _waves(axes: Any, observer: Observer) -> None:
    t, label = _axis(observer)
    waves, growth = observer.waves(), observer.growth()
    axes.set(xlabel=label, ylabel="|$B_z(k)$| [T]")
    if waves is None:
        axes.text(0.5, 0.5, "no B in the stream", ha="center", transform=axes.transAxes)
        return
    shown = np.argsort(waves[:, 1:].max(axis=0))[::-1][:5] + 1
    if growth is not None:
        shown = np.union1d(shown[:4], [growth.mode])
    for mode in sorted(shown):
        axes.plot(t, waves[:, mode], lw=1, label=f"wave {mode} along x")
    if growth is not None:
        first, last = growth.window
        time = observer.column("time_s")[first : last + 1]
        middle = np.mean(np.log(waves[first : last + 1, growth.mode]))
        line = np.exp(middle + growth.rate * (time - time.mean()))
        rate = growth.rate / (observer.omega_pe or 1.0)
        unit = " $\\omega_{pe}$" if observer.omega_pe else "/s"
        axes.plot(t[first : last + 1], line, "k--", label=f"fit: {rate:.3g}{unit}")
    if np.any(waves[:, 1:] > 0):
        axes.set_yscale("log")
    axes.legend(fontsize=7)


def _axis(observer: Observer) -> tuple[Array, str]:
    time = observer.column("time_s")
    if observer.omega_pe is None:
        return time, "time [s]"
    return time * observer.omega_pe, "$\\omega_{pe}\\,t$"
