"""Options of jax as functions of `jax`: taken where they say what holds here, refused where they ask for another."""

from tests.as_jax.own_process import check


def test_options_hold_within_a_block_and_are_checked():
    check("""
import jax
with jax.legacy_prng_key("allow"), jax.auto_pcast(False):
    assert jax.config.jax_auto_pcast is False
assert jax.config.jax_auto_pcast is True
try:
    with jax.softmax_custom_jvp(False):
        raise AssertionError
except jax.errors.ConfigError as error:
    assert "softmax_custom_jvp" in str(error)
""")
