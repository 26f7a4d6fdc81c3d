"""Small semantics that libraries written for jax rest on."""

import copy
import pickle
from types import SimpleNamespace

import jax.dtypes as oracle_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import numpy as jnp
from tilewright import random


@pytest.mark.parametrize("x", [None, "a", object(), [1, 2], 3.0, np.ones((2, 1))], ids=lambda x: type(x).__name__)
def test_the_shape_of_any_object_is_numpys(x):
    assert jnp.shape(x) == np.shape(x)
    assert (jnp.ndim(x), jnp.size(x)) == (np.ndim(x), np.size(x))


def test_the_shape_of_what_has_one_is_asked_of_it():
    class Shaped:
        shape = (4, 5)

    class Convertible:
        def __jax_array__(self):
            return jnp.ones(3)

    assert jnp.shape(Shaped()) == (4, 5)
    assert jnp.shape(Convertible()) == (3,)


@pytest.mark.parametrize("kind", [np.bool_, np.int32, np.uint8, np.float16, np.float32, np.complex64])
def test_a_scalar_type_is_found_where_numpys_is(kind):
    ours = getattr(jnp, np.dtype(kind).name, jnp.bool_)
    assert isinstance(ours, type)
    assert kind in {ours}
    assert {kind: 1}[ours] == 1
    assert ours == np.dtype(kind) == np.dtype(ours)
    assert isinstance(kind(1), ours) and not isinstance(1, ours)
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert isinstance(None, ours | None)


def test_keys_are_close_where_they_are_equal():
    a, b = random.key(0), random.key(1)
    assert jnp.allclose(a, a) and not jnp.allclose(a, b)
    assert jnp.isclose(random.split(a), random.split(a)).all()


@pytest.mark.parametrize("make", [lambda: jnp.ones(2), lambda: random.key(0)])
def test_what_is_like_an_array_on_one_device_stands_for_it(make):
    like = tw.ShapeDtypeStruct.like(make())
    assert tw.eval_shape(lambda x: x, like).dtype == like.dtype
    assert tw.jit(lambda x: x).lower(like).out_info.shape == like.shape


def test_a_grid_is_of_one_dtype_under_strict_promotion_too():
    with tw.config(numpy_dtype_promotion="strict"):
        grid = jnp.mgrid[0:1:3j, 2:4]
    np.testing.assert_array_equal(grid, np.mgrid[0:1:3j, 2:4])


ZERO = np.zeros((), tw.float0)


@pytest.mark.parametrize(
    "primal, tangent", [(1, 1), (1, 1.0), (1.0, 1), (1.0, jnp.array(1)), (1.0, jnp.int32(1)), (True, 1.0)], ids=repr
)
def test_tangents_of_another_kind_are_refused(primal, tangent):
    with pytest.raises(tw.errors.DifferentiationError, match="a tangent has type"):
        tw.jvp(lambda x: 2 * x, (primal,), (tangent,))
    with pytest.raises(tw.errors.DifferentiationError, match="a tangent has type"):
        tw.linearize(lambda x: 2 * x, primal)[1](tangent)


def test_tangents_of_integers_are_float0():
    assert tw.float0 == oracle_dtypes.float0
    _, tangent = tw.jvp(lambda x: 2 * x, (1,), (ZERO,))
    assert tangent.dtype == tw.float0
    _, tangents = tw.jvp(lambda x: (x * x, 3, 4.0), (1.0,), (1.0,))
    assert float(tangents[0]) == 2.0
    assert tangents[1].dtype == tw.float0
    assert float(tangents[2]) == 0.0


def test_compiled_functions_give_and_compare_float0():
    def cotangent(x):
        return tw.vjp(lambda x: 2.0 * x, x)[1](jnp.ones(3))[0]

    found = tw.jit(cotangent)(jnp.arange(3))
    assert (found.shape, found.dtype) == ((3,), tw.float0)
    same, other = tw.jit(lambda a, b: (a == b, a != b))(found, cotangent(jnp.arange(3)))
    assert same.all() and not other.any()


def _reversed(x):
    return x[::-1] * 3.0


def test_linear_functions_with_rules_of_their_own_are_transposed():
    forward, backward = tw.custom_jvp(_reversed), tw.custom_vjp(_reversed)
    forward.defjvp(lambda p, t: (_reversed(*p), _reversed(*t)))
    backward.defvjp(lambda x: (_reversed(x), None), lambda _, ct: (_reversed(ct),))
    for f in (forward, backward):
        (ct,) = tw.linear_transpose(tw.jit(f), jnp.ones(3))(jnp.arange(3.0))
        np.testing.assert_array_equal(ct, [6.0, 3.0, 0.0])


def test_the_source_of_an_equation_names_its_scopes():
    def f(x):
        with tw.named_scope("outer"), tw.named_scope("inner"):
            return x + 1

    (eqn,) = tw.make_jaxpr(f)(1.0).eqns
    assert str(eqn.source.scope) == "outer/inner"


def test_a_mesh_says_of_what_type_all_its_axes_are():
    mesh = tw.sharding.AbstractMesh((2,), ("x",))
    assert mesh.are_all_axes_auto
    assert not mesh.are_all_axes_explicit and not mesh.are_all_axes_manual


def test_a_tree_that_stands_for_an_array_is_one_under_every_transformation():
    @tw.tree_util.register_pytree_node_class
    class Parameter:
        def __init__(self, value):
            self.value = value

        shape = property(lambda self: self.value.shape)
        dtype = property(lambda self: self.value.dtype)

        def __jax_array__(self):
            return self.value

        def tree_flatten(self):
            return (self.value,), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    w = Parameter(jnp.ones((2, 3)))
    np.testing.assert_array_equal(jnp.dot(jnp.ones(2), w), [2.0, 2.0, 2.0])

    def loss(w):
        return (jnp.sin(w) * w + jnp.maximum(w, 0.0) + jnp.ones((2, 3)) * w).sum()

    expected = 6 * (np.sin(1.0) + 2)
    for f in (loss, tw.jit(loss)):
        np.testing.assert_allclose(f(w), expected, rtol=1e-6)
        np.testing.assert_allclose(tw.grad(f)(w).value, np.full((2, 3), np.sin(1.0) + np.cos(1.0) + 2), rtol=1e-6)
        np.testing.assert_allclose(tw.jvp(f, (w,), (w,))[1], 6 * (np.sin(1.0) + np.cos(1.0) + 2), rtol=1e-6)
        batched = tw.vmap(f)(Parameter(jnp.ones((4, 2, 3))))
        np.testing.assert_allclose(batched, np.full(4, expected), rtol=1e-6)


def test_structures_of_trees_are_copied_and_pickled():
    structure = tw.tree.structure({"a": (1, 2), "b": [3]})
    assert copy.deepcopy(structure) == structure
    assert pickle.loads(pickle.dumps(structure)) == structure


def test_derivatives_that_are_zero_are_arrays():
    _, tangent = tw.jvp(lambda x: jnp.float32(2.0), (1.0,), (1.0,))
    grad = tw.grad(lambda x: 2.0)(jnp.ones(()))
    (ct,) = tw.vjp(lambda x: jnp.ones(2), jnp.ones(3))[1](jnp.ones(2))
    assert all(isinstance(x, tw.Array) and not x.any() for x in (tangent, grad, ct))


def test_the_axes_of_the_mesh_in_force_mean_its_devices():
    mesh = tw.make_mesh((1,), ("x",))
    with tw.sharding.use_mesh(mesh):
        sharding = tw.NamedSharding(tw.sharding.get_abstract_mesh(), tw.P("x"))
        constrain = tw.lax.with_sharding_constraint
        assert constrain(jnp.ones(2), sharding).sharding.mesh is mesh
        assert tw.jit(lambda x: constrain(x, sharding))(jnp.ones(2)).sharding.mesh is mesh


def test_a_sharding_of_one_device_is_compared():
    one = tw.sharding.SingleDeviceSharding(tw.devices()[0])
    assert one.is_equivalent_to(tw.NamedSharding(tw.make_mesh((1,), ("x",)), tw.P("x")), 1)
    other = tw.sharding.SingleDeviceSharding(tw.devices()[-1])
    assert one.is_equivalent_to(other, 2) == (len(tw.devices()) == 1)


def test_device_get_leaves_keys():
    got = tw.device_get({"key": random.key(0), "x": jnp.ones(2)})
    assert isinstance(got["x"], np.ndarray)
    assert jnp.array_equal(got["key"], random.key(0))


def test_a_shape_may_be_an_array_of_sizes():
    sizes = jnp.asarray([2, -1])
    assert jnp.reshape(jnp.arange(6), sizes).shape == jnp.arange(6).reshape(sizes).shape == (2, 3)
    assert jnp.arange(6).reshape(np.array([3, 2])).shape == (3, 2)


def test_a_shape_may_say_along_which_axes_devices_differ():
    manual = SimpleNamespace(varying={"i"})
    seen = []
    tw.eval_shape(lambda x: seen.append(tw.typeof(x).vary), tw.ShapeDtypeStruct((2,), "f", manual_axis_type=manual))
    assert seen == [{"i"}]


@pytest.mark.parametrize("how", [{"is_ref": True}, {"manual_axis_type": SimpleNamespace(unreduced={"i"})}])
def test_shapes_of_what_is_no_array_are_refused(how):
    with pytest.raises(tw.errors.UnsupportedError, match=next(iter(how))):
        tw.ShapeDtypeStruct((2,), "float32", **how)


def test_pmap_on_the_devices_of_a_platform():
    x = np.ones((1, 2), np.float32)
    assert tw.pmap(lambda x: x + 1, backend="cpu")(x).tolist() == [[2, 2]]
    with pytest.raises(tw.errors.ArgumentError, match="backend"):
        tw.pmap(lambda x: x, backend="cpu", devices=tw.devices())


def test_lists_of_traced_integers_are_indices():
    x = np.arange(12.0).reshape(3, 4)
    for index in (lambda i: ([0, i],), lambda i: ([0, i], [[1], [i]]), lambda i: [np.int32(1), i, 2]):
        got = tw.jit(lambda x, i, index=index: (x[index(i)], x.at[index(i)].set(-1.0)))(x, 2)
        changed = x.copy()
        changed[index(2)] = -1
        np.testing.assert_array_equal(got[0], x[index(2)])
        np.testing.assert_array_equal(got[1], changed)


def test_a_slice_without_a_start_begins_at_the_first():
    assert tw.ds(None, stride=2) == slice(None, None, 2)
    assert tw.ds(None, 5) == tw.ds(0, 5) and jnp.arange(4)[tw.ds(None, stride=2)].tolist() == [0, 2]


@pytest.mark.parametrize("kind", ["float32", "int8", "bool", "complex64"])
def test_memory_of_arrays_is_pythons_to_read(kind):
    x = np.arange(6).reshape(2, 3).astype(kind)
    view = memoryview(jnp.asarray(x))
    assert view.tobytes() == bytes(jnp.asarray(x)) == x.tobytes() and view.shape == (2, 3) and view.readonly
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(jnp.ones(2, jnp.bfloat16))


@pytest.mark.parametrize("preset", tw.lax.DotAlgorithmPreset, ids=lambda p: p.name)
def test_the_default_precision_may_be_an_algorithm(preset):
    with tw.default_matmul_precision(preset.name if preset.name != "DEFAULT" else "default"):
        program = tw.make_jaxpr(jnp.dot)(jnp.ones((2, 2)), jnp.ones((2, 2)))
    assert program.eqns[-1].params["precision"] == (preset.precision, preset.precision)


def test_numbers_where_numpy_takes_them():
    assert [x.shape for x in jnp.split(jnp.ones((3, 4)), 2.0, 1)] == [(3, 2), (3, 2)]
    assert jnp.ones(np.array(4)).shape == (4,)
    for k in (-(2**100), -1, 2**100):
        np.testing.assert_array_equal(tw.jit(lambda k=k: jnp.eye(3, 4, k))(), np.eye(3, 4, k))
    assert jnp.linspace(jnp.ones(2), 2, 1, retstep=True)[1].shape == ()
    assert jnp.ravel_multi_index((1, 2), (2, 3), mode="ignore") == 5
    assert jnp.arange(8).astype("int4").view("int8").tolist() == [0x10, 0x32, 0x54, 0x76]
    for call, error in (
        (lambda: jnp.split(jnp.ones(4), 1.5), TypeError), (lambda: jnp.array([0, -(2**63) - 1]), OverflowError),
        (lambda: jnp.take_along_axis(jnp.arange(5), jnp.ones(1), 0), TypeError),
        (lambda: jnp.interp(0.0, jnp.ones(2), jnp.ones(2), period=np.ones(1)), ValueError),
        (lambda: tw.jit(lambda x: x.tobytes())(1.0), tw.errors.TracerArrayConversionError),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            call()
        assert isinstance(caught.value, tw.errors.TilewrightError)


def test_loops_of_a_batch_without_jit():
    with tw.disable_jit():
        got = tw.vmap(lambda x: tw.lax.while_loop(lambda v: v < 3, lambda v: v + 1, x))(jnp.arange(5))
    assert got.tolist() == [3, 3, 3, 3, 4]


def test_the_residual_of_attention_has_the_dtype_of_its_operands():
    q = jnp.ones((1, 2, 1, 4), jnp.bfloat16)
    assert [x.dtype for x in tw.nn.dot_product_attention(q, q, q, return_residual=True)] == [jnp.bfloat16] * 2


@pytest.mark.parametrize("number", [-1, 300, 2**32 - 1])
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "float32"])
def test_integers_fill_arrays_of_a_dtype_wrapped_round(number, dtype):
    for fill in (lambda: jnp.full(2, number, dtype), tw.jit(lambda: jnp.full_like(jnp.ones(2), number, dtype))):
        np.testing.assert_array_equal(fill(), np.full(2, np.asarray(number).astype(dtype)))


def test_arrays_are_made_of_parts_that_are_keys():
    rows = tw.NamedSharding(tw.make_mesh((1,), ("x",)), tw.P("x"))
    keys = random.split(random.key(0), 2)
    for made in (
        tw.make_array_from_callback((2,), rows, lambda index: keys[index]),
        tw.make_array_from_single_device_arrays((2,), rows, [keys]),
        tw.make_array_from_process_local_data(rows, keys),
        tw.make_array_from_process_local_data(tw.sharding.SingleDeviceSharding(tw.devices()[0]), keys),
    ):
        assert jnp.array_equal(made, keys)


def test_what_is_not_finite_on_one_device_of_a_mesh_is_told():
    rows = tw.P("x")
    f = tw.shard_map(lambda x: 0 / x, mesh=tw.make_mesh((1,), ("x",)), in_specs=rows, out_specs=rows)
    with tw.debug_nans(), pytest.raises(tw.errors.NonFiniteError, match=r"f32\[1\]\{V:x\}"):
        f(jnp.zeros(1))


def test_gradients_are_checked_for_complex_results_of_real_numbers():
    tw.test_util.check_grads(lambda x: jnp.exp(1j * x) * x, (1.5,), 2, ("rev",))


def test_shapes_as_values():
    assert tw.lax.shape_as_value((2, 3)).tolist() == [2, 3] and tw.lax.shape_as_value(()).shape == (0,)
    shape = tw.export.symbolic_shape("a, 3, b")
    exported = tw.export.export(tw.jit(lambda x: tw.lax.shape_as_value(x.shape)))(tw.ShapeDtypeStruct(shape, "int8"))
    assert exported.call(np.ones((4, 3, 5), np.int8)).tolist() == [4, 3, 5]


def test_dtypes_that_promote_to_nothing_are_named():
    with pytest.raises(tw.errors.DtypeError, match="float32, float6_e2m3fn have no implicit common type"):
        jnp.promote_types("float6_e2m3fn", "float32")


def test_known_integers_out_of_bounds_are_errors_where_asked():
    x = jnp.zeros((2, 3))
    read = tw.jit(lambda x: x[:, 3])
    with tw.config(check_static_indices=True):
        for outside in (lambda: x[2], lambda: x[None, 0, -4], lambda: read(x), lambda: x.at[np.arange(2), 3].get()):
            with pytest.raises(IndexError, match="out of bounds for axis"):
                outside()
        assert x[-2, 2] == x.at[5].get(mode="clip")[0] == 0
    assert x[2].shape == (3,) and read(x).shape == (2,)
