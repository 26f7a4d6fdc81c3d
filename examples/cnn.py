"""Train a convolutional network on the handwritten digits: two convolutions, a pooling, a linear layer.

`python examples/cnn.py` trains for a few seconds and says which digits are taken for which.
"""

import argparse
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

import tilewright as tw
from digits import load
from tilewright import lax, nn, random
from tilewright import numpy as tnp
from tilewright.example_libraries import optimizers

CHANNELS, BATCH, RATE = (16, 32), 64, 2e-3


def initial(key):
    """Weights of He's initialisation: filters of 3 x 3, then a linear layer on 4 x 4 places."""
    keys, (first, second) = random.split(key, 3), CHANNELS
    he = nn.initializers.he_normal(in_axis=(0, 1, 2), out_axis=3)
    return {
        "first": (he(keys[0], (3, 3, 1, first)), tnp.zeros(first)),
        "second": (he(keys[1], (3, 3, first, second)), tnp.zeros(second)),
        "last": (nn.initializers.he_normal()(keys[2], (16 * second, 10)), tnp.zeros(10)),
    }


def convolved(x, weights, bias):
    """relu of a convolution that keeps the size of images (batch, height, width, channels)."""
    y = lax.conv_general_dilated(x, weights, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return nn.relu(y + bias)


def logits(params, images):
    """(batch, 64) pixels to (batch, 10)."""
    x = convolved(images.reshape(-1, 8, 8, 1), *params["first"])
    x = convolved(x, *params["second"])
    x = lax.reduce_window(x, -tnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    weights, bias = params["last"]
    return x.reshape(len(images), -1) @ weights + bias


def loss(params, images, labels):
    return -tnp.take_along_axis(nn.log_softmax(logits(params, images)), labels[:, None], axis=1).mean()


def train(seed: int, epochs: int):
    """Train; give the parameters and the loss of every step."""
    images, labels, _, _ = load(seed)
    opt = optimizers.adam(RATE)

    @tw.jit
    def step(i, state, images, labels):
        value, grads = tw.value_and_grad(loss)(opt.params_fn(state), images, labels)
        return opt.update_fn(i, grads, state), value

    state, losses, rng = opt.init_fn(initial(random.key(seed))), [], np.random.default_rng(seed)
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        for i, start in enumerate(range(0, len(images) - BATCH + 1, BATCH)):
            chosen = order[start : start + BATCH]
            state, value = step(epoch * (len(images) // BATCH) + i, state, images[chosen], labels[chosen])
            losses.append(value)
    return opt.params_fn(state), [float(v) for v in losses]


def confusion(params, images, labels) -> np.ndarray:
    """How often each digit (row) was taken for each (column)."""
    found = np.asarray(tw.jit(logits)(params, images)).argmax(1)
    return np.bincount(labels * 10 + found, minlength=100).reshape(10, 10)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    params, losses = train(options.seed, options.epochs)
    counts = confusion(params, *load(options.seed)[2:])
    table = Table("digit", *map(str, range(10)))
    for digit, row in enumerate(counts):
        table.add_row(str(digit), *(f"[bold]{n}[/bold]" if i == digit else str(n or "") for i, n in enumerate(row)))
    accuracy, console = np.trace(counts) / counts.sum(), Console()
    console.print(table)
    console.print(f"loss {losses[0]:.2f} to {losses[-1]:.3f}; {accuracy:.1%} of {counts.sum()} test images are right")
    return 0 if accuracy > 0.95 or options.epochs < 12 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
