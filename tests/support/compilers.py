"""The compilers for devices are extras: what needs one is skipped where it is not installed."""

from importlib.util import find_spec

import pytest

COMPILERS = {"cuda": "triton", "rocm": "triton", "tpu": "libtpu"}


def installed(target: str) -> bool:
    """Whether the compiler of kernels for a target is here."""
    return find_spec(COMPILERS[target.split(":")[0]]) is not None


def needs(target: str) -> None:
    """Skips the test that runs where kernels for a target cannot be compiled."""
    if not installed(target):
        pytest.skip(f"kernels for {target} are compiled by {COMPILERS[target.split(':')[0]]}, which is not installed")
