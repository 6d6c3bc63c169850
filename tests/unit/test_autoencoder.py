"""The cloud autoencoder: its losses against answers by hand, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from learners.autoencoder import PointCloudVAE, placed
from learners.losses import Distance, chamfer, kl_to_standard_normal, nearest
from workflow.errors import ConfigError


@pytest.fixture(autouse=True)
def one_thread():
    """The tensors here are too small to share, and cores may be busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def clouds(rows, points, features=6, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, points, features, generator=generator, dtype=dtype)


def counter_streams(rows, points, seed):
    """Clouds that drift along +x or -x, of several temperatures: (rows, points, 6)."""
    rng = np.random.default_rng(seed)
    cloud = rng.standard_normal((rows, points, 6)) * rng.uniform(0.1, 0.7, (rows, 1, 1))
    cloud[:, :, 0] += 1.7 * rng.choice([-1, 1], (rows, 1))
    return torch.tensor(cloud, dtype=torch.float32)


def test_chamfer_by_hand():
    a = torch.tensor([[[0.0, 0.0], [3.0, 4.0]]])
    b = torch.tensor([[[0.0, 0.0]]])
    assert chamfer(a, b, distance=Distance.EUCLIDEAN, chunk=8).tolist() == [2.5]
    assert chamfer(a, b, distance=Distance.SQUARED, chunk=8).tolist() == [12.5]
    assert chamfer(b, a, distance=Distance.SQUARED, chunk=8).tolist() == [12.5]


@pytest.mark.parametrize("distance", list(Distance))
def test_chamfer_is_the_full_matrix_of_distances(distance):
    a, b = clouds(3, 40, seed=1), clouds(3, 25, seed=2)
    power = 2 if distance is Distance.SQUARED else 1
    every = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist") ** power
    wanted = every.amin(dim=2).mean(dim=1) + every.amin(dim=1).mean(dim=1)
    assert torch.allclose(chamfer(a, b, distance=distance, chunk=64), wanted, rtol=1e-5)


@pytest.mark.parametrize("chunk", [1, 7, 40, 1000])
def test_the_chunk_changes_memory_and_not_the_neighbours(chunk):
    a, b = clouds(3, 40, seed=1), clouds(3, 25, seed=2)
    for part, whole in zip(nearest(a, b, chunk=chunk), nearest(a, b, chunk=40), strict=True):
        assert torch.equal(part, whole)


def test_neighbours_are_found_far_from_the_origin():
    offset = 100 + 0.01 * clouds(2, 50)
    assert torch.equal(nearest(offset, offset, chunk=16)[0], torch.arange(50).expand(2, -1))


@pytest.mark.parametrize("distance", list(Distance))
def test_the_gradient_of_chamfer_is_that_of_finite_differences(distance):
    a = clouds(2, 6, 3, seed=3, dtype=torch.float64).requires_grad_()
    b = clouds(2, 5, 3, seed=4, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: chamfer(a, b, distance=distance, chunk=4), (a, b))


def test_equal_clouds_are_at_distance_zero_with_a_finite_gradient():
    a = clouds(2, 30).requires_grad_()
    distance = chamfer(a, a.detach()[:, torch.randperm(30)], distance=Distance.EUCLIDEAN, chunk=8)
    distance.sum().backward()
    assert distance.tolist() == [0.0, 0.0]
    assert torch.isfinite(a.grad).all()


def test_kl_against_torch():
    mean, variance = clouds(1, 4, 5)[0], clouds(1, 4, 5, seed=1)[0].square() + 0.1
    ours = torch.distributions.Normal(mean, variance.sqrt())
    unit = torch.distributions.Normal(torch.zeros(5), torch.ones(5))
    wanted = torch.distributions.kl_divergence(ours, unit).sum(dim=1)
    assert torch.allclose(kl_to_standard_normal(mean, variance), wanted, rtol=1e-4)


def test_the_order_of_particles_does_not_matter():
    model = PointCloudVAE(device="cpu")
    network = model.build()
    cloud = clouds(3, 64)
    mean, variance = network.encode(cloud)
    mixed = network.encode(cloud[:, torch.randperm(64)])
    assert torch.allclose(mean, mixed[0], atol=1e-5)
    assert torch.allclose(variance, mixed[1], atol=1e-5)
    assert (variance > 0).all()


def test_the_size_follows_the_config():
    model = PointCloudVAE(
        features=3, encoder=(8, 16), latent=4, decoder=(12, 10), points=20, device="cpu"
    )
    network = model.build()
    decoded, mean, _ = network(clouds(5, 33, 3), None)
    assert decoded.shape == (5, 20, 3)
    assert mean.shape == (5, 4)
    assert model.needs() == {"particles": (None, 3)}
    default = sum(p.numel() for p in PointCloudVAE(device="cpu").build().parameters())
    assert 50_000 < default < 120_000


def test_total_is_chamfer_and_weighted_kl():
    model = PointCloudVAE(kl_weight=0.5, device="cpu")
    terms = model.losses(model.build(), {"particles": clouds(2, 50)}, None)
    assert torch.isclose(terms["total"], terms["chamfer"] + 0.5 * terms["kl"])


def test_it_learns_more_than_the_best_cloud_that_is_the_same_for_all():
    torch.manual_seed(1)
    model = PointCloudVAE(encoder=(32, 64), points=64, device="cpu")
    network = model.build()
    same = torch.nn.Parameter(counter_streams(64, 64, seed=4)[:, 0].clone())
    optimizers = [torch.optim.Adam(network.parameters(), 3e-3), torch.optim.Adam([same], 3e-2)]
    generator = torch.Generator().manual_seed(0)
    held_out = {"particles": counter_streams(32, 64, seed=99)}

    def distance_of_same(cloud):
        fixed = same.expand(len(cloud), -1, -1)
        return chamfer(fixed, cloud, distance=Distance.EUCLIDEAN, chunk=64).mean()

    with torch.no_grad():
        first = model.losses(network, held_out, None)["chamfer"].item()
    for step in range(150):
        cloud = counter_streams(8, 64, seed=step)
        losses = [
            model.losses(network, {"particles": cloud}, generator)["total"],
            distance_of_same(cloud),
        ]
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        last = model.losses(network, held_out, None)["chamfer"].item()
        constant = distance_of_same(held_out["particles"]).item()
    assert last < 0.5 * first
    assert last < 0.8 * constant


def test_a_model_without_layers_or_with_a_negative_weight_is_refused():
    with pytest.raises(ConfigError, match="encoder widths"):
        PointCloudVAE(encoder=())
    with pytest.raises(ConfigError, match="kl_weight"):
        PointCloudVAE(kl_weight=-1.0)


def test_the_device_is_the_one_asked_for():
    assert placed("cpu").type == "cpu"
    if torch.cuda.is_available():
        assert placed("auto").type == placed("cuda").type == "cuda"
    else:
        assert placed("auto").type == "cpu"
        with pytest.raises(ConfigError, match="cuda"):
            placed("cuda")
