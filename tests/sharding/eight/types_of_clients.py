"""Values of types that clients define, split over a mesh."""

import numpy as np

import tilewright as tw
from tests.support.scaled_type import XS, Rows, decode, encode, registered, rounded, same
from tilewright import numpy as jnp


def test_a_value_is_split_over_a_mesh():
    mesh = tw.make_mesh((2,), ("i",))
    with registered():
        shards = tw.jit(tw.shard_map(encode, mesh=mesh, in_specs=tw.P("i"), out_specs=Rows(tw.P("i"))))
        q = shards(XS)
        same(q, rounded(XS))
        assert q.scale.sharding.spec == tw.P("i")
        back = tw.shard_map(decode, mesh=mesh, in_specs=Rows(tw.P("i")), out_specs=tw.P("i"))
        assert np.allclose(back(q), rounded(XS))
        assert np.allclose(tw.grad(lambda q: jnp.sum(back(q)))(encode(XS)), 1)


def test_the_gradient_of_a_value_that_devices_share_is_the_sum_of_theirs():
    mesh, i = tw.make_mesh((2,), ("i",)), tw.P("i")
    own = tw.shard_map(lambda q, x: decode(encode(decode(q))) * x, mesh=mesh, in_specs=(Rows(i), i), out_specs=i)
    shared = tw.shard_map(lambda q, x: decode(q) * x, mesh=mesh, in_specs=(Rows(tw.P()), i), out_specs=i)
    weights = np.arange(48, dtype=np.float32).reshape(8, 2, 3)
    with registered():
        for f, q, expected in ((own, XS, weights[:4]), (shared, XS[0], weights.sum(0))):
            x = weights[:4] if f is own else weights
            dq, dx = tw.grad(lambda q, x, f=f: jnp.sum(f(q, x)), (0, 1))(encode(q), x)
            assert np.allclose(dq, expected) and np.allclose(dx, rounded(q) + 0 * x, atol=1e-5)
