"""What tests of whole runs share: one Ray for the session, and a small real workflow."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from workflow.config import Config, read_config
from workflow.folder import describe_run, make_run_folder
from workflow.journal import read_journal
from workflow.plan import plan
from workflow.run import Run

SMALL = """
name: small
seed: 5
source:
  name: khi
  producer:
    use: producers.khi:KelvinHelmholtz
    grid: [16, 32]
    particles_per_cell: 4
    start: random
    shape: cic
    ranks: 2
    first_step: 10
    last_step: 68
    period: 2
    momentum_prev: true
transforms:
  count: 2
  chain:
    - {use: "transforms.subsample:Subsample", species: e, particles: 64}
    - {use: "transforms.phase_space:PhaseSpace", species: e, change: always}
  normaliser:
    use: transforms.normalise:RunningNormaliser
    groups: {particles: [[0, 1, 2], [3, 4, 5]]}
held_out: {every: 5, evaluate_every: 10}
replay: {now: 4, reservoir: 20, rows: 4, batches_per_sample: 2}
learners:
  count: 2
  model:
    use: learners.autoencoder:PointCloudVAE
    points: 64
    features: 6
    encoder: [16, 32]
    decoder: [32]
    latent: 8
  optimizer: {use: "learners.optimizers:Adam", lr: 2.0e-3}
reducer: {rule: mean, quorum: 0.5, deadline_s: 60}
"""


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """Ray, started once; runs join it."""
    import ray

    from workflow.cluster import start_ray

    start_ray(None, 256)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def picongpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with real PIConGPU output, unpacked; to be read only."""
    folder = tmp_path_factory.mktemp("picongpu")
    for archive in sorted((Path(__file__).parent / "data").glob("*.tar.xz")):
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    return folder


@pytest.fixture
def small_yaml() -> str:
    """The config of the small workflow."""
    return SMALL


class Finished:
    """A run that is over."""

    def __init__(self, folder: Path, summary: Mapping[str, Any], run: Run) -> None:
        self.folder, self.summary, self.run = folder, summary, run

    def events(self, name: str) -> list[dict[str, Any]]:
        """Events of one kind from the whole journal."""
        return [e for e in read_journal(self.folder) if e["event"] == name]

    def explain(self) -> str:
        """What a failed assertion should show."""
        logs = sorted((self.folder / "logs").glob("*.log"))
        words = [log.read_text()[-2000:] for log in logs]
        return json.dumps(self.summary, indent=1)[:4000] + "\n".join(words)


def small_config(tmp_path: Path, *overrides: str, text: str = SMALL) -> Config:
    path = tmp_path / "small.yaml"
    path.write_text(text)
    yaml.safe_load(text)
    return read_config(path, list(overrides))


@pytest.fixture
def run_small(tmp_path: Path) -> Any:
    """Run the small workflow to its end: run_small("key=value", ..., inline=True)."""

    def _run(*overrides: str, inline: bool, text: str = SMALL, name: str = "run") -> Finished:
        built = plan(small_config(tmp_path, *overrides, text=text))
        folder = make_run_folder(tmp_path / name, "small")
        describe_run(folder, built, inline=inline, command=["test"])
        run = Run(built, folder, inline=inline)
        return Finished(folder, run.go(), run)

    return _run
