"""The producer's process, seen from the run: started, watched, restarted, stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

STOP_S = 10.0  # a producer that was asked to stop and is not gone by then is killed


class ProducerProcess:
    """One epoch of a producer: a new process and a new stream path each time it is started."""

    def __init__(self, folder: Path, *, engine: str, readers: int) -> None:
        self._folder, self._readers = folder, readers
        self._suffix = "sst" if engine == "sst" else "bp5"
        self._process: subprocess.Popen[bytes] | None = None
        self.epoch = 0

    @property
    def path(self) -> Path:
        """Where the stream of this epoch is found: never the path of an earlier one."""
        return self._folder / "stream" / f"epoch-{self.epoch}.{self._suffix}"

    @property
    def log(self) -> Path:
        return self._folder / "logs" / f"producer-{self.epoch}.log"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the next epoch."""
        self.epoch += 1
        for made in (self.path.parent, self.log.parent):
            made.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "workflow.produce", str(self._folder)]
        command += ["--epoch", str(self.epoch), "--stream", str(self.path)]
        command += ["--readers", str(self._readers)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the run, which then stops it in order
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )  # fmt: skip

    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.poll() if self._process else None

    def wait_gone(self, at_most_s: float) -> None:
        """Give it a moment to be gone."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(at_most_s)

    def last_words(self) -> str:
        """The end of its log, for an error message."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def stop(self) -> None:
        """Ask for a clean end; insist after a while."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
