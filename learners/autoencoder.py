"""A variational autoencoder of particle clouds, after the Artificial Scientist, sized by config.

Encoder: the same small network on every point, then the maximum over points (PointNet, Qi et al.
2017), then one head for the latent's mean and one for its variance. Decoder: a perceptron makes of
the latent an affine map of a learnt template cloud, and a displacement of each of its points: a
drift, a temperature and a shear are affine and so are learnt in few steps, a vortex is not.
Loss: Chamfer distance + weight x KL to N(0, 1) (Kelling et al. 2025, arXiv 2501.03383).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from learners.losses import Distance, chamfer, kl_to_standard_normal
from workflow.errors import ConfigError

SMALLEST_VARIANCE = 1e-8
START = 0.5  # the size of the template at first, in standard deviations of the data


@dataclass(frozen=True, kw_only=True)
class PointCloudVAE:
    """Model plug-in. The defaults are for a laptop: 69,000 parameters."""

    array: str = "particles"  # (rows, any number of points, features)
    features: int = 6
    encoder: tuple[int, ...] = (32, 64, 128)  # widths of the layers on each point
    latent: int = 16
    decoder: tuple[int, ...] = (64,)  # widths of the hidden layers
    points: int = 128  # of the decoded cloud
    distance: Distance = Distance.EUCLIDEAN
    kl_weight: float = 1e-3
    chunk: int = 1024  # points whose neighbours are sought at once: bounds the memory
    device: Literal["auto", "cpu", "cuda"] = "auto"  # auto: cuda if there is one

    def __post_init__(self) -> None:
        sizes = (self.features, *self.encoder, self.latent, *self.decoder, self.points, self.chunk)
        if min(sizes) < 1 or not self.encoder:
            raise ConfigError(
                "PointCloudVAE: wanted features, encoder widths (at least one), latent, decoder "
                f"widths, points and chunk of 1 or more, got {self}."
            )
        if not self.kl_weight >= 0:
            raise ConfigError(f"PointCloudVAE: wanted kl_weight >= 0, got {self.kl_weight}.")

    def needs(self) -> Mapping[str, tuple[int | None, ...]]:
        return {self.array: (None, self.features)}

    def build(self) -> nn.Module:
        return CloudNetwork(
            features=self.features,
            encoder=self.encoder,
            latent=self.latent,
            decoder=self.decoder,
            points=self.points,
        ).to(placed(self.device))

    def losses(
        self, network: nn.Module, arrays: Mapping[str, Tensor], generator: torch.Generator | None
    ) -> dict[str, Tensor]:
        cloud = arrays[self.array]  # (rows, n, features)
        decoded, mean, variance = network(cloud, generator)
        distance = chamfer(decoded, cloud, distance=self.distance, chunk=self.chunk).mean()
        kl = kl_to_standard_normal(mean, variance).mean()
        return {"total": distance + self.kl_weight * kl, "chamfer": distance, "kl": kl}


class CloudNetwork(nn.Module):
    """Encoder, latent, decoder."""

    def __init__(
        self,
        *,
        features: int,
        encoder: Sequence[int],
        latent: int,
        decoder: Sequence[int],
        points: int,
    ) -> None:
        super().__init__()
        self.points, self.features = points, features
        self.on_points = perceptron([features, *encoder])
        self.mean = nn.Linear(encoder[-1], latent)
        self.variance = nn.Linear(encoder[-1], latent)
        self.template = nn.Parameter(torch.randn(points, features))
        self.decoder = perceptron([latent, *decoder, features * (1 + features + points)])

    def encode(self, cloud: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent, (rows, latent) each, of clouds (rows, n, features)."""
        pooled = self.on_points(cloud).amax(dim=1)
        variance = functional.softplus(self.variance(pooled)) + SMALLEST_VARIANCE
        return self.mean(pooled), variance

    def decode(self, latent: Tensor) -> Tensor:
        """Clouds (rows, points, features) of latents (rows, latent)."""
        f = self.features
        shift, matrix, displacement = self.decoder(latent).split([f, f * f, f * self.points], dim=1)
        matrix = matrix.reshape(-1, f, f) + START * torch.eye(f, device=latent.device)
        cloud: Tensor = (
            self.template @ matrix + shift.unsqueeze(1) + displacement.reshape(-1, self.points, f)
        )
        return cloud

    def forward(
        self, cloud: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Decoded clouds, and mean and variance of the latent. No generator: decodes the mean."""
        mean, variance = self.encode(cloud)
        if generator is None:
            return self.decode(mean), mean, variance
        noise = torch.randn(mean.shape, generator=generator, device=generator.device)
        latent = mean + variance.sqrt() * noise.to(mean.device)
        return self.decode(latent), mean, variance


def perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers from width to width, a SiLU between two of them."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.SiLU()]
    return nn.Sequential(*layers[:-1])


def placed(device: str) -> torch.device:
    """The torch device that a config names; "auto" is CUDA where there is one."""
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise ConfigError("device: wanted cuda, got a machine without it. Use device: auto or cpu.")
    return torch.device("cuda" if there and device != "cpu" else "cpu")
