"""Tests of the adapters in this process, where the package is not installed under the name jax."""

import pytest

from tilewright.as_jax import aliases


@pytest.fixture(autouse=True, scope="module")
def names_of_jaxprs():
    aliases.add()
    yield
    aliases.remove()
