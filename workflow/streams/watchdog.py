"""A deadline for a call into foreign code that cannot be interrupted.

ADIOS2's Open waits for ever when the writer is suspended, or speaks another version of the
protocol, and holds the interpreter lock: no signal handler and no thread of this process runs. The
only cure is from outside: a tiny child that, past the deadline, says why and kills its parent.
A receiver lives in its own process, so that its death is an event with a reason, not a hung run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

CHILD = """
import os, select, signal, sys
pid, seconds, words = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
ready, _, _ = select.select([sys.stdin], [], [], seconds)
if not ready and os.getppid() == pid:
    sys.stderr.write(words + "\\n")
    sys.stderr.flush()
    os.kill(pid, signal.SIGKILL)
"""


@contextmanager
def killed_after(seconds: float, *, words: str) -> Iterator[None]:
    """Run the body; if it is not done after so many seconds, print words and die of SIGKILL."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", CHILD, str(os.getpid()), str(seconds), words],
        stdin=subprocess.PIPE,
    )
    try:
        yield
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
