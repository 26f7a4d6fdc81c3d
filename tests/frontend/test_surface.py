"""Laws of every public function on arrays: it is called, its batches are loops, its derivatives those of differences.

The calls are those of `tests/support/calls/surface_calls.py`. Values are computed by NumPy, so that nothing is
compiled; that compiled programs agree is looked at with the targets. `python -m benchmarks.compatibility.agreement`
holds the calls against jax.
"""

import importlib

import numpy as np
import pytest

import tilewright as tw
from docs.names import REFERENCE
from tests.support.calls.surface_calls import CALLS, ELSEWHERE, NOT_SMOOTH
from tests.support.surface import SPACES, calls
from tilewright import numpy as tnp
from tilewright.core.ir.binding import under
from tilewright.core.tracing.numpy_interpreter import NUMPY


def but(*long):
    """All namespaces, those that take long with the targets."""
    marked = [pytest.param(s, marks=pytest.mark.targets) if s in long else s for s in CALLS]
    return pytest.mark.parametrize("space", marked)


@SPACES
def test_every_documented_function_is_called(space):
    names = {name for documented, names in REFERENCE.items() if documented == f"jax.{space}" for name in names}
    called = {name.partition(".")[0] for name, _, _ in CALLS[space]}
    found = {name for name in names if callable(getattr(importlib.import_module(f"tilewright.{space}"), name, None))}
    assert found - called - set(ELSEWHERE.get(space, "").split()) == set()


def test_every_documented_function_of_distributions_is_called():
    names = {
        f"{space.removeprefix('jax.scipy.stats.')}.{name}"
        for space, names in REFERENCE.items()
        if space.startswith("jax.scipy.stats.") and not space.endswith("gaussian_kde")
        for name in names
    }
    assert names - {name for name, _, _ in CALLS["scipy.stats"]} == set()


@but("random", "scipy.stats")
def test_batches_are_loops(space):
    wrong = {}
    for name, f, args in calls(space):
        rows, axes = [args, [x * np.float32(0.75) for x in args]], tuple([n % 2 - 1 for n in range(len(args))])
        batch = [np.stack(xs, d) for *xs, d in zip(*rows, axes, strict=True)]  # axes last and first by turns
        with np.errstate(all="ignore"):
            found = under(NUMPY, tw.vmap(f, in_axes=axes, out_axes=-1), *batch)
            outs = [under(NUMPY, f, *row) for row in rows]
        for out, *each in zip(found, *outs, strict=True):
            if not np.allclose(out, np.stack(each, -1), rtol=1e-4, atol=1e-4, equal_nan=True):
                wrong[name] = out, each
    assert not wrong


@but("lax", "numpy", "random", "scipy.special", "scipy.stats")
def test_two_derivatives_are_those_of_differences(space):
    """Along a random direction, of a random sum of the results, in double precision; backwards as forwards.

    The second is taken forwards over forwards, and forwards over backwards.
    """
    rng, wrong, h = np.random.default_rng(0), {}, 1e-4
    for name, f, args in calls(space):
        if (space, name.partition(" ")[0]) in NOT_SMOOTH:
            continue
        with tw.config(enable_x64=True), np.errstate(all="ignore"):
            args = [x.astype(np.float64) for x in args]
            along = [rng.uniform(0.2, 1, x.shape) for x in args]
            outs = [x for x in under(NUMPY, f, *args)]
            weights = [rng.uniform(0.5, 1, np.shape(x)) for x in outs]

            def line(t, f=f, args=args, along=along, weights=weights):
                outs = f(*(x + t * v for x, v in zip(args, along, strict=True)))
                kept = [(tnp.asarray(x), w) for x, w in zip(outs, weights, strict=True) if x.dtype.kind in "fc"]
                return sum((tnp.real(x) * w).sum() for x, w in kept) if kept else 0.0 * t

            def slope(t, line=line):
                return tw.jvp(line, (t,), (1.0,))[1]

            try:
                values = [float(under(NUMPY, line, np.float64(t * h))) for t in (-2, -1, 0, 1, 2)]
                slopes = [float(under(NUMPY, slope, np.float64(t * h))) for t in (-2, -1, 0, 1, 2)]
                second = float(under(NUMPY, lambda t: tw.jvp(slope, (t,), (1.0,))[1], np.float64(0)))
                over = under(NUMPY, lambda t, line=line: tw.jvp(tw.grad(line), (t,), (1.0,)), np.float64(0))
            except tw.errors.NoDerivativeError:
                continue
        rates = [(v[0] - 8 * v[1] + 8 * v[3] - v[4]) / (12 * h) for v in (values, slopes)]
        wanted, found = [rates[0], slopes[2], rates[1], rates[1]], [slopes[2], float(over[0]), second, float(over[1])]
        if not np.isfinite([*values, *slopes]).all():
            continue
        if not np.allclose(found, wanted, rtol=1e-3, atol=1e-3 * (1 + abs(values[2]))):
            wrong[name] = found, wanted
    assert not wrong


@pytest.mark.targets
@SPACES
def test_compiled_calls_are_the_uncompiled_ones(space):
    runs = [call for call in calls(space) if not call[0].startswith("extract ")]  # as large as its mask says
    compiled = tw.jit(lambda args: [f(*a) for (_, f, _), a in zip(runs, args, strict=True)])([a for _, _, a in runs])
    wrong = {}
    for (name, f, args), outs in zip(runs, compiled, strict=True):
        for a, b in zip(outs, under(NUMPY, f, *args), strict=True):
            if not np.allclose(np.asarray(a), np.asarray(b), rtol=2e-3, atol=2e-4, equal_nan=True):
                wrong[name] = np.asarray(a), np.asarray(b)
    assert not wrong
