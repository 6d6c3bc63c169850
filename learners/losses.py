"""Losses of clouds and latents, as pure functions of tensors."""

from __future__ import annotations

import enum

import torch
from torch import Tensor


class Distance(enum.Enum):
    """What Chamfer averages over nearest neighbours."""

    EUCLIDEAN = "euclidean"  # |a - b|, as in the Artificial Scientist
    SQUARED = "squared"  # |a - b|^2


def chamfer(a: Tensor, b: Tensor, *, distance: Distance, chunk: int) -> Tensor:
    """Chamfer distance of clouds a (rows, n, f) and b (rows, m, f): (rows,), 0 for equal clouds.

    The mean over a of the distance to the nearest point of b, plus the same the other way
    (Fan, Su, Guibas 2017, eq. 1, with means). Neighbours are sought without a gradient, `chunk`
    points of `a` at a time, so that memory grows as rows x chunk x m and not as rows x n x m;
    the distances to them are then exact, with the exact gradient.
    """
    to_b, to_a = nearest(a.detach(), b.detach(), chunk=chunk)
    there = _lengths(a - _pick(b, to_b), distance)  # (rows, n)
    back = _lengths(b - _pick(a, to_a), distance)  # (rows, m)
    return there.mean(dim=1) + back.mean(dim=1)


def nearest(a: Tensor, b: Tensor, *, chunk: int) -> tuple[Tensor, Tensor]:
    """Index of the nearest point of b for each of a (rows, n), and of a for each of b (rows, m)."""
    centre = b.mean(dim=1, keepdim=True)  # small numbers: |a|^2 - 2ab + |b|^2 loses fewer digits
    b = b - centre
    b_transposed = b.transpose(1, 2)  # (rows, f, m)
    b_squared = b.square().sum(dim=2).unsqueeze(1)  # (rows, 1, m)
    to_b, best, to_a = [], None, torch.empty(0)
    for first in range(0, a.shape[1], chunk):
        part = a[:, first : first + chunk] - centre
        distances = torch.baddbmm(b_squared, part, b_transposed, alpha=-2.0)  # less |a|^2
        to_b.append(distances.argmin(dim=2))
        distances += part.square().sum(dim=2, keepdim=True)
        shortest, index = distances.min(dim=1)  # (rows, m)
        if best is None:
            best, to_a = shortest, index
        else:
            to_a = torch.where(shortest < best, index + first, to_a)
            best = torch.minimum(shortest, best)
    return torch.cat(to_b, dim=1), to_a


def kl_to_standard_normal(mean: Tensor, variance: Tensor) -> Tensor:
    """KL divergence of N(mean, variance) from N(0, 1), summed over the latent: (rows,)."""
    return 0.5 * (mean.square() + variance - 1.0 - variance.log()).sum(dim=1)


def _pick(cloud: Tensor, index: Tensor) -> Tensor:
    """cloud[row, index[row]]; by index_select, whose gradient can be summed in a fixed order."""
    rows, points, features = cloud.shape
    first = torch.arange(rows, device=cloud.device).unsqueeze(1) * points
    flat = (index + first).reshape(-1)
    return cloud.reshape(-1, features).index_select(0, flat).reshape(rows, -1, features)


def _lengths(difference: Tensor, distance: Distance) -> Tensor:
    if distance is Distance.SQUARED:
        return difference.square().sum(dim=2)
    lengths: Tensor = torch.linalg.vector_norm(difference, dim=2)  # its gradient at 0 is 0
    return lengths
