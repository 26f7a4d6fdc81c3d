"""Names of jax's insides that libraries import when loaded, and classes that they derive from the package's."""

import dataclasses
import inspect

import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as jnp
from tilewright.as_jax.batching import is_vmappable, register_vmappable, unregister_vmappable
from tilewright.as_jax.finder import Finder
from tilewright.as_jax.jax import core
from tilewright.as_jax.jax._src import core as private_core
from tilewright.as_jax.jax._src import dtypes, flattree
from tilewright.as_jax.jax._src import tree_util as private_trees
from tilewright.as_jax.jax._src.api_util import infer_argnums_and_argnames
from tilewright.as_jax.jax._src.numpy import util
from tilewright.as_jax.jax._src.pjit import jit_p
from tilewright.as_jax.jax._src.public_test_util import check_close, tolerance
from tilewright.as_jax.jax.extend import core as jex
from tilewright.core.support.errors import ArgumentTypeError, NotAdaptedModuleError, NotAdaptedNameError
from tilewright.experimental import sparse
from tilewright.lang import tpu


def test_complex_dtypes_of_a_precision():
    found = {kind: dtypes.to_complex_dtype(kind) for kind in ("float16", "int32", "float64", "complex64")}
    assert found == {"float16": "complex64", "int32": "complex64", "float64": "complex128", "complex64": "complex64"}


def test_flat_trees():
    tree = flattree.flatten({"b": [1, 2], "a": 3})
    assert tree.vals == (3, 1, 2) and len(tree) == 3 and list(tree) == [3, 1, 2] and tree[0] == 3
    assert tree.map2([1, 1, 1], lambda x, y: x + y).unflatten() == {"a": 4, "b": [2, 3]}
    first, second = tree.map(lambda x: (x, -x)).unzip2()
    assert first == tree and second.unflatten() == {"a": -3, "b": [-1, -2]}
    with pytest.raises(ValueError):
        tree.update([1])


def test_nodes_of_pytrees_are_taken_apart_and_put_together():
    node = private_trees._registry[dict]
    children, rest = node.to_iter({"b": [1, 2], "a": 3})
    assert children == [3, [1, 2]] and rest == node.to_iter({"a": 0, "b": 0})[1]
    assert node.from_iter(rest, [4, 5]) == {"a": 4, "b": 5}
    with pytest.raises(KeyError):
        private_trees._registry[int]


def test_primitives_of_two_homes_are_one_class():
    assert private_core.Primitive is jex.Primitive
    assert isinstance(jit_p, private_core.Primitive)


def test_the_primitive_of_calls_of_compiled_functions():
    program = tw.jit(lambda x: tw.jit(jnp.sin)(x) + 1).trace(1.0).program
    assert jit_p in [eqn.primitive for eqn in program.eqns]


def f(x, /, n, m=1, *rest, k=2):
    return x


@pytest.mark.parametrize(
    "argnums, argnames, expected",
    [
        (None, None, ((), ())),
        (1, None, ((1,), ("n",))),
        ([2, 0], None, ((2, 0), ("m",))),
        (None, "m", ((2,), ("m",))),
        (None, ["k", "n"], ((1,), ("k", "n"))),
        (0, "m", ((0,), ("m",))),
    ],
)
def test_positions_and_names_of_parameters(argnums, argnames, expected):
    assert infer_argnums_and_argnames(inspect.signature(f), argnums, argnames) == expected


def test_close_pytrees():
    one = {"a": jnp.ones(3), "b": (jnp.arange(2),)}
    check_close(one, {"a": np.ones(3, np.float32) + np.float32(1e-6), "b": (np.arange(2),)})
    with pytest.raises(AssertionError):
        check_close(one, {"a": np.ones(3, np.float32) + np.float32(1e-3), "b": (np.arange(2),)})
    check_close(one, {"a": np.ones(3, np.float32) * 1.1, "b": (np.arange(2),)}, rtol={np.float32: 0.1})
    with pytest.raises(AssertionError):
        check_close(jnp.arange(2), jnp.arange(1, 3))
    with pytest.raises(AssertionError):
        check_close(jnp.ones(2), jnp.ones((2, 1)), atol=1.0)
    check_close(jnp.ones(2, jnp.bfloat16), jnp.ones(2, jnp.bfloat16) * 1.01)


def test_tolerances_by_dtype():
    found = [tolerance(t) for t in ("int32", "float16", jnp.bfloat16, "float32", "complex64", "float64", "complex128")]
    assert found == [0, 1e-3, 1e-2, 1e-6, 1e-6, 1e-15, 1e-15]


def test_promotion_of_arguments():
    real, whole = util.promote_dtypes_complex(jnp.ones(2), 1)
    assert real.dtype == whole.dtype == jnp.complex64
    assert [x.dtype for x in util.promote_dtypes_numeric(True, np.array([False]))] == [jnp.int32] * 2
    assert [x.dtype for x in util.promote_dtypes_inexact(np.int32(1), 2)] == [jnp.float32] * 2
    row, matrix, number = util.promote_args("f", jnp.arange(3), jnp.ones((2, 3)), 1.0)
    assert row.shape == (1, 3) and matrix.shape == (2, 3) and number.shape == ()
    assert row.dtype == matrix.dtype == number.dtype == jnp.float32


def test_arguments_that_are_no_arrays():
    assert util.ensure_arraylike("f", 1.0).shape == () and len(util.ensure_arraylike("f", 1.0, np.ones(2))) == 2
    with pytest.raises(ArgumentTypeError, match="f takes arrays and numbers, and argument 1"):
        util.check_arraylike("f", 1.0, [2.0])


def test_a_trace_names_the_type_of_its_tracers():
    class Own(core.Trace[core.Tracer]):
        pass

    assert issubclass(Own, core.Trace) and isinstance(Own(), core.Trace)


@pytest.mark.parametrize("name", ["int8", "uint8", "float32", "bfloat16"])
def test_a_class_derived_from_a_dtype(name):
    base = getattr(jnp, name)

    class StepType(base):
        """Kinds of steps."""

        FIRST = jnp.asarray(1, base)

    assert StepType.__name__ == "StepType" and StepType.__doc__ == "Kinds of steps."
    assert StepType == base and base == StepType and np.dtype(StepType) == np.dtype(base)
    assert StepType(3).dtype == base and jnp.zeros(2, StepType).dtype == base
    assert StepType.FIRST.dtype == base and int(StepType.FIRST) == 1
    assert issubclass(StepType, base)


def test_names_without_meaning_say_what_takes_their_place():
    with pytest.raises(NotAdaptedNameError, match="MemorySpace"):
        tpu.TPUMemorySpace  # noqa: B018
    for name in ("jax.experimental.pallas.tpu_sc", "tilewright.lang.tpu_sc"):  # the second: by `from ... import`
        with pytest.raises(NotAdaptedModuleError) as raised:
            Finder().find_spec(name, None)
        assert "not on SparseCores" in raised.value.remedy


@tw.tree_util.register_dataclass
@dataclasses.dataclass
class Scaled:
    """Rows, and a scale that they share: `vmap` maps the rows only."""

    rows: object
    scale: object


Y = jnp.arange(2.0)


def test_a_class_says_which_of_its_leaves_are_mapped():
    register_vmappable(
        Scaled, int, int, lambda cont, _, x, axis: Scaled(cont(x.rows, axis), x.scale),
        lambda cont, size, x, axis: Scaled(cont(size, x.rows, axis), x.scale), None)  # fmt: skip
    x = Scaled(jnp.arange(6.0).reshape(3, 2), jnp.float32(5))
    assert is_vmappable(x) and not is_vmappable(x.rows)
    row = tw.vmap(lambda x: Scaled(x.rows * x.scale, x.scale + 1))(x)
    np.testing.assert_array_equal(row.rows, 5 * x.rows)
    assert float(row.scale) == 6.0
    both = tw.vmap(lambda x, y: {"x": Scaled(x.rows * y, x.scale), "y": y}, (1, 0), {"x": 1, "y": 0})(x, Y)
    np.testing.assert_array_equal(both["x"].rows, [[0, 1], [0, 3], [0, 5]])
    assert float(tw.vmap(lambda x, y: x.rows.sum() * y, (None, 0))(x, Y)[1]) == 15.0
    with pytest.raises(tw.errors.BatchAxisError, match="out_axes=None"):
        tw.vmap(lambda x: Scaled(x.rows, x.rows.sum()))(x)
    # The layout of a sparse array is a part of its structure: axes in the place of its buffers would be another one.
    zeros = sparse.BCOO.fromdense(jnp.zeros((2, 2)), n_batch=1)
    assert tw.vmap(lambda x, row: (x, row), (0, 0), 0)(Scaled(Y, x.scale), zeros)[1].shape == (2, 2)
    unregister_vmappable(Scaled)
    assert not is_vmappable(x) and tw.vmap(lambda x: x.scale)(Scaled(Y, Y)).shape == (2,)
