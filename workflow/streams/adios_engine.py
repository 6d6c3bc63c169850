"""ADIOS2, imported without PyTorch.

adios2 imports torch where it is installed, for arrays that we never give it: half a second and some
200 MiB in every process that opens a stream, and a slow exit. A missing torch is fine with it.
"""

from __future__ import annotations

import sys
from typing import Any, cast


def _without_torch() -> tuple[Any, Any]:
    hidden = "torch" not in sys.modules
    if hidden:
        cast(dict[str, Any], sys.modules)["torch"] = None  # an import of it now fails
    try:
        import adios2
        import adios2.bindings
    finally:
        if hidden:
            del sys.modules["torch"]
    return adios2, adios2.bindings


adios2, engine_room = _without_torch()
