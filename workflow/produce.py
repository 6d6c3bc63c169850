"""The process that a producer lives in.

    python -m workflow.produce RUNFOLDER --epoch N --stream PATH --readers COUNT

Publishes every iteration on the stream and writes each to its journal once the stream has it. Ends
the stream only when the simulation is done: after any failure the process is gone without a
goodbye, so that readers see a broken stream and never an end.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from workflow import plugins, streams
from workflow.config import read_config
from workflow.errors import BillowError
from workflow.graph import process_facts
from workflow.journal import Journal
from workflow.protocols import Producer
from workflow.types import Hosting

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a producer to its end; never returns."""
    parser = argparse.ArgumentParser(prog="workflow.produce", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--stream", type=Path, required=True)
    parser.add_argument("--readers", type=int, required=True)
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    _end_with_parent()
    code = 3
    try:
        with Journal(
            options.folder / "journal" / f"producer-{options.epoch}.jsonl", source="producer"
        ) as journal:
            code = _produce(options, journal)
    except BillowError as e:
        log.error("%s: %s", type(e).__name__, e)
    except Exception:  # of a plug-in, whatever it is: told whole, and never a success
        log.exception("the producer failed")
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # no destructor may say goodbye on the stream in our place


def _produce(options: argparse.Namespace, journal: Journal) -> int:
    config = read_config(options.folder / "config.yaml")
    assert config.source.producer is not None
    producer: Producer = plugins.build(config.source.producer, "source.producer")
    iterations = producer.iterations(config.seed, hosting=Hosting.PROCESSES)
    frames = next(iterations, None)  # ranks start before the stream has threads of its own
    ranks = list(getattr(iterations, "pids", ()))
    journal.write("producer/start", pid=os.getpid(), ranks=ranks, epoch=options.epoch)
    writer = streams.open_writer(
        config.source.stream.engine,
        options.stream,
        producer.series(),
        parameters={
            **config.source.stream.parameters,
            "RendezvousReaderCount": str(options.readers),
        }
        if config.source.stream.engine == "sst"
        else config.source.stream.parameters,
        encoding=config.source.stream.encoding,
    )
    stop = _StopRequest()
    began = time.monotonic()
    while frames is not None and not stop.asked:
        writer.put(frames)
        journal.write(
            "producer/iteration",
            step=frames[0].iteration,
            value=len(frames),
            boxes=[frame.box.index for frame in frames],
            time_s=frames[0].time_s,
            blocked_s=writer.stats().get("blocked_s", 0.0),
            bytes=writer.stats().get("bytes", 0),
            wall_s=time.monotonic() - began,
        )
        frames = next(iterations, None)
    writer.close()
    getattr(iterations, "close", lambda: None)()  # ranks on other hosts are told
    journal.write(
        "producer/end",
        value="stopped" if stop.asked else "ended",
        wall_s=time.monotonic() - began,
        peak_bytes=process_facts()["peak_bytes"],
        peak_bytes_rank=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
        **{k: v for k, v in writer.stats().items() if k != "wall_s"},
    )
    return 0


class _StopRequest:
    """SIGTERM and SIGINT ask for a clean end after the iteration that is under way."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def _end_with_parent() -> None:
    """Die when the run does: a producer without a run would wait for readers for ever."""
    parent = os.getppid()
    try:
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, Linux only
    except (OSError, AttributeError):
        log.info("this system cannot tie the producer's life to the run's")
    if os.getppid() != parent:
        os._exit(3)


if __name__ == "__main__":
    main()
