"""Decode with a key-value cache on several devices: sequences along one mesh axis, attention heads along the other.

One attention layer predicts a token, writes its keys and values into the cache and goes on, all in one compiled loop.
The cache is donated and never leaves the devices: the only communication is a sum of the heads' contributions for each
token. `python examples/decode_sharded.py` runs on eight virtual devices (4 x 2), `tilewright launch -n 2 --devices 2
examples/decode_sharded.py` on two processes. It fails unless the tokens are those of one device.
"""

import argparse
import functools
import os
import sys

import numpy as np

import tilewright as tw
from tilewright import lax, nn, random
from tilewright import numpy as tnp
from tilewright.experimental import multihost_utils
from tilewright.sharding import NamedSharding, P

BATCH, HEADS, WIDTH, VOCABULARY, LENGTH = 8, 4, 16, 50, 32
CACHE = P("data", "model", None, None)  # sequences, heads, places, width
SPECS = {"table": P(), "qkv": P(None, None, "model"), "out": P("model"), "head": P()}


def initial(key):
    keys, inner = random.split(key, 4), HEADS * WIDTH
    shapes = {"table": (VOCABULARY, inner), "qkv": (3, inner, HEADS, WIDTH), "out": (HEADS, WIDTH, inner),
              "head": (inner, VOCABULARY)}  # fmt: skip
    return {name: random.normal(k, shape) * shape[-1] ** -0.5 for k, (name, shape) in zip(keys, shapes.items())}


def attended(params, cache, token, place):
    """The cache with a token's keys and values at a place, and the logits of the next token."""
    x = params["table"][token]  # (batch, inner)
    q, k, v = tnp.einsum("bi,tihw->tbhw", x, params["qkv"])
    keys, values = (lax.dynamic_update_slice_in_dim(c, y[:, :, None], place, axis=2)
                    for c, y in zip(cache, (k, v), strict=True))  # fmt: skip
    scores = tnp.einsum("bhw,bhpw->bhp", q, keys) * WIDTH**-0.5
    weights = nn.softmax(tnp.where(tnp.arange(LENGTH) <= place, scores, -tnp.inf), axis=-1)
    mixed = tnp.einsum("bhp,bhpw,hwi->bi", weights, values, params["out"])
    return (keys, values), (x + mixed) @ params["head"]


@functools.partial(tw.jit, donate_argnums=1)
def decode(params, cache, first):
    """(batch, LENGTH) tokens after the first, the likeliest at each place; and the cache."""
    def turn(carry, place):
        cache, token = carry
        cache, logits = attended(params, cache, token, place)
        token = logits.argmax(-1).astype(token.dtype)
        return (cache, token), token

    (cache, _), tokens = lax.scan(turn, (cache, first), tnp.arange(LENGTH))
    return tokens.T, cache


def run(mesh=None):
    """The tokens, the sharding of the cache after the loop, and the kinds of collectives."""
    params, first = initial(random.key(0)), np.arange(BATCH, dtype=np.int32)
    cache = [np.zeros((BATCH, HEADS, LENGTH, WIDTH), np.float32) for _ in range(2)]
    if mesh is None:
        return np.asarray(decode(params, tuple(map(tnp.asarray, cache)), first)[0]), None, set()
    params = {name: tw.device_put(x, NamedSharding(mesh, SPECS[name])) for name, x in params.items()}
    cache = tuple(tw.device_put(x, NamedSharding(mesh, CACHE)) for x in cache)
    first = tw.device_put(first, NamedSharding(mesh, P("data")))
    kinds = {c.kind for c in tw.explain(decode, params, cache, first).communication.collectives}
    tokens, (keys, _) = decode(params, cache, first)
    return multihost_utils.process_allgather(tokens, tiled=True), keys.sharding.spec, kinds


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if "TILEWRIGHT_COORDINATOR" in os.environ:  # of `tilewright launch`
        tw.distributed.initialize()
    else:
        tw.config.update("num_cpu_devices", 8)
    alone, _, _ = run()
    tokens, spec, kinds = run(tw.make_mesh((tw.device_count() // 2, 2), ("data", "model")))
    same = np.array_equal(tokens, alone)
    print(f"{tw.device_count()} devices: {tokens.size} tokens, {'as' if same else 'unlike those'} on one device; the "
          f"cache is sharded by {spec}; collectives: {', '.join(sorted(kinds))}")
    return int(not same or kinds != {"all-reduce"} or tuple(spec or ())[:2] != ("data", "model"))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
