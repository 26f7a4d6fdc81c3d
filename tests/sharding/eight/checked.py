"""Checks and guards on the devices of a mesh."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.experimental import checkify as ck
from tilewright.sharding import P


def positive(x):
    ck.check(tnp.all(x > 0), "{} is not positive", tnp.min(x))
    return x


def total(x):
    def body(found, row):
        return found + tnp.sum(positive(row)), None

    found, _ = lax.scan(body, 0.0, x)
    return lax.psum(found, ("x", "y"))


def test_checks_on_each_device():
    """Of the devices that fail the first counts, in loops and derivatives too."""
    mesh = tw.make_mesh((4, 2), ("x", "y"))
    f = tw.shard_map(total, mesh=mesh, in_specs=P("x", "y"), out_specs=P())
    good = np.arange(1.0, 33.0, dtype=np.float32).reshape(8, 4)
    bad = good.copy()
    bad[5, 3], bad[7, 0] = -5.0, -7.0
    for way in (ck.checkify(f), tw.jit(ck.checkify(f)), ck.checkify(tw.jit(f))):
        error, out = way(bad)
        assert error.get() == "-5.0 is not positive (`check` failed)" and float(out) == bad.sum()
        assert way(good)[0].get() is None
    error, got = tw.jit(ck.checkify(tw.grad(f)))(bad)
    assert "-5.0" in error.get() and (np.asarray(got) == 1).all()
    assert "-5.0" in ck.checkify(tw.pmap(positive))(bad[5:7])[0].get()


def test_arguments_on_another_device():
    f = tw.jit(lambda x, y: x + y)
    here, there = tnp.ones(2), tw.device_put(tnp.ones(2), tw.devices()[1])
    f(here, there)
    with tw.transfer_guard_device_to_device("disallow"):
        f(there, there)
        with pytest.raises(tw.errors.ExecutionError, match="on another device"):
            f(here, there)
        f(tw.device_put(here, tw.devices()[1]), there)
