"""The load generator's ranks in processes of their own, over SST, to readers in this one."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stream_kit as kit

from producers.flow import Motion, VortexFlow
from workflow import streams
from workflow.types import Hosting, StreamState

ROOT = Path(__file__).parents[2]
WRITER = """
import sys
sys.path[:0] = ["tests", "tests/integration"]
import test_flow_stream as here
from workflow import streams
from workflow.types import Hosting
producer = here.generator(sys.argv[2])
iterations = producer.iterations(9, hosting=Hosting.PROCESSES)
frames = next(iterations)  # ranks start before the stream has threads of its own
with streams.open_writer("sst", sys.argv[1], producer.series()) as writer:
    while frames is not None:
        writer.put(frames)
        frames = next(iterations, None)
"""


def generator(motion):
    return VortexFlow(
        grid=(24, 48), rows=4, ranks=3, waves=2, last_step=6, period=2, momentum_prev=True,
        motion=Motion(motion),
    )  # fmt: skip


@pytest.mark.parametrize("motion", ["vortex", "frozen"])
def test_what_a_reader_gets_is_what_one_thread_computes(tmp_path, motion):
    path = tmp_path / "flow"
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), motion], cwd=ROOT)
    reader = streams.open_reader("sst", path, name="flow")
    seen = kit.collect(reader)
    reader.close()
    assert process.wait(kit.PATIENCE_S) == 0
    assert reader.state() is StreamState.ENDED
    producer = generator(motion)
    assert [iteration for iteration, *_ in seen] == list(producer.outputs)
    for (_, offers, boxes, got), wanted in zip(
        seen, producer.iterations(9, hosting=Hosting.INLINE), strict=True
    ):
        assert set(offers) == set(producer.offers())
        assert [(b.offset, b.extent) for b in boxes] == [
            (f.box.offset, f.box.extent) for f in wanted
        ]
        for frame, own in zip(got, wanted, strict=True):
            kit.assert_equal_frames(frame, own, producer.series())
            assert np.all(frame.arrays["e/positionOffset/y"] >= own.box.offset[1])
