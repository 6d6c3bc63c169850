"""What every model promises a learner, present and future."""

from __future__ import annotations

import pickle

import pytest
import torch

from learners.autoencoder import PointCloudVAE
from learners.losses import Distance

SMALL = {"encoder": (8, 16), "latent": 4, "decoder": (8,), "points": 16, "device": "cpu"}
MODELS = [
    PointCloudVAE(device="cpu"),
    PointCloudVAE(**SMALL),
    PointCloudVAE(**SMALL, distance=Distance.SQUARED, chunk=5),
    PointCloudVAE(**SMALL, array="cloud", features=3),
]


@pytest.fixture(params=MODELS, ids=repr)
def model(request):
    return request.param


def arrays(model, rows=3, free=20):
    """Arrays as the model needs them; `free` wherever any size will do."""
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(rows, *[free if n is None else n for n in shape], generator=generator)
        for name, shape in model.needs().items()
    }


def built(model, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model.build()


def gradients(model, noise):
    network = built(model)
    terms = model.losses(network, arrays(model), torch.Generator().manual_seed(noise))
    terms["total"].backward()
    return network


def test_weights_come_from_torchs_generator(model):
    one, same, other = (built(model, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_losses_are_scalars_and_total_is_among_them(model):
    terms = model.losses(built(model), arrays(model), None)
    assert "total" in terms
    assert all(term.shape == () and torch.isfinite(term) for term in terms.values())


def test_every_parameter_has_a_finite_gradient(model):
    for name, parameter in gradients(model, noise=2).named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_the_same_generator_gives_the_same_bits(model):
    one, same = (list(gradients(model, noise=2).parameters()) for _ in range(2))
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(one, same, strict=True))


def test_without_a_generator_nothing_is_drawn(model):
    network = built(model)
    state = torch.random.get_rng_state()
    first = model.losses(network, arrays(model), None)
    again = model.losses(network, arrays(model), None)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_losses_are_means_over_rows(model):
    network, whole = built(model), arrays(model)
    rows = [
        model.losses(network, {k: v[i : i + 1] for k, v in whole.items()}, None) for i in range(3)
    ]
    for name, term in model.losses(network, whole, None).items():
        assert torch.isclose(term, torch.stack([row[name] for row in rows]).mean(), rtol=1e-4), name


def test_a_model_travels_and_compares(model):
    assert pickle.loads(pickle.dumps(model)) == model
