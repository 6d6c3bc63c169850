"""Somebody else's simulation: a stream that the independent openPMD-api writes, learnt from."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("ray_session")

WRITER = """
import sys, time
import numpy as np
import openpmd_api as io

path, iterations, encoding, end = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
options = '''{"iteration_encoding": "%s", "adios2": {"engine": {"parameters":
  {"QueueLimit": "2", "RendezvousReaderCount": "2", "DataTransport": "WAN"}}}}''' % encoding
series = io.Series(path, io.Access.create_linear, options)
rng = np.random.default_rng(3)
n, boxes = 400, 2
for step in range(iterations):
    it = series.snapshots()[10 * step]
    it.time, it.dt, it.time_unit_SI = float(10 * step), 1.0, 1e-16
    e = it.particles["e"]
    for name in "xyz":
        p = e["momentum"][name]
        p.reset_dataset(io.Dataset(np.dtype("float32"), [n * boxes]))
        p.unit_SI = 2.7e-22
        for box in range(boxes):
            drift = (0.2, -0.2)[box] if name == "x" else 0.0
            p.store_chunk((drift + 0.02 * rng.normal(size=n)).astype("float32"), [n * box], [n])
        series.flush()
    w = e["weighting"]
    w.reset_dataset(io.Dataset(np.dtype("float32"), [n * boxes]))
    w.make_constant(1.0)
    m = e["mass"]
    m.reset_dataset(io.Dataset(np.dtype("float64"), [n * boxes]))
    m.make_constant(9.1093837e-31)
    it.close()
if end == "close":
    series.close()
else:
    import os
    os._exit(1)
"""

CONFIG = """
name: foreign
seed: 2
source:
  name: theirs
  contact: {contact}
  stream: {{engine: sst, open_deadline_s: 60}}
transforms:
  count: 2
  chain:
    - {{use: "transforms.subsample:Subsample", species: e, particles: 64}}
    - {{use: "transforms.phase_space:PhaseSpace", species: e, change: never}}
  normaliser:
    use: transforms.normalise:RunningNormaliser
    groups: {{particles: [[0, 1, 2]]}}
held_out: {{every: 4}}
replay: {{now: 4, reservoir: 20, rows: 4, batches_per_sample: 4}}
learners:
  count: 2
  model:
    use: learners.autoencoder:PointCloudVAE
    points: 64
    features: 3
    encoder: [16, 32]
    decoder: [32]
    latent: 8
  optimizer: {{use: "learners.optimizers:Adam", lr: 3.0e-3}}
"""


def start_writer(path, *, iterations, encoding, end):
    command = [sys.executable, "-c", WRITER, str(path), str(iterations), encoding, end]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("encoding", ["variable_based", "group_based"])
def test_a_run_learns_from_a_stream_that_another_code_writes(run_small, tmp_path, encoding):
    path = tmp_path / "theirs.sst"
    writer = start_writer(path, iterations=24, encoding=encoding, end="close")
    try:
        finished = run_small(inline=False, text=CONFIG.format(contact=path))
    finally:
        writer.kill()
        said, _ = writer.communicate()
    summary = finished.summary
    assert summary["status"] == "ended", said + finished.explain()
    assert summary["ledger_closed"], summary["ledger"]["open"]
    assert summary["frames_seen"] == 48
    assert summary["loss_last"] < 0.7 * summary["loss_first"]


def test_another_code_that_dies_is_not_an_end(run_small, tmp_path):
    path = tmp_path / "theirs.sst"
    writer = start_writer(path, iterations=12, encoding="variable_based", end="die")
    try:
        finished = run_small(inline=False, text=CONFIG.format(contact=path))
    finally:
        writer.kill()
        said, _ = writer.communicate()
    summary = finished.summary
    assert summary["status"] == "failed", said + finished.explain()
    assert summary["stream_state"] == "producer_lost"
    assert summary["ledger_closed"], summary["ledger"]["open"]
    assert 0 < summary["frames_seen"] <= 24
