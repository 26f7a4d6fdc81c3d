"""The namespaces of questions and checks: dtypes, errors, trees, stages, what is stored, checks of derivatives."""

import collections
import dataclasses
import functools

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.experimental import xla_metadata

ALIASES = {  # JAX's class of error, what it has to be caught as, and code that raises it
    "TracerBoolConversionError": (("ConcretizationTypeError", "JAXTypeError"), lambda x: 1 if x else 2),
    "TracerArrayConversionError": (("JAXTypeError",), np.asarray),
    "TracerIntegerConversionError": (("JAXTypeError",), lambda x: [1, 2][x]),
    "ConcretizationTypeError": (("JAXTypeError",), float),
    "NonConcreteBooleanIndexError": (("JAXIndexError",), lambda x: tnp.arange(2)[tnp.stack([x > 0, x > 1])]),
}


def test_an_unknown_name_is_looked_for_in_the_namespaces():
    with pytest.raises(AttributeError, match=r"'kernel_call': use tilewright\.lang\.kernel_call$"):
        tw.kernel_call  # noqa: B018
    with pytest.raises(AttributeError, match="'no_such_name'$"):
        tw.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", ALIASES)
def test_an_error_is_caught_by_the_other_library_name(name):
    above, code = ALIASES[name]
    with pytest.raises(getattr(tw.errors, name)) as caught:
        tw.make_jaxpr(code)(1)
    assert all(isinstance(caught.value, getattr(tw.errors, other)) for other in above)


def test_an_operation_without_a_derivative_raises_what_is_expected_of_one():
    def f(x):
        return tw.pure_callback(np.sin, tw.ShapeDtypeStruct((), "float32"), x)

    for kind in (NotImplementedError, TypeError, ValueError, tw.errors.DifferentiationError):
        with pytest.raises(kind):
            tw.grad(f)(1.0)


def test_a_leaked_value_is_an_unexpected_tracer():
    kept = []
    tw.make_jaxpr(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(tw.errors.UnexpectedTracerError):
        tw.jit(lambda y: y + kept[0])(1.0)
    with pytest.raises(tw.errors.JAXTypeError):
        tw.jit(lambda y: y + kept[0])(1.0)


def test_keys_have_a_dtype_of_their_own_kind():
    dtype = tw.random.key(0).dtype
    kinds = (tw.dtypes.prng_key, tw.dtypes.extended, np.generic, np.floating, np.integer, np.float32)
    for issubdtype in (tw.dtypes.issubdtype, tnp.issubdtype):
        assert [issubdtype(dtype, kind) for kind in kinds] == [True, True, True, False, False, False]
        assert not issubdtype(np.float32, tw.dtypes.prng_key) and not issubdtype(np.float32, dtype)
        assert issubdtype(dtype, dtype)


def test_dtypes_by_bits_and_python_types():
    assert [tw.dtypes.itemsize_bits(d) for d in ("int4", "uint2", "bfloat16", "complex64")] == [4, 2, 16, 64]
    assert [tw.dtypes.scalar_type_of(x) for x in (True, np.uint8(1), "bfloat16", 1j)] == [bool, int, float, complex]
    with pytest.raises(tw.errors.ArgumentError):
        tw.dtypes.canonicalize_dtype(tw.random.key(0).dtype)
    with pytest.raises(tw.dtypes.TypePromotionError):
        tw.dtypes.result_type("float8_e4m3fn", "bfloat16")
    assert tw.dtypes.result_type(np.int8, 1, return_weak_type_flag=True) == (np.int8, False)


def test_types_for_annotations():
    values = [tnp.ones(1), np.ones(1), np.float32(1), True, 1, 1.0, 1j]
    assert all(isinstance(v, tw.typing.ArrayLike) for v in values) and not isinstance([1], tw.typing.ArrayLike)
    assert tw.jit(lambda x: x + isinstance(x, tw.typing.ArrayLike))(1) == 2


def test_a_partial_function_within_a_partial_is_part_of_the_structure():
    inner = functools.partial(lambda kind, x, y: (kind, x - y), "kind")
    leaves, structure = tw.tree.flatten(tw.tree_util.Partial(inner, 3.0))
    assert leaves == [3.0] and tw.tree.unflatten(structure, [5.0])(1.0) == ("kind", 4.0)
    assert structure == tw.tree.structure(tw.tree_util.Partial(inner, 7.0))


def test_nodes_by_one_level():
    pair = collections.namedtuple("pair", "a b")
    util = tw.tree_util
    assert util.flatten_one_level(pair(1, {"x": 2}))[0] == (1, {"x": 2})
    assert [k for k, _ in util.flatten_one_level_with_keys(pair(1, 2))[0]] == [
        util.GetAttrKey("a"),
        util.GetAttrKey("b"),
    ]
    assert util.flatten_one_level([None, ()])[0] == (None, ())
    assert util.is_tree_node(pair) and util.is_tree_node(util.Partial) and not util.is_tree_node(np.ndarray)
    with pytest.raises(ValueError, match="is a leaf"):
        util.flatten_one_level(1.0)


def test_static_fields_and_associative_folds():
    @tw.tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: object
        name: str = tw.tree.static(default="layer", metadata={"unit": "m"})

    assert tw.tree.leaves(Layer(1)) == [1] and dataclasses.fields(Layer)[1].metadata["unit"] == "m"
    assert tw.tree.structure(Layer(1, "a")) != tw.tree.structure(Layer(1, "b"))
    for n in range(1, 9):
        assert tw.tree.reduce_associative(lambda a, b: a + b, list("abcdefgh"[:n])) == "abcdefgh"[:n]
    assert tw.tree.reduce_associative(max, (), identity=0) == 0
    with pytest.raises(ValueError, match="without leaves"):
        tw.tree.reduce_associative(max, ())


def test_stages_tell_of_arguments():
    lowered = tw.jit(lambda x, y: (x + 1, y), donate_argnums=0).lower(tnp.ones(3), 2)
    (x, y), named = lowered.args_info
    assert (x.shape, x.dtype, x.donated, y.donated, named) == ((3,), np.float32, True, False, {})
    assert lowered.in_avals[0][0].show() == "f32[3]" and lowered.donate_argnums == (0,)
    assert "stablehlo" in str(lowered.compiler_ir()) and "HloModule" in lowered.compiler_ir("hlo").as_hlo_text()
    assert lowered.compile().args_info == lowered.args_info
    assert isinstance(lowered, tw.stages.Lowered) and isinstance(lowered.compile(), tw.stages.Compiled)
    with pytest.raises(tw.errors.ArgumentError, match="no module of dialect"):
        lowered.compiler_ir("llvm")


def test_the_functions_of_vjp_and_linearize_cross_jit():
    def f(x, y):
        return {"out": tnp.sin(x) * y, "sum": x.sum()}

    x, y = tnp.arange(3.0), 2.0
    out, pullback = tw.vjp(f, x, y)
    want = pullback(out)
    assert tw.tree.structure(pullback) == tw.tree.structure(pullback)
    got = tw.jit(lambda pull, ct: pull(ct))(pullback, out)
    made = tw.jit(lambda x, y: tw.vjp(f, x, y)[1])(x, y)
    again = tw.tree.map(lambda leaf: leaf, made)
    for found in (got, made(out), again(out)):
        np.testing.assert_allclose(found[0], want[0], rtol=1e-6)
        np.testing.assert_allclose(found[1], want[1], rtol=1e-6)
        assert found[1].weak_type and not found[0].weak_type
    _, push = tw.jit(lambda x: tw.linearize(tnp.sin, x))(x)
    np.testing.assert_allclose(tw.vmap(lambda p, t: p(t), (None, 0))(push, tnp.eye(3)), np.diag(np.cos(x)), rtol=1e-6)
    with pytest.raises(tw.errors.TreeError):
        made({"out": x})


def test_one_backward_function_for_all_calls():
    traced = []

    def f(x, scale):
        traced.append(1)
        return tnp.sum(x**2) * scale, "aux" and x

    forward, backward = tw.fwd_and_bwd(f, 0, has_aux=True)
    for n in (1.0, 2.0):
        x = tnp.full(3, n)
        out, residuals, aux = forward(x, 2.0)
        (ct,) = backward(residuals, tnp.ones(()))
        np.testing.assert_allclose(ct, 4 * x)
        assert out == 6 * n * n and aux.shape == (3,)
    assert backward._cache_size() == forward._cache_size() and len(traced) == 1


def test_derivatives_of_numbers_are_numbers():
    assert tw.grad(lambda x: x**2)(2.0).weak_type and tw.grad(tnp.sin)(np.float32(1)).weak_type is False
    assert tw.jvp(lambda x: tnp.float32(2) * x, (1.0,), (1.0,))[1].weak_type is False
    assert (tw.grad(lambda x: (x * tnp.ones(2)).sum())(1.0) * tnp.ones(2, "bfloat16")).dtype == tnp.bfloat16


def test_what_the_backward_pass_stores(capsys):
    def f(x, y):
        z = tw.ad_checkpoint.checkpoint_name(tnp.sin(x), "z")
        return tnp.exp(z) * y

    x = tnp.ones(3)
    print_saved, saved = tw.ad_checkpoint.print_saved_residuals, tw.ad_checkpoint.saved_residuals
    assert [origin for _, origin in saved(tw.checkpoint(f), x, x)] == [
        "from the argument x",
        "from the argument y",
    ]
    named = [origin for _, origin in saved(lambda *xs, w: xs[0] * tnp.sin(xs[1]) * w["a"], x, x, w={"a": x})]
    assert named[:2] == ["from the argument xs[0]", "from the argument w['a']"]
    print_saved(f, x, 2.0)
    assert "f32[3] output of exp" in capsys.readouterr().out
    policies = tw.checkpoint_policies
    offload = policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["z"], offload_src="device", offload_dst="pinned_host"
    )
    both = policies.save_from_both_policies(lambda *_, **__: tw.ad_checkpoint.Recompute, offload)
    everything = lambda *_, **__: tw.ad_checkpoint.Saveable  # noqa: E731
    stored = ("named 'z'", "named 'z'", "output of cos")
    for policy, name in zip((offload, both, everything), stored, strict=True):
        again = tw.checkpoint(f, policy=policy)
        assert any(origin.startswith(name) for _, origin in saved(again, x, x))
        np.testing.assert_allclose(tw.vjp(again, x, x)[1](x), tw.vjp(f, x, x)[1](x), rtol=1e-6)


@pytest.mark.parametrize("modes", ["fwd", "rev", ("fwd", "rev")])
def test_wrong_derivatives_are_found(modes):
    @tw.custom_jvp
    def wrong(x):
        return x * x

    wrong.defjvp(lambda xs, ts: (xs[0] ** 2, 3.0 * xs[0] * ts[0]))
    tw.test_util.check_grads(lambda x: tnp.sin(x) * x, (np.ones(2, np.float32),), 2, modes)
    with pytest.raises(AssertionError):
        tw.test_util.check_grads(wrong, (1.0,), 1, modes)
    with pytest.raises(tw.errors.ArgumentError):
        tw.test_util.check_grads(wrong, (1.0,), 1, "sideways")


def test_a_curve_that_needs_a_short_step():
    tw.test_util.check_grads(lambda x: tnp.sin(40.0 * x), (0.05,), 1)


def test_second_order_is_looked_at():
    @tw.custom_jvp
    def wrong(x):
        return x * x * x

    @tw.custom_jvp
    def slope(x):
        return 3 * x * x

    slope.defjvp(lambda xs, ts: (slope(*xs), 5.0 * xs[0] * ts[0]))
    wrong.defjvp(lambda xs, ts: (wrong(*xs), slope(*xs) * ts[0]))
    tw.test_util.check_grads(wrong, (1.0,), 1)
    with pytest.raises(AssertionError):
        tw.test_util.check_grads(wrong, (1.0,), 2)


def test_values_are_put_by_a_prefix_of_places():
    device = tw.devices()[0]
    x, host = tnp.ones(3), np.ones(2, np.float32)
    out = tw.device_put({"a": [x, host], "b": None, "c": 1}, {"a": device, "b": None, "c": None}, donate=True)
    assert out["a"][0].unsafe_buffer_pointer() == x.unsafe_buffer_pointer() and not x.is_deleted()
    assert tw.device_put(out["a"][0], device) is out["a"][0] and out["b"] is None and out["c"].weak_type
    copied = tw.device_put(x, device, may_alias=False)
    assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    with pytest.raises(tw.errors.ArgumentTypeError, match="does not name a device"):
        tw.device_put(x, 3.5)


def test_named_calls_name_their_operations():
    program = tw.make_jaxpr(tw.named_call(lambda x: tnp.sin(x), name="layer"))(1.0)
    assert program.eqns[-1].source.scope == "layer"
    with pytest.raises(tw.errors.ArgumentTypeError):
        tw.named_call(tnp.sin, name=3)


# ---------------------------------------------------------------------------- notes for XLA


def hlo(f, *args):
    return tw.jit(f).lower(*args).as_text("hlo")


@pytest.mark.parametrize(
    "how, of_value, of_derivative", [("same", 1, 1), ("drop", 1, 0), ({"tag": "b"}, 1, 0)], ids=str
)
def test_notes_of_a_call_and_of_its_derivative(how, of_value, of_derivative):
    f = xla_metadata.xla_metadata_call2(lambda x, *, y: tnp.sin(x) * y, {"tag": "a"}, ad_metadata=how)
    text = hlo(lambda x: tw.grad(f)(x, y=2.0), 1.0)
    assert text.count('{tag="a"}') == of_value + of_derivative
    assert text.count('{tag="b"}') == (how not in ("same", "drop"))
    assert tw.grad(f)(0.0, y=2.0) == 2.0 and f(0.0, y=2.0) == 0.0
    np.testing.assert_allclose(tw.vmap(lambda x: f(x, y=1.0))(tnp.ones(2)), np.sin(np.ones(2)), rtol=1e-6)


def test_notes_of_a_value():
    def f(x):
        once = xla_metadata.set_xla_metadata(tnp.sin(x), step=1)
        return xla_metadata.set_xla_metadata(once, on=True) + xla_metadata.set_xla_metadata(x, of="nothing")

    assert "sine" in hlo(f, 1.0) and 'frontend_attributes={on="true",step="1"}' in hlo(f, 1.0)
    np.testing.assert_allclose(tw.grad(f)(1.0), np.cos(1.0) + 1, rtol=1e-6)


def test_notes_of_all_operations_of_a_block():
    def f(x):
        with xla_metadata.set_xla_metadata(tag="outer"):
            y = tnp.sin(x)
            with xla_metadata.set_xla_metadata(tag="inner", step=1):
                y = xla_metadata.set_xla_metadata(tnp.cos(y), tag="late", own=1)
            return lax.fori_loop(0, 3, lambda i, c: c * 2, y)

    text = tw.jit(f).lower(1.0).as_text()
    notes = {name: line.partition("frontend_attributes = ")[2] for line in text.splitlines()
             for name in ("sine", "cosine", "while", "multiply") if f"stablehlo.{name}" in line}  # fmt: skip
    assert '{tag = "outer"}' in notes["sine"] and '{tag = "outer"}' in notes["multiply"]
    assert '{own = "1", step = "1", tag = "inner"}' in notes["cosine"]  # what it has already stays
    decorated = xla_metadata.set_xla_metadata(tag="on")(tnp.sin)
    assert 'tag="on"' in hlo(decorated, 1.0) and "tag" not in hlo(tnp.sin, 1.0)
    np.testing.assert_allclose(tw.grad(f)(1.0), -8 * np.sin(np.sin(1.0)) * np.cos(1.0), rtol=1e-6)


def test_notes_that_cannot_be_are_refused():
    with pytest.raises(tw.errors.ArgumentTypeError, match="the note 'tag'"):
        xla_metadata.xla_metadata_call(tag=[1])
    with pytest.raises(tw.errors.ArgumentError, match="ad_metadata"):
        xla_metadata.xla_metadata_call2({}, ad_metadata="none")


def test_dataclasses_name_each_field_once():
    @dataclasses.dataclass
    class Pair:
        x: float
        y: float
        n: int = dataclasses.field(default=3, init=False)

    class Plain:
        pass

    register = tw.tree_util.register_dataclass
    for cls, given in ((Plain, {}), (Pair, {"data_fields": ["x"]}), (Pair, {"meta_fields": ["y"]})):
        with pytest.raises(TypeError, match="give both"):
            register(cls, **given)
    for data, meta in ((["x"], []), (["x", "y"], ["x"]), (["x"], ["y", "z"])):
        with pytest.raises(ValueError, match="register_dataclass of Pair"):
            register(Pair, data, meta)
    with pytest.raises(ValueError, match="n among its fields"):
        register(Pair)
    assert tw.tree.leaves(register(Pair, drop_fields="n")(1.0, 2.0)) == [1.0, 2.0]
    assert not tw.tree.static(metadata={"static": False}).metadata["static"]


def test_functions_that_are_static_arguments_are_equal_where_they_do_the_same():
    (_, first), (_, second) = (tw.flatten_util.ravel_pytree((tnp.ones(2), 1.0)) for _ in range(2))
    assert first == second and hash(first) == hash(second)
    fun = functools.partial(print, 1)
    assert fun == tw.tree_util.Partial(fun, 2).func == fun


def test_nodes_without_leaves_are_no_leaves():
    @tw.tree_util.register_static
    class Setting:
        pass

    assert not any(tw.tree_util.all_leaves([x]) for x in (Setting(), (), None)) and tw.tree_util.all_leaves([1, "a"])


def test_vectors_of_a_tree_keep_their_dtype_where_its_leaves_have_one():
    vector, unravel = tw.flatten_util.ravel_pytree({"a": tnp.ones(2), "b": 1.0})
    assert unravel(vector > 0)["a"].dtype == bool
    vector, unravel = tw.flatten_util.ravel_pytree((tnp.ones(2), tnp.arange(2)))
    assert unravel(vector)[1].dtype == tnp.int32
    with pytest.raises(TypeError, match="float32"):
        unravel(vector > 0)


def test_tolerances_by_dtype():
    f32, f64 = np.dtype("float32"), np.dtype("float64")
    x = tw.numpy.ones(3)
    tw.test_util.check_grads(tw.numpy.sin, (x,), 1, atol={f32: 1e-2, f64: 1e-5}, rtol={f32: 1e-2})
    with pytest.raises(AssertionError):
        wrong = lambda xs, ts: (tw.numpy.sin(xs[0]), 1.01 * ts[0] * tw.numpy.cos(xs[0]))  # noqa: E731
        tw.test_util.check_jvp(tw.numpy.sin, wrong, (x,), atol={f32: 1e-5}, rtol={np.float32: 1e-3})
    tw.test_util.check_jvp(tw.numpy.sin, wrong, (x,), atol={f64: 1e-9}, rtol={np.float32: 5e-2})


def test_factorials_of_taylor_terms():
    from tilewright.experimental.jet import fact

    np.testing.assert_allclose(fact(np.arange(5)), [1, 1, 2, 6, 24], rtol=1e-5)
    assert tw.typeof(fact(3)).weak_type  # so that a term that is divided by it keeps its dtype
