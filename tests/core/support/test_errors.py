"""Bad input gives the named error, with the value, the user's line and a remedy."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import errors, lax
from tilewright import numpy as tnp
from tilewright.experimental.jet import jet

leaks = []


def leak():
    tw.jit(lambda x: leaks.append(x) or x)(1.0)
    return leaks.pop() + 1


BAD = {
    "shapes": (lambda: tnp.ones((2, 3)) + tnp.ones((4,)), errors.ShapeError, ["(2, 3)", "(4,)"]),
    "lax shapes": (lambda: lax.add(tnp.ones((2, 3)), tnp.ones((3, 2))), errors.ShapeError, ["f32[2,3]", "f32[3,2]"]),
    "dtypes": (lambda: lax.add(tnp.ones(2), tnp.ones(2, "int32")), errors.DtypeError, ["f32[2]", "i32[2]"]),
    "matmul": (lambda: tnp.ones((2, 3)) @ tnp.ones((2, 3)), errors.ShapeError, ["(2, 3)"]),
    "python if": (lambda: tw.jit(lambda x: 1.0 if x > 0 else 2.0)(1.0), errors.TracerBoolError, ["lax.cond", "static"]),
    "python range": (lambda: tw.jit(lambda n: list(range(n)))(3), errors.TracerIntegerConversionError, ["static"]),
    "numpy of tracer": (
        lambda: tw.jit(lambda x: np.asarray(x))(1.0), errors.TracerArrayConversionError, ["tilewright.numpy"]),
    "NumPy's array at a traced place": (
        lambda: tw.jit(lambda i: np.ones(3)[i])(1), errors.TracerArrayConversionError, ["numpy.asarray(a)[i]"]),
    "numpy within grad": (
        lambda: tw.grad(lambda x: np.asarray(tnp.sin(x)).sum())(1.0), errors.TracerArrayConversionError,
        ["lose its derivative", "f32[]", "stop_gradient"]),
    "item within jvp": (
        lambda: tw.jvp(lambda x: x.item() * 2.0, (1.0,), (1.0,)), errors.ConcretizationError, ["lose its derivative"]),
    "sets within grad": (
        lambda: tw.grad(lambda x: tnp.setxor1d(x, np.ones(1, "f")).sum())(tnp.zeros(1)),
        errors.TracerArrayConversionError, ["lose its derivative"]),
    "float within jet": (
        lambda: jet(lambda x: float(x) * x, (1.0,), ((1.0,),)), errors.ConcretizationError, ["lose its derivative"]),
    "traced size": (lambda: tw.jit(tnp.zeros)(3), errors.TracerIntegerConversionError, ["i32[]", "static", "`shape`"]),
    "traced length": (
        lambda: tw.jit(tnp.bincount)(tnp.arange(3)), errors.TracerArrayConversionError, ["bincount", "`length`"]),
    "float of a slice": (lambda: tnp.ones(4)[: 4 / 2], errors.IndexingError, ["2.0", "`int`", "//"]),
    "array for an axis": (lambda: tnp.concatenate(tnp.ones((9, 99)), tnp.ones((9, 99))), errors.ArgumentTypeError,
                          ["axis ((1.0, 1.0", "...), ...) is not"]),
    "another library's name of an axis": (
        lambda: tnp.sum(tnp.ones(3), dim=0), errors.ArgumentTypeError, ["'dim'", "sum(a, axis=None"]),
    "a misspelt option of a method": (
        lambda: tnp.ones(3).mean(keepdim=True), errors.ArgumentTypeError, ["keepdim is like keepdims"]),
    "another library's name of a shape": (
        lambda: tw.random.normal(tw.random.key(0), size=3), errors.ArgumentTypeError, ["normal(key, shape=()"]),
    "arrays not in a list": (
        lambda: tnp.stack(tnp.ones(3), tnp.ones(3), axis=0), errors.ArgumentTypeError, ["stack(arrays, axis=0"]),
    "a rotation of vectors by a product": (
        lambda: tw.scipy.spatial.transform.Rotation.from_rotvec(tnp.ones(3)) * tnp.ones(3), errors.ArgumentTypeError,
        ["apply(vectors)"]),
    "gradient of a number": (lambda: tw.grad(2.0), errors.ArgumentTypeError, ["got 2.0 of type float", "grad(f)(x)"]),
    "pullback of a number": (lambda: tw.vjp(2.0, 1.0), errors.ArgumentTypeError, ["got 2.0 of type float"]),
    "no auxiliary result": (
        lambda: tw.grad(lambda x: x, has_aux=True)(1.0), errors.ArgumentTypeError, ["returned f32[]", "(output, aux"]),
    "axes of other keys": (
        lambda: tw.vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": tnp.ones(3)}), errors.BatchAxisError,
        ["expected a dict with the keys 'b', got a dict with the keys 'a'", "name each of their keys"]),
    "format of an array": (lambda: f"{tnp.ones(3):.2f}", errors.ArgumentError, ["'.2f'", "(3,)"]),
    "a loop's body without result": (
        lambda: lax.fori_loop(0, 3, lambda i, x: None, 0.0), errors.ControlFlowTypeError, ["fori_loop"]),
    "a loop's body of one argument": (
        lambda: lax.fori_loop(0, 3, lambda x: x, 0.0), errors.ArgumentTypeError, ["f(i, value)", "takes (x)"]),
    "a scan's body of one argument": (
        lambda: lax.scan(lambda x: x, 0.0, tnp.ones(3)), errors.ArgumentTypeError, ["f(carry, x)", "takes (x)"]),
    "a map's body of two": (
        lambda: lax.map(lambda a, b: a, tnp.ones(3)), errors.ArgumentTypeError, ["f(x)", "takes (a, b)"]),
    "a condition of nothing": (
        lambda: lax.while_loop(lambda: True, lambda x: x, 0.0), errors.ArgumentTypeError, ["f(value)", "takes ()"]),
    "a branch of nothing": (
        lambda: lax.cond(True, lambda: 1.0, lambda x: x, 3.0), errors.ArgumentTypeError, ["true_fun", "f(x)"]),
    "traced nonzero": (
        lambda: tw.jit(tnp.nonzero)(tnp.ones(3)), errors.TracerArrayConversionError, ["nonzero", "f32[3]", "`size`"]),
    "traced unique": (
        lambda: tw.jit(tnp.unique)(tnp.ones(3)), errors.TracerArrayConversionError, ["unique", "f32[3]", "`size`"]),
    "traced repeats": (
        lambda: tw.jit(lambda n: tnp.repeat(tnp.ones(2), n))(2), errors.TracerArrayConversionError,
        ["repeat", "total_repeat_length"]),
    "traced pad": (
        lambda: tw.jit(lambda n: tnp.pad(tnp.ones(2), n))(2), errors.TracerArrayConversionError,
        ["pad", "dynamic_update_slice"]),
    "leak": (leak, errors.LeakedTracerError, ["return the value"]),
    "grad of vector": (lambda: tw.grad(lambda x: x)(tnp.ones(3)), errors.NonScalarGradientError, ["f32[3]", "jacrev"]),
    "grad of int": (lambda: tw.grad(lambda x: x)(3), errors.NonDifferentiableDtypeError, ["i32[]"]),
    "int output": (
        lambda: tw.grad(lambda x: tnp.argmax(x))(tnp.ones(3)), errors.NonDifferentiableDtypeError, ["int32"]),
    "vmap sizes": (
        lambda: tw.vmap(lambda a, b: a + b)(tnp.ones(3), tnp.ones(4)), errors.BatchAxisError, ["size 3", "size 4"]),
    "vmap nothing": (lambda: tw.vmap(lambda a: a, in_axes=None)(1.0), errors.BatchAxisError, ["in_axes"]),
    "vmap bool": (lambda: tw.vmap(lambda a: a, in_axes=False)(tnp.ones(3)), errors.ArgumentTypeError, ["False"]),
    "vmap dict": (lambda: tw.vmap(lambda a: a, in_axes={"a": 0}), errors.ArgumentTypeError, ["in_axes", "{'a': 0}"]),
    "vmap axis": (lambda: tw.vmap(lambda a: a, in_axes=2)(tnp.ones(3)), errors.BatchAxisError, ["axis 2"]),
    "not an array": (lambda: tw.jit(lambda x: x)("text"), errors.NonArrayArgumentError, ["'text'", "static"]),
    "not an array, grad": (lambda: tw.grad(lambda x: x)("text"), errors.NonArrayArgumentError, ["'text'"]),
    "unhashable static": (
        lambda: tw.jit(lambda x, n: x, static_argnums=1)(1.0, [1]), errors.NonHashableStaticArgumentError, ["[1]"]),
    "assignment": (lambda: tnp.ones(3).__setitem__(0, 1.0), errors.ImmutableArrayError, [".at["]),
    "configuration": (lambda: tw.config.update("no_such", 1), errors.ConfigError, ["no_such", "enable_x64"]),
    "configuration value": (lambda: tw.config.update("enable_x64", "maybe"), errors.ConfigError, ["maybe"]),
    "unbound axis": (lambda: lax.psum(tnp.ones(2), "nowhere"), errors.UnboundAxisError, ["nowhere"]),
    "jvp of custom_vjp": (
        lambda: tw.jvp(_with_vjp(), (1.0,), (1.0,)), errors.DifferentiationError, ["custom_jvp"]),
    "reverse through while": (
        lambda: tw.grad(lambda x: lax.while_loop(lambda c: c < 10.0, _asking, x))(1.0),
        errors.DifferentiationError, ["io_callback", "effects", "custom_vjp"]),
    "deep tree": (lambda: tw.jit(lambda t: t)(_nested(100_000)), errors.TreeError, ["nested"]),
    "deep tree, leaves": (lambda: tw.tree.leaves(_nested(100_000)), errors.TreeError, ["nested"]),
    "too many elements": (lambda: tnp.ones((2**31, 2**32)), errors.ShapeError, ["2**63"]),
    "too long an axis": (lambda: tw.jit(lambda: tnp.zeros(2**63))(), errors.ShapeError, ["2**63"]),
    "checkpoints": (
        lambda: lax.while_loop(lambda c: c < 10.0, lambda c: c * 2.0, 1.0, checkpoints=1),
        errors.ArgumentError, ["checkpoints", "1", "from 4"]),
    "float of tracer": (
        lambda: tw.jit(lambda x: float(x))(1.0), errors.ConcretizationError, ["Python float", "astype"]),
    "item of tracer": (lambda: tw.jit(lambda x: x.item())(1.0), errors.ConcretizationError, ["outside", "debug.print"]),
    "no dtype": (lambda: tnp.zeros(2, "flot32"), errors.DtypeError, ["flot32", "float32"]),
    "list operand": (lambda: lax.sin([1.0, 2.0]), errors.NonArrayArgumentError, ["[1.0, 2.0]", "asarray"]),
    "list times array": (lambda: [1, 2] * tnp.array(2), errors.ArgumentTypeError, ["list", "asarray"]),
    "list times tracer": (lambda: tw.jit(lambda n: [1, 2] * n)(2), errors.ArgumentTypeError, ["list", "asarray"]),
    "trees": (lambda: tw.tree.map(lambda a, b: a, {"a": 1}, {"b": 1}), errors.TreeError, ["'a'", "'b'"]),
    "grad of a tree": (
        lambda: tw.grad(lambda x: {"a": x})(1.0), errors.NonScalarGradientError, ["{'a': *}", "has_aux"]),
    "tangent type": (lambda: tw.jvp(lambda x: x, (1.0,), (np.ones(3, "f"),)), errors.ShapeError, ["f32[3]"]),
}  # fmt: skip


def _asking(x):
    return 2.0 * tw.experimental.io_callback(lambda x: x, tw.ShapeDtypeStruct((), "float32"), lax.stop_gradient(x))


def _nested(depth):
    tree = 1.0
    for _ in range(depth):
        tree = [tree]
    return tree


def _with_vjp():
    function = tw.custom_vjp(lambda x: x)
    function.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    return function


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    action, error, words = BAD[name]
    with pytest.raises(error) as caught:
        action()
    text = str(caught.value)
    for word in words:
        assert word in text, text
    assert "test_errors.py" in text or error is errors.ConfigError, text
    assert "remedy:" in text, text


def test_warnings_are_of_the_users_line():
    for call in (
        lambda: tnp.zeros(3, int).at[0].set(1.5), lambda: tnp.zeros(3, "float64"),
        lambda: tnp.sum(tnp.ones(3), dtype="float64"),
        lambda: tw.scipy.signal.welch(tnp.ones(9), nperseg=50),
    ):  # fmt: skip
        with pytest.warns() as caught:
            call()
        assert {w.filename for w in caught} == {__file__}


def test_what_has_no_derivative_is_taken_of_differentiated_values():
    def f(x):
        whole = tnp.floor(x).astype(int)
        count = int(whole) + [1, 2, 3][whole] + float(lax.stop_gradient(x)) + len(f"{x:.2f}")
        return count * tnp.trim_zeros(tnp.stack([x, 0 * x]))[0] if x > 0 else -x

    assert tw.grad(f)(1.5) == 1 + 2 + 1.5 + 4


def test_an_error_within_the_users_function_is_the_users():
    def step(carry, x):
        raise TypeError("of the user's")

    with pytest.raises(TypeError, match="of the user's") as caught:
        lax.scan(step, 0.0, tnp.ones(3))
    assert type(caught.value) is TypeError


def test_every_error_is_documented_and_derives_from_the_base():
    classes = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    assert len(classes) > 20
    for cls in classes:
        assert issubclass(cls, errors.TilewrightError) and cls.__doc__
