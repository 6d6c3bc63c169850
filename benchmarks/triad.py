"""Time what memory gives: a[i] += s b[i], which moves three numbers, and no others, per element.

    python -m benchmarks.triad --mib 1024 --threads 2

STREAM's triad writes to a third array, whose lines are read before they are written on most
processors and are not counted; updating in place leaves nothing uncounted. A particle step updates
in place, too: see `bound`.
"""

import argparse
import json
import time

from benchmarks.peers import case

LASTING_S = 1.0
SCALE = 1e-3


def bound(*, dtype: str, gb_per_s: float) -> float:
    """The least ns for one particle-step: x, y, ux, uy, uz read and written once, from memory."""
    itemsize = {"float32": 4, "float64": 8}[dtype]
    return 2 * 5 * itemsize / gb_per_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="both arrays together")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    case.hold_threads(options.threads)

    import numba
    import numpy as np

    @numba.njit(parallel=True)
    def triad(a, b):
        for i in numba.prange(len(a)):
            a[i] += SCALE * b[i]

    a, b = np.ones((2, options.mib * 2**20 // 16))
    triad(a, b)
    seconds = []  # of one pass each: the fastest is what memory can do, crowded machine or not
    while sum(seconds) < LASTING_S:
        began = time.perf_counter()
        triad(a, b)
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"gb_per_s": 1e-9 * 24 * len(a) / min(seconds), **vars(options)}))


if __name__ == "__main__":
    main()
