"""What clients reach into: primitives of their own under every transformation, jaxprs, wrapped functions, traces."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as jnp
from tilewright.as_jax.jax import api_util, core
from tilewright.as_jax.jax._src.tree_util import prefix_errors
from tilewright.as_jax.jax.extend import core as jex
from tilewright.as_jax.jax.extend import linear_util as lu
from tilewright.as_jax.jax.interpreters import ad, batching, mlir
from tilewright.as_jax.jax.interpreters import partial_eval as pe
from tilewright.as_jax.jaxprs import view


def make_powers(lowered=True):
    """powers(x; n) -> x**n, x**(n+1), with all of a client's registrations."""
    powers_p = jex.Primitive("powers")
    powers_p.multiple_results = True

    def impl(x, *, n):
        return [x**n, x ** (n + 1)]

    @powers_p.def_abstract_eval
    def _(x, *, n):
        return [core.ShapedArray(x.shape, x.dtype)] * 2

    def jvp(primals, tangents, *, n):
        ((x,), (t,)) = primals, tangents
        assert type(t) is not ad.Zero
        low = powers_p.bind(x, n=n - 1)[0]
        outs = powers_p.bind(x, n=n)
        return outs, [t * low * n, t * outs[0] * (n + 1)]

    def batch(args, dims, *, n):
        return powers_p.bind(*args, n=n), dims * 2

    powers_p.def_impl(impl)
    ad.primitive_jvps[powers_p] = jvp
    batching.primitive_batchers[powers_p] = batch
    if lowered:
        mlir.register_lowering(powers_p, mlir.lower_fun(impl, multiple_results=True))
    assert ad.primitive_jvps[powers_p] is jvp and batching.primitive_batchers[powers_p] is batch
    return powers_p


def test_a_primitive_of_a_client_under_every_transformation():
    p = make_powers()

    def f(x):
        low, high = p.bind(x, n=3)
        return jnp.sum(low * high)  # x ** 7

    x = np.array([0.5, -1.5, 2.0], np.float32)
    slope = 7 * x**6
    assert np.allclose(f(x), np.sum(x**7))
    assert np.allclose(tw.jit(f)(x), np.sum(x**7))
    assert np.allclose(tw.grad(f)(x), slope, rtol=1e-5)
    assert np.allclose(tw.jit(tw.grad(f))(x), slope, rtol=1e-5)
    assert np.allclose(tw.jvp(f, (x,), (np.ones_like(x),))[1], slope.sum(), rtol=1e-5)
    assert np.allclose(tw.vmap(tw.grad(f))(np.stack([x, 2 * x])), np.stack([slope, 64 * slope]), rtol=1e-5)
    assert np.allclose(tw.jit(tw.hessian(f))(x), np.diag(42 * x**5), rtol=1e-4)
    looped = tw.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: p.bind(c, n=2)[0], x))
    assert np.allclose(looped(x), x**4, rtol=1e-5)
    assert np.allclose(tw.jit(tw.checkpoint(f))(x), np.sum(x**7), rtol=1e-5)
    assert [t.shape for t in tw.eval_shape(lambda x: p.bind(x, n=1), x)] == [(3,), (3,)]


def test_a_primitive_without_a_rule_says_which():
    p = make_powers(lowered=False)
    assert np.allclose(p.bind(2.0, n=2)[1], 8.0)
    with pytest.raises(NotImplementedError, match="powers has no lowering"):
        tw.jit(lambda x: p.bind(x, n=2))(2.0)
    bare = jex.Primitive("bare")
    with pytest.raises(NotImplementedError, match="bare has no rule for the types"):
        tw.jit(bare.bind)(1.0)


def test_linear_primitives_and_transposes():
    twice = jex.Primitive("twice")
    twice.def_abstract_eval(lambda x: x)
    mlir.register_lowering(twice, mlir.lower_fun(lambda x: x * 2, multiple_results=False))
    ad.deflinear(twice, lambda ct: [twice.bind(ct)])
    batching.defvectorized(twice)
    x = np.arange(3.0, dtype=np.float32)
    assert np.allclose(tw.grad(lambda x: jnp.sum(twice.bind(x) * x))(x), 4 * x)
    assert np.allclose(tw.vmap(twice.bind)(x), 2 * x)
    assert np.allclose(tw.linear_transpose(twice.bind, x)(x)[0], 2 * x)


def test_rules_of_our_primitives_are_read_by_the_same_registries():
    (y, t) = ad.primitive_jvps[jex_primitive("sin_p")]((1.0,), (2.0,))
    assert np.allclose(y, np.sin(1.0)) and np.allclose(t, 2 * np.cos(1.0))
    out, dim = batching.primitive_batchers[jex_primitive("reduce_sum_p")]((np.ones((2, 3)),), (0,), axes=(0,))
    assert dim == 0 and np.allclose(np.asarray(out), 3)
    assert jex_primitive("neg_p") in ad.primitive_transposes and jex_primitive("floor_p") not in ad.primitive_transposes


def jex_primitive(name):
    from tilewright.as_jax.jax.extend.core import primitives

    return getattr(primitives, name)


def test_jaxprs_are_read_changed_and_evaluated():
    def f(x):
        return tw.jit(lambda y: jnp.sin(y) + np.arange(3.0, dtype="float32"))(x) * 2

    closed = view(tw.make_jaxpr(f)(np.ones(3, np.float32)))
    assert isinstance(closed, jex.ClosedJaxpr) and isinstance(closed.jaxpr, jex.Jaxpr)
    eqn = next(e for e in closed.eqns if e.primitive is jex_primitive("jit_p"))
    inner = eqn.params["jaxpr"]
    assert "jaxpr" in eqn.params and isinstance(inner, jex.ClosedJaxpr) and inner.eqns[0].primitive.name == "sin"
    x = np.array([0.1, 0.2, 0.3], np.float32)
    wanted = (np.sin(x) + np.arange(3)) * 2
    assert np.allclose(core.eval_jaxpr(closed.jaxpr, closed.consts, x)[0], wanted)
    assert np.allclose(jex.jaxpr_as_fun(closed)(x)[0], wanted)

    def interpret(jaxpr, consts, *args):  # as interpreters of clients are written
        env = dict(zip(jaxpr.constvars, consts)) | dict(zip(jaxpr.invars, args))
        for eqn in jaxpr.eqns:
            values = [a.val if isinstance(a, jex.Literal) else env[a] for a in eqn.invars]
            out = eqn.primitive.bind(*values, **eqn.params)
            env |= dict(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
        return [env[v] for v in jaxpr.outvars]

    assert np.allclose(interpret(closed.jaxpr, closed.consts, x)[0], wanted)
    params = eqn.params.copy()  # as inverses of clients are made
    params["jaxpr"] = view(tw.make_jaxpr(lambda y: y * 5)(params.pop("jaxpr").in_avals[-1]))
    assert np.allclose(eqn.primitive.bind(x, **params)[0], x * 5)
    swapped = closed.replace(eqns=closed.eqns[:-1], outvars=list(closed.eqns[-2].outvars))
    assert np.allclose(jex.jaxpr_as_fun(swapped)(x)[0], wanted / 2)
    less, used = pe.dce_jaxpr(view(tw.make_jaxpr(lambda a, b: (a + 1, b * 2))(1.0, 2.0)), [True, False])
    assert used == [True, False] and len(less.eqns) == 1


def test_wrapped_functions():
    @lu.transformation_with_aux
    def counted(start, *args):
        out = yield args, {}
        yield out, start + len(args)

    f, count = counted(lu.wrap_init(lambda x, y: x - y), 10)
    with pytest.raises(lu.StoreException):
        count()
    assert f.call_wrapped(5, 3) == 2 and count() == 12
    flat, tree = api_util.flatten_fun(lu.wrap_init(lambda x, k: {"a": x, "b": k}), tw.tree.structure(((1,), {"k": 2})))
    assert flat.call_wrapped(3, 4) == [3, 4] and tree() == tw.tree.structure({"a": 0, "b": 0})
    knowns = [pe.PartialVal.known(2.0), pe.PartialVal.unknown(core.ShapedArray((), np.float32))]
    jaxpr, outs, consts = pe.trace_to_jaxpr_nounits(lu.wrap_init(lambda a, b: [a * 3, a * b]), knowns)
    assert outs[0].get_known() == 6.0 and not outs[1].is_known() and len(jaxpr.outvars) == 1
    assert float(core.eval_jaxpr(jaxpr, consts, 5.0)[0]) == 10.0


def test_traces_of_clients_and_the_state_of_tracing():
    class Counting(core.Trace):
        def __init__(self, parent):
            super().__init__()
            self.parent_trace, self.seen = parent, []

        def process_primitive(self, primitive, tracers, params):
            self.seen.append(primitive.name)
            values = [t.value if isinstance(t, Box) else t for t in tracers]
            out = primitive.bind_with_trace(self.parent_trace, values, params)
            return [Box(self, x) for x in out] if primitive.multiple_results else Box(self, out)

    class Box(core.Tracer):
        def __init__(self, trace, value):
            super().__init__(trace, tw.typeof(value))
            self.value = value

    with jex.take_current_trace() as parent:
        trace = Counting(parent)
        with jex.set_current_trace(trace):
            out = jnp.sin(Box(trace, jnp.float32(2.0))) * 3.0
    assert np.allclose(out.value, 3 * np.sin(2.0)) and trace.seen[-1] == "mul" and isinstance(out, tw.Array)
    here = jex.get_opaque_trace_state(convention="test")
    assert here == jex.get_opaque_trace_state()
    assert tw.jit(lambda x: x * (here != jex.get_opaque_trace_state()))(1.0) == 1.0
    assert not jex.unsafe_am_i_under_a_jit_DO_NOT_USE()


def test_where_a_tree_is_no_prefix():
    assert not prefix_errors((1, None), ({"a": 2}, None))
    first, second = prefix_errors([1, [2], {"b": (3,)}], [1, 2, {"b": [3]}])
    assert "in_axes[1] is" in str(first("in_axes")) and "in_axes[2]['b'] is" in str(second("in_axes"))


def test_primitives_of_the_package_are_primitives():
    assert isinstance(lax.add_p, jex.Primitive) and not isinstance(lax.add, jex.Primitive)


@pytest.mark.parametrize("ocdbt", [False, True])
def test_arrays_are_saved_by_tensorstore_and_read_as_they_are_to_lie(tmp_path, ocdbt):
    pytest.importorskip("tensorstore")
    from tilewright.as_jax.jax.experimental.array_serialization import serialization

    arrays = [jnp.arange(6.0).reshape(2, 3), jnp.asarray(2, jnp.bfloat16)]
    specs = [serialization.get_tensorstore_spec(tmp_path / name, ocdbt) for name in "ab"]
    done, manager = [], serialization.GlobalAsyncCheckpointManager()
    manager.serialize(arrays, specs, on_commit_callback=lambda: done.append(1))
    manager.wait_until_finished()
    lies = tw.sharding.NamedSharding(tw.make_mesh((1,), ("x",)), tw.P("x"))
    whole = tw.sharding.SingleDeviceSharding(tw.devices()[0])
    first, second = manager.deserialize([lies, whole], specs, global_shapes=[(3, 3), ()], dtypes=[np.int32, None])
    assert done == [1] and first.sharding is lies and second.dtype == jnp.bfloat16 and second == 2
    assert first.tolist() == [[0, 1, 2], [3, 4, 5], [0, 0, 0]]
    manager.serialize(arrays, specs, on_commit_callback=lambda: 1 // 0)
    with pytest.raises(tw.errors.CheckpointWriteError):
        manager.wait_until_finished()


def test_one_process_has_no_coordination_service():
    from tilewright.as_jax.jax._src.distributed import global_state

    assert global_state.client is None and (global_state.process_id, global_state.num_processes) == (0, 1)


def test_the_errors_that_clients_catch_by_private_names():
    from tilewright.as_jax.jax._src import interpreters

    assert issubclass(interpreters.ad.CustomVJPException, tw.errors.DifferentiationError)


def test_types_name_the_axes_along_which_values_vary():
    mesh, seen = tw.make_mesh((1,), ("x",)), []
    tw.shard_map(lambda x: seen.append(tw.typeof(x).mat) or x, mesh=mesh, in_specs=tw.P("x"), out_specs=tw.P("x"))(
        jnp.arange(2.0))  # fmt: skip
    assert seen[-1].varying == {"x"} and not seen[-1].unreduced and not tw.typeof(jnp.arange(2.0)).mat.varying


class Tag(jex.Primitive):
    """tag(x, y) -> (x,): its rules are methods of the class, as kfac-jax defines its tags."""

    multiple_results = True  # type: ignore[assignment]

    def impl(self, x, y):
        return (x,)

    def abstract_eval(self, x, y):
        return (x,), jex.no_effects

    def _lower(self, _, x, y):
        return (x,)


def test_rules_that_are_methods_of_a_clients_class():
    tag = Tag("tag")
    mlir.register_lowering(tag, tag._lower)
    ad.primitive_jvps[tag] = lambda primals, tangents: (tag.bind(*primals), tangents[:1])
    batching.primitive_batchers[tag] = lambda args, dims: (tag.bind(*args), dims[:1])
    assert tag.multiple_results and not jex.Primitive("untagged").multiple_results
    x, y = np.arange(3.0, dtype=np.float32), np.float32(2)

    def f(x):
        (z,) = tag.bind(x * x, y)
        return jnp.sum(z)

    assert np.allclose(tag.bind(x, y)[0], x)
    for form in (f, tw.jit(f)):
        assert np.allclose(form(x), np.sum(x * x)) and np.allclose(tw.grad(form)(x), 2 * x)
    assert np.allclose(tw.vmap(lambda x: tag.bind(x, y)[0])(x), x)
    types, effects = tag.abstract_eval(core.ShapedArray((3,), np.float32), core.ShapedArray((), np.float32))
    assert types[0].shape == (3,) and not effects


def test_equations_are_changed_by_jaxs_names():
    def f(x):
        return jnp.sin(x) + 1

    jaxpr = view(tw.make_jaxpr(f)(np.float32(2)))
    first, last = jaxpr.eqns
    again = last.replace(invars=[first.outvars[0], first.outvars[0]])
    assert again.invars == [first.outvars[0]] * 2 and again.outvars == last.outvars
    (double,) = jaxpr.replace(eqns=[first, again]).eqns[1:]
    assert np.allclose(core.eval_jaxpr(jaxpr.replace(eqns=[first, double]), (), np.float32(2))[0], 2 * np.sin(2.0))
    wide = view(tw.make_jaxpr(lambda x: lax.broadcast_in_dim(x, (2, 3), (1,)))(np.ones(3, np.float32))).eqns[0]
    changed = wide.replace(params={"shape": (4, 3), "broadcast_dimensions": (1,), "sharding": None})
    assert dict(changed.params) == {**wide.params, "shape": (4, 3)}
    with pytest.raises(TypeError, match="no 'outs'"):
        wide.replace(outs=[])


def test_literals_of_weak_types_are_python_numbers_and_stay_weak():
    tag = Tag("tag")

    def f(x):
        return tag.bind(x * x, 1.0)

    def again(x):
        return core.eval_jaxpr(jaxpr, (), x)

    x = np.ones(3, np.float32)
    jaxpr = view(tw.make_jaxpr(f)(x))
    for found in (jaxpr, view(tw.make_jaxpr(again)(x))):
        literal = found.eqns[-1].invars[1]
        assert type(literal.val) is float and literal.val == 1 and literal.aval.weak_type
