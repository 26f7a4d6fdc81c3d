"""`python -m tilewright.as_jax`: run a script, a module or a line of Python with this package as jax."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from .install import install

USAGE = """usage: python -m tilewright.as_jax SCRIPT [ARGUMENT ...]
       python -m tilewright.as_jax -m MODULE [ARGUMENT ...]
       python -m tilewright.as_jax -c CODE [ARGUMENT ...]
"""


def main(arguments: Sequence[str]) -> int:
    """Install the package as jax and run what the arguments say, as Python itself would."""
    if not arguments or arguments[0] in ("-h", "--help") or (arguments[0] in ("-m", "-c") and len(arguments) < 2):
        sys.stderr.write(USAGE)
        return 2
    install()
    first, *rest = arguments
    if first == "-m":
        sys.argv = rest
        sys.path.insert(0, "")
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [first, *rest]
        sys.path.insert(0, str(Path(first).resolve().parent))
        runpy.run_path(first, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
