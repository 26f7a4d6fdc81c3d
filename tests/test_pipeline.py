"""The walk from a function to something that runs: rules, passes, their levels and their reports."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as tnp


@pytest.mark.parametrize("name", ["neg", "add", "dot_general", "scan", "kernel_call"])
def test_rules_are_those_of_the_primitive_and_not_of_its_name(name: str) -> None:
    """A primitive of a user's own may have any name."""
    own = tw.Primitive(name, typing=lambda x: x, expand=lambda x: x * 3)
    np.testing.assert_array_equal(np.asarray(own.bind(tnp.float32(2))), 6)
    np.testing.assert_array_equal(np.asarray(tw.jit(own.bind)(np.float32(2))), 6)
