"""Settings by JAX's names, from JAX's variables, and those that refuse something; what depends on them."""

import warnings

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as tnp
from tilewright.core.support.config import FALLBACKS, OPTIONS, from_environment
from tilewright.core.support.jax_options import FIXED, UNUSED
from tilewright.core.support.settings import ROWS
from tilewright.experimental.compilation_cache import compilation_cache


def test_options_are_settings_by_another_name():
    assert tw.config.jax_enable_x64 is False and tw.config.jax_default_prng_impl == "threefry2x32"
    with tw.config():
        tw.config.update("jax_enable_checks", False)
        assert not tw.config.debug_checks and not tw.config.jax_enable_checks
        tw.config.update("jax_enable_checks", True)
        tw.config.jax_compilation_cache_dir = "/somewhere"
        assert tw.config.cache_dir == "/somewhere"
        tw.config.update("cache_dir", None)
    with tw.enable_checks(False):
        assert not tw.config.debug_checks


@pytest.mark.parametrize("name", FIXED)
def test_an_option_that_cannot_change_says_why(name):
    value, reason = FIXED[name]
    assert getattr(tw.config, f"jax_{name}") == value
    tw.config.update(f"jax_{name}", value)
    with pytest.raises(tw.errors.ConfigError) as caught:
        tw.config.update(f"jax_{name}", "something else")
    assert reason in str(caught.value)


def test_options_that_change_nothing_are_kept():
    before = tw.config.jax_persistent_cache_min_compile_time_secs
    tw.config.update("jax_persistent_cache_min_compile_time_secs", 2.0)
    assert tw.config.jax_persistent_cache_min_compile_time_secs == 2.0
    tw.config.update("jax_persistent_cache_min_compile_time_secs", before)
    with pytest.raises(tw.errors.ConfigError, match="no configuration named"):
        tw.config.update("jax_no_such_option", 1)
    with pytest.raises(AttributeError):
        _ = tw.config.jax_no_such_option


def test_each_option_is_in_one_table():
    tables = [{*ROWS, *OPTIONS}, set(FIXED), set(UNUSED)]
    assert sum(map(len, tables)) == len(set().union(*tables))
    assert sum(len(row.jax.split()) for row in ROWS.values()) == len(OPTIONS), "an option is two settings"
    assert all(row.default in row.choices for row in ROWS.values() if row.choices)


def test_variables_of_jax_are_fallbacks():
    found = from_environment({"JAX_ENABLE_X64": "true", "JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": "/there"})
    assert found.enable_x64 and found.platforms == "cpu" and found.cache_dir == "/there"
    assert not from_environment({"JAX_ENABLE_X64": "1", "TILEWRIGHT_ENABLE_X64": "0"}).enable_x64
    assert from_environment({"JAX_DEFAULT_PRNG_IMPL": "rbg"}).default_prng_impl == "rbg"
    with pytest.raises(tw.errors.ConfigError, match="JAX_DEBUG_NANS='maybe'"):
        from_environment({"JAX_DEBUG_NANS": "maybe"})
    with pytest.raises(tw.errors.ConfigError):
        from_environment({"JAX_NUMPY_RANK_PROMOTION": "sometimes"})
    assert all(variable.startswith("JAX_") for variable in FALLBACKS)


def test_tracing_can_be_refused():
    f = tw.jit(lambda x: x + 1)
    with tw.no_tracing():
        with pytest.raises(TypeError, match="would be traced for \\(f32\\[2\\]\\)"):
            f(tnp.ones(2))


def test_transfers_can_be_refused():
    f = tw.jit(lambda x, y: x + y)
    host, device = np.ones(2, np.float32), tnp.ones(2)
    with tw.transfer_guard("disallow"):
        assert tw.device_get(f(device, device)).tolist() == tw.device_get(f(device, 1.0)).tolist() == [2, 2]
        with pytest.raises(tw.errors.JaxRuntimeError, match="an argument of .* is a NumPy array"):
            f(device, host)
    with tw.transfer_guard("log"), pytest.warns(UserWarning, match="device_put"):
        f(device, host)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(device, host)


def test_platforms_are_chosen_before_the_first_computation():
    tnp.ones(1)
    with pytest.raises(tw.errors.ConfigError, match="after the first computation"):
        tw.config.update("jax_platforms", "tpu")
    tw.config.update("jax_platforms", tw.config.jax_platforms)


def test_the_folder_of_programs_by_functions(tmp_path):

    with tw.config():
        before = tw.config.cache_dir
        compilation_cache.set_cache_dir(tmp_path)
        assert tw.config.cache_dir == str(tmp_path)
        compilation_cache.reset_cache()
        tw.config.update("cache_dir", before)
    assert tw.lax.with_sharding_constraint is tw.sharding.with_sharding_constraint


def test_flags_of_the_command_line_are_settings(monkeypatch):
    flags = pytest.importorskip("absl.flags")
    monkeypatch.setattr(flags, "FLAGS", flags.FlagValues())
    line = ["program", "--jax_numpy_rank_promotion=raise", "--jax_debug_nans", "--other", "--", "--jax_debug_infs"]
    monkeypatch.setattr("sys.argv", line)
    with tw.config():
        kept = (tw.config.numpy_rank_promotion, tw.config.debug_nans)
        try:
            tw.config.parse_flags_with_absl()
            assert tw.config.numpy_rank_promotion == "raise" and tw.config.debug_nans and not tw.config.debug_infs
            assert flags.FLAGS.is_parsed()
            tw.config.update("debug_nans", False)
            tw.config.parse_flags_with_absl()  # again: nothing
            assert not tw.config.debug_nans
        finally:
            tw.config.update("numpy_rank_promotion", kept[0])
            tw.config.update("debug_nans", kept[1])


def test_the_dtype_that_a_dtype_or_a_type_names():
    for spelling in (2.0, tnp.ones(3), float, np.float64, np.dtype("float64"), "float64", tnp.float32):
        assert tw.lax.dtype(spelling) == np.float32
    with tw.enable_x64(True):
        assert tw.lax.dtype(np.dtype("int64")) == np.int64
