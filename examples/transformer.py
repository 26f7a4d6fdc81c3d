"""Train a small transformer with optax, written for jax and run on this package: it learns to sort letters.

    python examples/transformer.py                    (needs optax; `tilewright clients` says how to install it)

Only the first two lines of code are of this package. Without them it is a program for jax.
"""

import tilewright.as_jax

tilewright.as_jax.install()

import argparse  # noqa: E402
import sys  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

LETTERS, LENGTH, WIDTH, HEADS, LAYERS, BATCH = 16, 8, 64, 4, 2, 128


def initial(key):
    """Embeddings of letters and places, and the layers' weights."""
    keys = iter(jax.random.split(key, 3 + 4 * LAYERS))
    matrix = lambda n, m: jax.random.normal(next(keys), (n, m)) / np.sqrt(n)  # noqa: E731
    layers = [
        {"attend": matrix(WIDTH, 3 * WIDTH), "join": matrix(WIDTH, WIDTH),
         "wide": matrix(WIDTH, 4 * WIDTH), "narrow": matrix(4 * WIDTH, WIDTH)}
        for _ in range(LAYERS)
    ]  # fmt: skip
    return {"letters": matrix(LETTERS, WIDTH), "places": matrix(LENGTH, WIDTH), "layers": layers,
            "last": matrix(WIDTH, LETTERS)}  # fmt: skip


def logits(params, letters):
    """Scores (batch, place, letter) of what stands where in the sorted word."""
    x = params["letters"][letters] + params["places"]
    for layer in params["layers"]:
        q, k, v = jnp.split(jax.nn.standardize(x) @ layer["attend"], 3, axis=-1)
        heads = [a.reshape(*a.shape[:2], HEADS, -1) for a in (q, k, v)]
        x = x + jax.nn.dot_product_attention(*heads).reshape(x.shape) @ layer["join"]
        x = x + jax.nn.gelu(jax.nn.standardize(x) @ layer["wide"]) @ layer["narrow"]
    return jax.nn.standardize(x) @ params["last"]


def loss(params, letters):
    scores = logits(params, letters)
    return optax.softmax_cross_entropy_with_integer_labels(scores, jnp.sort(letters, axis=-1)).mean()


def train(seed, steps):
    """The parameters and the loss of every step."""
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(3e-3, steps)))
    params = initial(jax.random.key(seed))

    @jax.jit
    def step(params, state, key):
        value, grads = jax.value_and_grad(loss)(params, jax.random.randint(key, (BATCH, LENGTH), 0, LETTERS))
        updates, state = optimiser.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    state, losses = optimiser.init(params), []
    for key in jax.random.split(jax.random.key(seed + 1), steps):
        params, state, value = step(params, state, key)
        losses.append(value)
    return params, [float(value) for value in losses]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    params, losses = train(0, options.steps)
    words = jax.random.randint(jax.random.key(99), (500, LENGTH), 0, LETTERS)
    found = jax.jit(logits)(params, words).argmax(-1)
    right = float((found == jnp.sort(words, axis=-1)).mean())
    for word, answer in zip(words[:3], found[:3]):
        print("".join(chr(97 + c) for c in word), "->", "".join(chr(97 + c) for c in answer))
    print(f"loss {losses[0]:.2f} to {losses[-1]:.3f}; {right:.1%} of the letters are where they belong")
    return 0 if losses[-1] < 0.5 * losses[0] else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
