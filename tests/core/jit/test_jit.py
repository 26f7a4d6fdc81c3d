"""`jit`: calls, static and donated arguments, ahead-of-time stages, caches, errors."""

import copy
import functools
import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as tnp
from tilewright.core.jit.jit import Jit
from tilewright.core.support.errors import ArgumentError, ArgumentTypeError
from tilewright.xla_backend.arrays.array import Array, as_array
from tilewright.xla_backend.devices.aot_executable import Binary

X = np.arange(3, dtype=np.float32)


def counted(fun):
    """A function with the number of times that it was traced."""

    @functools.wraps(fun)
    def wrapper(*args, **kwargs):
        wrapper.traced += 1
        return fun(*args, **kwargs)

    wrapper.traced = 0
    return wrapper


@counted
def total(x, y):
    return x + 2 * y


@tw.jit
def module_level(x):
    """Twice."""
    return x + x


def test_one_trace_for_each_kind_of_arguments():
    f = tw.jit(fun := counted(lambda x, y: x + 2 * y))
    a = as_array(X)
    for _ in range(3):
        assert f(a, a).tolist() == [0, 3, 6]
        assert f(X, X).tolist() == [0, 3, 6]
        assert f(a, 1.0).tolist() == [2, 3, 4]
        assert f(a, y=a).tolist() == [0, 3, 6]
    assert fun.traced == 3  # arrays; a number; arrays, one by name
    assert f(as_array(np.int32(1)), 2).dtype == np.int32
    assert fun.traced == 4
    f.clear_cache()
    f(a, a)
    assert fun.traced == 5


def test_wrappers_of_one_function_share_what_is_traced():
    fun = counted(lambda x: x * x)
    for _ in range(3):
        tw.jit(fun)(as_array(X))
    assert fun.traced == 1


def test_any_number_of_arguments_after_specialising():
    f = tw.jit(lambda *xs: functools.reduce(lambda p, q: p + q, xs))
    a = as_array(X)
    for n in (2, 8, 1, 3, 2):
        for _ in range(2):
            assert f(*[a] * n).tolist() == (n * X).tolist()


def test_pytrees_in_and_out():
    f = tw.jit(lambda tree, scale: {"sum": tree["a"] + tree["b"][0] * scale, "same": tree["a"], "none": None, "n": 3})
    a = as_array(X)
    for _ in range(2):
        out = f({"a": a, "b": (a, a)}, 2)
        assert out["sum"].tolist() == (3 * X).tolist() and out["same"].tolist() == X.tolist()
        assert out["none"] is None and int(out["n"]) == 3 and out["n"].weak_type
    assert tw.jit(lambda: 1.0)() == 1.0
    assert tw.jit(lambda x: (x,))(a)[0].tolist() == X.tolist()
    assert tw.jit(lambda x: [x, x + 1])(a)[1].tolist() == [1, 2, 3]
    assert tw.jit(lambda x: ())(a) == ()


def test_behaves_as_the_function_it_wraps():
    assert module_level.__name__ == "module_level" and module_level.__doc__ == "Twice."
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert isinstance(module_level.__jit__, Jit)

    class Scaled:
        factor = 3

        @tw.jit
        def double(self):
            raise AssertionError("never traced")

        @functools.partial(tw.jit, static_argnums=0)
        def times(self, x):
            return x * self.factor

    scaled = Scaled()
    assert scaled.times(as_array(X)).tolist() == [0, 3, 6]
    assert tw.jit(scaled.times)(as_array(X)).tolist() == [0, 3, 6]


def test_static_arguments():
    fun = counted(lambda x, n, mode="up": x * n if mode == "up" else x - n)
    f = tw.jit(fun, static_argnums=1, static_argnames="mode")
    a = as_array(X)
    assert f(a, 2).tolist() == [0, 2, 4] and f(a, 2).tolist() == [0, 2, 4] and fun.traced == 1
    assert f(a, 2, mode="down").tolist() == [-2, -1, 0] and f(a, 3).tolist() == [0, 3, 6] and fun.traced == 3
    f(a, 2.0)
    assert fun.traced == 4  # 2 and 2.0 are equal and not the same
    by_number = tw.jit(lambda x, n: x * n, static_argnums=1)
    assert by_number(a, n=2).tolist() == [0, 2, 4]  # completed from the signature
    by_negative = tw.jit(lambda x, n: x * n, static_argnums=-1)
    assert by_negative(a, 2).tolist() == [0, 2, 4]


def test_bad_static_arguments():
    f = tw.jit(lambda x, shape: x, static_argnums=1)
    with pytest.raises(tw.errors.NonHashableStaticArgumentError, match=r"argument shape .*\[3\] of type list"):
        f(as_array(X), [3])
    with pytest.raises(tw.errors.ArgumentError, match="takes 1 positional"):
        tw.jit(lambda x: x, static_argnums=3)
    with pytest.raises(tw.errors.ArgumentError, match="'nothing'"):
        tw.jit(lambda x: x, static_argnames="nothing")


def test_arguments_that_are_not_arrays_are_named():
    f = tw.jit(lambda params, x: x)
    with pytest.raises(tw.errors.NonArrayArgumentError, match=r"argument params\['w'\]\[1\] of .*'text' of type str"):
        f({"w": [1.0, "text"]}, as_array(X))
    with pytest.raises(tw.errors.NonArrayArgumentError, match=r"a result of <lambda>"):
        tw.jit(lambda x: "text")(as_array(X))
    with pytest.raises(tw.errors.ArgumentTypeError, match="jit takes a function"):
        tw.jit(3)


def test_donation():
    f = tw.jit(lambda state, x: state + x, donate_argnums=0)
    state, x = as_array(X), as_array(X)
    pointer = state.unsafe_buffer_pointer()
    new = f(state, x)
    assert state.is_deleted() and not x.is_deleted() and new.tolist() == [0, 2, 4]
    assert new.unsafe_buffer_pointer() == pointer
    with pytest.raises(tw.errors.DeletedArrayError, match="argument 0 of <lambda>"):
        f(state, x)
    by_name = tw.jit(lambda *, state, x: state * x, donate_argnames="state")
    state = as_array(X)
    assert by_name(x=x, state=state).tolist() == [0, 1, 4] and state.is_deleted() and not x.is_deleted()
    tree = {"a": as_array(X), "b": as_array(X)}
    tw.jit(lambda t: {k: v + 1 for k, v in t.items()}, donate_argnums=0)(tree)
    assert tree["a"].is_deleted() and tree["b"].is_deleted()


def test_donation_in_vain_warns_and_deletes_nothing():
    x = as_array(X)
    with pytest.warns(UserWarning, match=r"f32\[3\]"):
        assert not tw.jit(lambda x: x > 0, donate_argnums=0)(x)[0]
    assert not x.is_deleted()


def test_results_that_are_arguments_are_not_copied():
    x = as_array(X)
    y, z = tw.jit(lambda x: (x, x + 1))(x)
    assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer() and z.tolist() == [1, 2, 3]


def test_unused_arguments_are_dropped():
    f = tw.jit(lambda x, y: x + 1)
    assert "main(%arg0: tensor<3xf32>)" in f.lower(X, X).as_text()
    assert f(as_array(X), as_array(X)).tolist() == [1, 2, 3]
    kept = tw.jit(lambda x, y: x + 1, keep_unused=True)
    assert "main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>)" in kept.lower(X, X).as_text()


def test_constants_are_arguments_of_the_module():
    table = as_array(np.arange(1000, dtype=np.float32))
    f = tw.jit(lambda x: x + table)
    assert f(table).tolist()[-1] == 1998
    text = f.lower(table).as_text()
    assert "dense" not in text and "%arg1: tensor<1000xf32>" in text


def test_ahead_of_time():
    f = tw.jit(lambda x, n: {"y": x * n}, static_argnames="n")
    traced = f.trace(tw.ShapeDtypeStruct((3,), "float32"), n=2)
    assert "mul" in str(traced.jaxpr) and traced.out_info["y"].shape == (3,)
    lowered = traced.lower()
    assert "stablehlo.multiply %arg0" in lowered.as_text() and "HloModule" in lowered.as_text("hlo")
    with pytest.raises(tw.errors.ArgumentError, match="llvm"):
        lowered.as_text("llvm")
    assert lowered.out_info["y"].dtype == np.float32
    compiled = lowered.compile()
    assert compiled(as_array(X))["y"].tolist() == [0, 2, 4] and compiled(X)["y"].tolist() == [0, 2, 4]
    assert "HloModule" in compiled.as_text() and compiled.cost_analysis()["flops"] >= 3
    assert compiled.memory_analysis().argument_size_in_bytes == 12
    with pytest.raises(tw.errors.ArgumentTypeError, match=r"f32\[3\], called with f32\[2\]"):
        compiled(X[:2])
    with pytest.raises(tw.errors.ArgumentTypeError, match="structure"):
        compiled(X, X)
    assert f.eval_shape(X, n=2)["y"].shape == (3,)


def test_every_stage_prints_as_text():
    for stage in ("program", "transformed", "kernels", "module", "executable"):
        text = str(tw.compile(lambda x: tnp.sin(x) * 2, tw.ShapeDtypeStruct((3,), "float32"), stop=stage))
        assert re.search(r"\bsin", text) and "object at" not in text, text
    lowered = tw.jit(tnp.sin).lower(1.0)
    assert str(lowered) == lowered.as_text()


def test_a_binary_prints_as_what_was_compiled():
    class Module:
        def to_string(self):
            return "HloModule optimised"

    class Executable:
        def hlo_modules(self):
            return [Module()]

    assert str(Binary("f", "tpu:v5e", "module @f", Executable())) == "HloModule optimised"
    assert str(Binary("f", "rocm:gfx942", "module @f", None)) == "module @f"
    assert repr(Binary("f", "tpu:v5e", "module @f", None)) == "<f compiled for tpu:v5e: 0 kernels>"


def test_compile_stops_at_every_stage():
    struct = tw.ShapeDtypeStruct((3,), "float32")
    assert "add" in str(tw.compile(lambda x: x + 1, struct, stop="program"))
    assert "stablehlo.add" in tw.compile(lambda x: x + 1, struct, stop="module")
    assert tw.compile(lambda x: x + 1, struct)(as_array(X)).tolist() == [1, 2, 3]
    for stop in ("transformed", "kernels"):
        assert "add" in str(tw.compile(lambda x: x + 1, struct, stop=stop))
    with pytest.raises(tw.errors.ArgumentError, match="no stage"):
        tw.compile(lambda x: x, struct, stop="here")
    with pytest.raises(tw.errors.ArgumentError, match="no target"):
        tw.compile(lambda x: x, struct, target="abacus")


def test_nested():
    inner = tw.jit(counted(lambda x: x * x))
    outer = tw.jit(lambda x: inner(x) + inner(x + 1))
    assert outer(as_array(X)).tolist() == [1, 5, 13]
    assert outer.lower(X).as_text().count("func.func private") == 1
    assert outer.lower(X).as_text().count("call @") == 2


def test_closures_over_traced_values():
    def outer(x):
        inner = tw.jit(lambda y: x * y)
        return inner(x) + inner(2.0 * x)

    assert tw.jit(outer)(as_array(X)).tolist() == (3 * X * X).tolist()
    assert tw.vmap(outer)(as_array(X)).tolist() == (3 * X * X).tolist()
    assert [float(tw.grad(outer)(v)) for v in (1.0, 2.0)] == [6.0, 12.0]


def test_under_transformations():
    f = tw.jit(lambda x, y: x * y)
    assert float(tw.grad(f)(3.0, 4.0)) == 4.0
    assert tw.vmap(f)(as_array(X), as_array(X)).tolist() == [0, 1, 4]
    assert tw.jit(tw.vmap(tw.grad(f)))(as_array(X), as_array(X)).tolist() == [0, 1, 2]
    value, tangent = tw.jvp(f, (2.0, 3.0), (1.0, 1.0))
    assert float(value) == 6.0 and float(tangent) == 5.0


def test_the_configuration_is_part_of_the_cache():
    fun = counted(lambda x: x + 1.0)
    f = tw.jit(fun)
    assert f(as_array(X)).dtype == np.float32
    with tw.config(enable_x64=True):
        assert f(as_array(np.arange(3.0))).dtype == np.float64
    assert f(as_array(X)).dtype == np.float32 and fun.traced == 2
    with tw.config(disable_jit=True):
        seen = []
        tw.jit(lambda x: seen.append(isinstance(x, Array)))(as_array(X))
        assert seen == [True]


def test_debug_nans_names_the_line():
    f = tw.jit(lambda x: (x - 1.0) / (x - x))
    assert not np.isfinite(np.asarray(f(as_array(X)))).any()
    with tw.config(debug_nans=True):
        with pytest.raises(tw.errors.NonFiniteError, match=r"div gave NaN") as caught:
            f(as_array(np.ones(3, np.float32)))
        assert "test_jit.py" in str(caught.value)
        with pytest.raises(FloatingPointError):
            _ = as_array(np.zeros(2, np.float32)) / as_array(np.zeros(2, np.float32))


def test_leaked_and_branched_on_values():
    kept = []
    tw.jit(lambda x: kept.append(x) or x)(as_array(X))
    with pytest.raises(tw.errors.LeakedTracerError):
        tw.jit(lambda x: x + 1)(kept[0])
    with pytest.raises(tw.errors.LeakedTracerError):
        _ = as_array(X) + kept[0]
    with pytest.raises(tw.errors.TracerBoolError, match="cond"):
        tw.jit(lambda x: 1 if x > 0 else 2)(1.0)


def test_one_trace_under_threads():
    f = tw.jit(lambda x, y: x + y)
    a = as_array(X)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: f(a, as_array(np.float32(i))).tolist(), range(50)))
    assert results == [(X + i).tolist() for i in range(50)]


def test_clear_caches():
    fun = counted(lambda x: x + 1)
    f = tw.jit(fun)
    f(as_array(X))
    tw.clear_caches()
    f(as_array(X))
    assert fun.traced == 2 and (as_array(X) + 1).tolist() == [1, 2, 3]


def test_no_warnings_in_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert total(as_array(X), 1.0).tolist() == [2, 3, 4]


def test_threads_that_call_a_new_function_at_once_compile_it_once():
    traced = []

    @tw.jit
    def f(x):
        traced.append(1)
        return x * 2 + 1

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: float(f(np.float32(i))), range(16)))
    assert results == [2.0 * i + 1 for i in range(16)]
    assert len(traced) == 1


def test_donated_numbers_are_nobody_elses():
    """Equal numbers share a buffer where nobody may delete it; those that are donated or held have their own."""
    f = tw.jit(lambda x: x + 1, donate_argnums=0)
    assert [float(f(4.25)), float(f(4.25)), float(tnp.asarray(4.25) + 0)] == [5.25, 5.25, 4.25]
    ahead = f.lower(4.25).compile()
    assert [float(ahead(4.25)), float(ahead(4.25))] == [5.25, 5.25]
    held = tw.device_put(4.25)
    tw.device_put(4.25).delete()
    f(tw.device_put(4.25))
    assert float(held) == 4.25 and float(tnp.ones(()) * 4.25) == 4.25


@pytest.mark.parametrize("place", [None, tw.P("x")], ids=["device", "mesh"])
def test_what_a_function_hands_on_survives_a_donation(place):
    """Results that are an argument, or an array that the function holds, share its buffer until one is donated."""
    sharding = None if place is None else tw.NamedSharding(tw.make_mesh((1,), ("x",)), place)
    make = functools.partial(tw.device_put, np.arange(3.0, dtype=np.float32), sharding)
    held, x = make(), make()
    give = tw.jit(lambda x: x + 1, donate_argnums=0)
    same = [tw.jit(lambda x: x)(x), tw.jit(lambda x: (x, x + 1))(x)[0], tw.jit(lambda: held)(), held]
    for y in (x, same[2]):
        assert give(y).tolist() == [1, 2, 3]
    assert [y.tolist() for y in same] == [[0, 1, 2]] * 4
    same[0].delete()
    assert same[0].is_deleted() and same[1].tolist() == [0, 1, 2]


def test_copies_have_a_buffer_of_their_own():
    x = tnp.arange(3.0)
    copies = [tw.vmap(tnp.copy)(x), tw.jvp(tnp.copy, (x,), (x,))[0], tnp.array(x), x.astype(x.dtype, copy=True)]
    tw.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert [c.tolist() for c in copies] == [[0, 1, 2]] * 4


def test_what_jit_cannot_take_is_told_at_once():
    def f(a, /, b, c, *rest, **more):
        return b

    def count(x):
        yield x

    for name in ("a", "rest"):
        with pytest.raises(ArgumentError, match=f"'{name}', which f does not take by name"):
            tw.jit(f, static_argnames=(name, "c"))
    tw.jit(f, donate_argnames=("c", "other"))
    with pytest.raises(ArgumentError, match="x is static and donated"):
        tw.jit(lambda x: x, static_argnames="x", donate_argnames="x")
    with pytest.raises(ArgumentTypeError, match="generator function"):
        tw.jit(count)
    with pytest.raises(ArgumentError, match="signature is not known"):
        tw.jit(max, donate_argnames="key")
    for wrong in (np.array(["a"]), np.array([object()]), np.zeros(2, "M8[D]"), np.zeros(2, [("a", "f4")])):
        with pytest.raises(ArgumentTypeError, match="is not an array of numbers"):
            tw.jit(lambda x: x)(wrong)
    with pytest.raises(ArgumentError, match="masked array"):
        tnp.add(1, np.ma.array([1, 2], mask=[True, False]))


def test_traced_values_are_copied_as_themselves():
    f = tw.jit(lambda x: copy.deepcopy({"a": copy.copy(x)})["a"] * 2)
    assert f(2.0) == 4 and tw.grad(f)(2.0) == 2 and tw.vmap(f)(tnp.arange(2.0)).tolist() == [0, 2]


def test_inlined_calls_leave_their_equations():
    f = tw.jit(lambda x: x * 2, inline=True)
    assert [e.primitive.name for e in tw.make_jaxpr(lambda x: f(x) + 1)(1.0).eqns] == ["mul", "add"]
    assert float(f(3.0)) == 6 and float(tw.grad(tw.jit(lambda x: f(x) * x))(3.0)) == 12


def test_a_sharding_on_the_device_that_runs_says_nothing():
    here = tw.sharding.SingleDeviceSharding(tw.devices()[0])
    f = tw.jit(lambda x: tw.lax.with_sharding_constraint(x, here) * 2, in_shardings=here, out_shardings=here)
    assert f(tnp.ones(2)).sharding == here and f.lower(tnp.ones(2)).compile()(tnp.ones(2)).tolist() == [2, 2]


def test_compiled_functions_tell_how_arrays_lie():
    here = tw.sharding.SingleDeviceSharding(tw.devices()[0])
    x = tnp.ones(4)
    plain = tw.jit(lambda a, *, b: (a + X.sum(), {"c": b})).lower(x, b=2.0).compile()
    assert plain.input_shardings == ((here,), {"b": here}) and plain.output_shardings == (here, {"c": here})
    there = tw.sharding.NamedSharding(tw.make_mesh((1,), ("x",)), tw.P("x"))
    placed = tw.jit(lambda a: a * 2, in_shardings=there, out_shardings=there).lower(x).compile()
    assert placed.input_shardings == ((there,), {}) and placed.output_shardings == placed(x).sharding == there


def test_functions_nested_140_deep():
    """Within Python's recursion limit of 1000, on a thread of its own: each level has six frames."""

    def nested(depth):
        return (lambda v: v * 2) if depth == 0 else lambda v: tw.jit(nested(depth - 1))(v) + 1

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: tw.jit(nested(140))(X).tolist()).result() == [140, 142, 144]
