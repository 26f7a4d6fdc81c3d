"""Every public function with a derivative has, on each shard of a mesh, the gradient that it has there alone.

Inside `shard_map` and outside of it, under `pmap`, with operands that vary over the devices beside shared ones. Values
are computed by NumPy, so that nothing is compiled, but for one compiled case of each rule that a user may write.
"""

import itertools

import numpy as np
import pytest

import tilewright as tw
from tests.support.laws import CASES, differentiable, function_of, operands
from tests.support.surface import SPACES, calls
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.ir.binding import under
from tilewright.core.ir.types import is_complex
from tilewright.core.primitives.custom.custom_derivatives import linear_call
from tilewright.core.tracing.numpy_interpreter import NUMPY
from tilewright.sharding import P

MESHES = [tw.make_mesh((n,), ("x",)) for n in (4, 8)]
SCALES = np.linspace(0.75, 1, 8, dtype=np.float32)[::-1]


def scalar(f, *args):
    """A weighted sum of a function's inexact results."""
    outs = [x for x in tw.tree.leaves(f(*args)) if x.dtype.kind in "fc"]
    terms = [(tnp.real(x) * np.cos(np.arange(x.size, dtype=np.float32)).reshape(x.shape)).sum() for x in outs]
    return sum(terms) if terms else 0.0 * args[0].sum()


def shards(args, count):
    return [[(x * s).astype(x.dtype) for x in args] for s in SCALES[:count]]


def stacked(rows):
    return [np.stack(xs) for xs in zip(*rows, strict=True)]


def on_each(loss, count):
    """The loss of each shard, as a function of arrays of all of which some are shared by the devices."""
    mesh = MESHES[(count == 8)]

    def total(shared, check, *args):
        specs = tuple(P() if s else P("x") for s in shared)
        body = lambda *parts: loss(*(p if s else p[0] for p, s in zip(parts, shared, strict=True)))[None]  # noqa: E731
        return tw.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("x"), check_vma=check)(*args).sum()

    return total


def by_numpy(f, *args):
    return under(NUMPY, f, *args)


def compiled(f, *args):
    return tw.jit(f)(*args)


def forms(loss, args, count, run=by_numpy):
    """Pairs of gradients on a mesh and without one, by name."""
    every, rows = tuple(range(len(args))), shards(args, count)
    alone = [run(tw.grad(loss, every), *row) for row in rows]
    wanted, whole, total = stacked(alone), stacked(rows), on_each(loss, count)
    inside = lambda *parts: [g[None] for g in tw.grad(loss, every)(*(p[0] for p in parts))]  # noqa: E731
    for check in (True, False):
        mapped = tw.shard_map(inside, mesh=MESHES[(count == 8)], in_specs=P("x"), out_specs=P("x"), check_vma=check)
        yield f"inside, check_vma={check}", run(mapped, *whole), wanted
    split = (False,) * len(args)
    yield "outside", run(lambda *a: tw.grad(lambda *a: total(split, True, *a), every)(*a), *whole), wanted
    pmapped = tw.pmap(tw.grad(loss, every), axis_name="i", devices=tw.devices()[:count])
    yield "pmap", run(pmapped, *whole), wanted
    for kept in range(len(args) if len(args) > 1 else 0):  # one operand varies, the others are shared
        shared = tuple(i != kept for i in every)
        mixed = [rows[0][i] if s else whole[i] for i, s in enumerate(shared)]
        each = [run(tw.grad(loss, every), *(m if s else m[d] for m, s in zip(mixed, shared, strict=True)))
                for d in range(count)]  # fmt: skip
        sums = [g.sum(0) if s else g for g, s in zip(stacked(each), shared, strict=True)]
        found = run(lambda *a, s=shared: tw.grad(lambda *a: total(s, True, *a), every)(*a), *mixed)
        yield f"only operand {kept} varies", found, sums


def wrong_forms(f, args, count, run=by_numpy):
    loss, found = (lambda *a: scalar(f, *a)), {}
    with np.errstate(all="ignore"):
        for name, gradients, wanted in forms(loss, args, count, run):
            for a, b in zip(gradients, wanted, strict=True):
                scale = np.nanmax(np.abs(b), initial=0, where=np.isfinite(b))
                near = 10 if b.dtype.itemsize == 2 else 1  # sums in half precision
                if not np.allclose(a, b, rtol=1e-3 * near, atol=1e-4 * near * (1 + scale), equal_nan=True):
                    found[name] = np.asarray(a), b
    return found


PARTS = 8


@pytest.mark.law
@pytest.mark.parametrize("part", range(PARTS))
@SPACES
def test_gradients_of_public_functions_on_shards(space, part):
    wrong, count = {}, 8 if part == 0 else 4
    for name, f, args in itertools.islice(calls(space), part, None, PARTS):
        try:
            found = wrong_forms(f, args, count)
        except (tw.errors.NoDerivativeError, tw.errors.TracerArrayConversionError):  # or a size that depends on values
            continue
        if found:
            wrong[name] = found
    assert not wrong


TAKEN = [c for c in CASES if differentiable(c) and not any(is_complex(t.dtype) for t in c.types)]


@pytest.mark.law
@pytest.mark.parametrize("case", TAKEN, ids=str)
def test_gradients_of_primitives_on_shards(case):
    f, args = function_of(case, operands(case), differentiable(case), case.params)
    assert not wrong_forms(f, args, 4)


def tripled(x, w):
    return 2 * x * w


custom_jvp = tw.custom_jvp(tripled)
custom_jvp.defjvp(lambda p, t: (tripled(*p), 3 * (t[0] * p[1] + p[0] * t[1])))
by_operand = tw.custom_jvp(tripled)
by_operand.defjvps(lambda t, out, x, w: 3 * t * w, lambda t, out, x, w: t * x + t * x + t * x)
custom_vjp = tw.custom_vjp(tripled)
custom_vjp.defvjp(lambda x, w: (tripled(x, w), (x, w)), lambda r, ct: (3 * ct * r[1], 3 * ct * r[0]))
batched = tw.custom_batching.custom_vmap(lambda x, w: tnp.sin(x) * w)
batched.def_vmap(lambda size, flags, x, w: (tnp.sin(x) * w, True))


@tw.custom_jvp
def of_one_tangent(x, w):
    return x * w


of_one_tangent.defjvp(lambda p, t: (p[0] * p[1], t[0] * p[1]))


def root(x, w):
    newton = lambda f, y: lax.fori_loop(0, 20, lambda _, y: 0.5 * (y + (x * w) ** 2 / y), y)  # noqa: E731
    divided = lambda g, y: y / g(tnp.ones_like(y))  # noqa: E731
    return lax.custom_root(lambda y: y * y - (x * w) ** 2, tnp.ones_like(x), newton, divided)


def solved(x, w):
    divided = lambda _, b: b / (1 + x * x)  # noqa: E731
    return lax.custom_linear_solve(lambda y: y * (1 + x * x), tnp.ones_like(w), divided, divided) * w


RULES = {
    "custom_jvp": custom_jvp, "defjvps": by_operand, "custom_vjp": custom_vjp, "one tangent": of_one_tangent,
    "custom_root": root, "custom_linear_solve": solved,
    "linear_call": lambda x, w: linear_call(lambda r, x: r * x, lambda r, ct: 3 * r * ct, w, x),
    "custom_gradient": tw.custom_gradient(lambda x, w: (x * w, lambda ct: (3 * ct * w, 3 * ct * x))),
    "custom_jvp in a scan": lambda x, w: lax.scan(lambda c, _: (custom_jvp(c, w), c), x, None, length=3)[0],
    "custom_jvp in checkpoint": tw.checkpoint(lambda x, w: custom_jvp(tnp.sin(x), w)),
    "custom_jvp in a branch": lambda x, w: lax.cond(x.sum() > 1, custom_jvp, tripled, x, w),
    "custom_jvp under vmap": tw.vmap(custom_jvp),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("run", [by_numpy, compiled])
@pytest.mark.parametrize("name", RULES)
def test_gradients_of_users_rules_on_shards(name, run):
    args = [np.linspace(lo, hi, 6, dtype=np.float32).reshape(2, 3) for lo, hi in ((0.3, 0.9), (1.2, 0.5))]
    assert not wrong_forms(RULES[name], args, 4, run)


def test_forward_mode_of_custom_vmap_on_shards():
    """Its rule says nothing of transposes: forward mode only."""
    x, w = np.linspace(0.3, 0.9, 8, dtype=np.float32), np.float32(2.0)
    body = lambda x: tw.jvp(batched, (x, w), (tnp.ones_like(x), w))[1]  # noqa: E731
    found = tw.shard_map(body, mesh=MESHES[0], in_specs=P("x"), out_specs=P("x"))(x)
    np.testing.assert_allclose(found, 2 * np.cos(x) + 2 * np.sin(x), rtol=1e-6)


X = np.linspace(-1, 1, 8 * 4, dtype=np.float32).reshape(8, 4)
W = np.linspace(-0.6, 0.7, 16, dtype=np.float32).reshape(4, 4)


def _powers(n, x, w):
    return (lax.fori_loop(0, n, lambda _, c: tnp.tanh(c @ w) * 1.1, x, checkpoints=4) ** 2).sum()


@pytest.mark.parametrize("explicit", [False, True])
def test_loops_with_traced_bounds_on_a_mesh(explicit):
    types = {"axis_types": (tw.sharding.AxisType.Explicit,)} if explicit else {}
    mesh = tw.make_mesh((8,), ("x",), **types)
    wanted = tw.grad(_powers, (1, 2))(6, X, W)  # a scan
    with tw.set_mesh(mesh):
        x = tw.device_put(X, tw.sharding.NamedSharding(mesh, P("x")))
        w = tw.device_put(W, tw.sharding.NamedSharding(mesh, P()))
        found = tw.jit(tw.grad(_powers, (1, 2)))(6, x, w)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_devices_run_loops_of_other_lengths_backwards():
    """The gradient of what devices share is a sum in each iteration, which devices that are done take part in."""
    n = np.array([0, 3, 1, 7, 2, 2, 5, 4], np.int32)
    mesh = MESHES[1]
    local = lambda n, x, w: _powers(n[0], x, w)[None]  # noqa: E731
    total = lambda x, w: tw.shard_map(  # noqa: E731
        local, mesh=mesh, in_specs=(P("x"), P("x"), P()), out_specs=P("x"))(n, x, w).sum()
    found = tw.jit(tw.grad(total, (0, 1)))(X, W)
    wanted = tw.grad(lambda x, w: sum(_powers(int(k), x[i : i + 1], w) for i, k in enumerate(n)), (0, 1))(X, W)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
