"""Lowering rules that a client has written in MLIR."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.as_jax.jax._src.lib.mlir import ir
from tilewright.as_jax.jax._src.lib.mlir.dialects import hlo
from tilewright.as_jax.jax.extend.core import Primitive
from tilewright.as_jax.jax.extend.mlir.dialects import stablehlo
from tilewright.as_jax.jax.interpreters import ad, batching, mlir
from tilewright.core.support.errors import UnsupportedError

X = tnp.linspace(0.1, 1.0, 6).reshape(2, 3)


def client(name, rule, typing=lambda x, **_: x, multiple=False, platform=None):
    primitive = Primitive(name)
    primitive.multiple_results = multiple
    primitive.def_abstract_eval(typing)
    mlir.register_lowering(primitive, rule, platform)
    return primitive


def scaled(ctx, x, *, by):
    assert isinstance(x, ir.Value) and ctx.avals_in[0].shape == tuple(ir.RankedTensorType(x.type).shape)
    factor = mlir.ir_constant(np.full(ctx.avals_in[0].shape, by, ctx.avals_in[0].dtype))
    return (hlo.multiply(x, factor),)


scaled_p = client("scaled", scaled)
batching.primitive_batchers[scaled_p] = lambda args, dims, **params: (scaled_p.bind(*args, **params), dims[0])
ad.deflinear2(scaled_p, lambda ct, _, **params: [scaled_p.bind(ct, **params)])


def test_a_rule_works_under_transformations():
    def f(x):
        return scaled_p.bind(tnp.sin(x), by=3.0)

    for g in (f, tw.jit(f), tw.vmap(f), tw.jit(tw.vmap(f)), lambda x: lax.map(f, x)):
        np.testing.assert_allclose(g(X), 3 * np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(tw.jit(tw.grad(lambda x: f(x).sum()))(X), 3 * np.cos(X), rtol=1e-6)
    text = tw.jit(f).lower(X).as_text()
    assert "stablehlo.multiply" in text and text.count("func.func") == 2


def test_several_results_of_other_types():
    def rule(ctx, x):
        wide, flags = map(mlir.aval_to_ir_type, ctx.avals_out)
        assert mlir.aval_to_ir_type(ctx.module_context, ctx.avals_out[0]) == wide
        zero = mlir.ir_constant(np.zeros((2, 3), np.float32))
        compared = stablehlo.compare(x, zero, stablehlo.ComparisonDirectionAttr.get("GT"))
        assert mlir.dtype_to_ir_type(np.dtype("bool")) == ir.RankedTensorType(compared.type).element_type
        assert compared.type == flags
        return [hlo.convert(wide, x), [compared]]

    primitive = client("both", rule, lambda x: [x.update(dtype=np.float16), x.update(dtype=np.bool_)], True)
    half, positive = tw.jit(primitive.bind)(X - 0.5)
    assert half.dtype == np.float16 and positive.tolist() == (np.asarray(X) > 0.5).tolist()


def test_functions_of_arrays_within_a_rule():
    def rule(ctx, x, y):
        (total,) = mlir.lower_fun(lambda x, y: tnp.cumsum(x * y, 1), multiple_results=False)(ctx, x, y)
        (again,) = mlir.lower_fun(lambda x, y: tnp.cumsum(x * y, 1), multiple_results=False)(ctx, total, y)
        return hlo.add(total, again)

    primitive = client("sums", rule, lambda x, y: x)
    x = np.asarray(X)
    expected = np.cumsum(x * x, 1)
    np.testing.assert_allclose(tw.jit(primitive.bind)(X, X), expected + np.cumsum(expected * x, 1), rtol=1e-6)


def test_calls_of_python_functions_within_a_rule():
    def python(x):
        return (np.sort(x, 1)[:, ::-1],)

    def rule(ctx, x):
        first, token, kept = mlir.emit_python_callback(ctx, python, None, [x], ctx.avals_in, ctx.avals_out,
                                                       has_side_effect=False)  # fmt: skip
        ctx.module_context.add_keepalive(kept)
        (second,) = mlir.lower_fun(
            lambda x: tw.pure_callback(lambda x: np.asarray(x) + 1, X, x), multiple_results=False
        )(ctx, *first)
        assert token is None
        return [second]

    primitive = client("sorted_by_python", rule)
    other = client("by_python", lambda ctx, x: mlir.emit_python_callback(
        ctx, lambda x: (x * 10,), None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=True)[0])  # fmt: skip

    def f(x):
        x = tw.pure_callback(lambda x: np.asarray(x) * 2, X, x)
        return other.bind(primitive.bind(other.bind(x)))

    np.testing.assert_allclose(tw.jit(f)(X), 10 * (np.sort(20 * np.asarray(X), 1)[:, ::-1] + 1), rtol=1e-6)
    placed = client("placed", lambda ctx, x: mlir.emit_python_callback(
        ctx, python, None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=False, sharding="all")[0])  # fmt: skip
    with pytest.raises(UnsupportedError, match="a token, or a sharding"):
        tw.jit(placed.bind)(X)


def test_a_custom_call_is_printed():
    def rule(ctx, x):
        return mlir.custom_call("a_target_of_the_client", result_types=[x.type], operands=[x], api_version=4,
                                backend_config={"n": mlir.i32_attr(3)}, operand_output_aliases={0: 0},
                                operand_layouts=[(1, 0)], result_layouts=[(1, 0)]).results  # fmt: skip

    text = tw.jit(client("called", rule).bind).lower(X).as_text()
    assert "@a_target_of_the_client" in text and "n = 3 : i32" in text and "output_operand_alias" in text


def test_rules_by_platform():
    elsewhere = client("elsewhere", lambda ctx, x: [hlo.negate(x)], platform="tpu")
    mlir.register_lowering(elsewhere, lambda ctx, x: [hlo.abs(x)])
    assert tw.jit(elsewhere.bind)(-X).tolist() == X.tolist()


def test_what_is_no_module_and_what_is_the_package_s_own():
    wrong = client("wrong", lambda ctx, x: [hlo.reduce_precision(x, mlir.i32_attr(5), mlir.i32_attr(5)), x])
    with pytest.raises(UnsupportedError, match="written in MLIR, gives no valid module"):
        tw.jit(wrong.bind)(X)
    with pytest.raises(UnsupportedError, match="primitive of this package's own"):
        mlir.register_lowering(lax.sin_p, lambda ctx, x: [x])
