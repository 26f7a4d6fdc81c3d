"""Draw handwritten digits by a diffusion model: a small network learns to take noise away, then starts from noise.

Denoising diffusion of Ho, Jain and Abbeel, "Denoising Diffusion Probabilistic Models" (2020), with the cosine schedule
of Nichol and Dhariwal (2021), told which digit to draw. The whole of drawing is one compiled `scan`. The picture has a
row for each digit.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

import tilewright as tw
from digits import load
from tilewright import lax, nn, random
from tilewright import numpy as tnp
from tilewright.example_libraries import optimizers

STEPS, WIDTH, BATCH, RATE = 100, 256, 128, 1e-3


def kept(t):
    """The share of an image's variance that is left after `t` of STEPS steps."""
    return tnp.cos((t / STEPS + 0.008) / 1.008 * np.pi / 2) ** 2


def initial(key):
    keys = random.split(key, 6)
    he = nn.initializers.he_normal()
    return {
        "pixels": he(keys[0], (64, WIDTH)), "time": he(keys[1], (32, WIDTH)),
        "digit": random.normal(keys[2], (10, WIDTH)) * 0.1,
        "hidden": [(he(k, (WIDTH, WIDTH)), tnp.zeros(WIDTH)) for k in keys[3:5]],
        "last": (0.1 * he(keys[5], (WIDTH, 64)), tnp.zeros(64)),
    }  # fmt: skip


def waves(t):
    """Sines and cosines of the step, from slow to fast."""
    angles = (t / STEPS)[:, None] * tnp.exp(tnp.linspace(0, tnp.log(100.0), 16))
    return tnp.concatenate([tnp.sin(angles), tnp.cos(angles)], 1)


def noise_in(params, x, t, digits):
    """What the network takes for noise in images (batch, 64) after `t` steps."""
    h = nn.silu(x @ params["pixels"] + waves(t) @ params["time"] + params["digit"][digits])
    for weights, bias in params["hidden"]:
        h = h + nn.silu(nn.standardize(h) @ weights + bias)
    weights, bias = params["last"]
    return h @ weights + bias


def loss(params, key, images, digits):
    """How far the noise that the network finds is from what was put in."""
    when, what = random.split(key)
    t = random.randint(when, (len(images),), 1, STEPS + 1)
    noise, left = random.normal(what, images.shape), kept(t)[:, None]
    return ((noise_in(params, tnp.sqrt(left) * images + tnp.sqrt(1 - left) * noise, t, digits) - noise) ** 2).mean()


def train(seed: int, steps: int):
    """Train; give the parameters and the loss of every step."""
    images, labels, _, _ = load(seed)
    images = 2 * images - 1
    opt = optimizers.adam(RATE)

    @tw.jit
    def step(i, state, key):
        pick, rest = random.split(random.fold_in(key, i))
        chosen = random.randint(pick, (BATCH,), 0, len(images))
        value, grads = tw.value_and_grad(loss)(opt.params_fn(state), rest, tnp.take(images, chosen, 0), labels[chosen])
        return opt.update_fn(i, grads, state), value

    labels = tnp.asarray(labels)
    key, first = random.split(random.key(seed))
    state, losses = opt.init_fn(initial(first)), []
    for i in range(steps):
        state, value = step(i, state, key)
        losses.append(value)
    return opt.params_fn(state), [float(v) for v in losses]


@tw.jit
def drawn(params, key, digits):
    """An image for each of `digits`: pixels from 0 to 1."""
    start, rest = random.split(key)

    def step(x, t):
        left, before = kept(t), kept(t - 1)
        shrink = tnp.maximum(left / before, 1e-3)
        noise = noise_in(params, x, tnp.full(len(digits), t), digits)
        clean = tnp.clip((x - tnp.sqrt(1 - left) * noise) / tnp.sqrt(tnp.maximum(left, 1e-4)), -1, 1)
        mean = (tnp.sqrt(before) * (1 - shrink) * clean + tnp.sqrt(shrink) * (1 - before) * x) / (1 - left)
        spread = tnp.sqrt((1 - before) / (1 - left) * (1 - shrink))
        return mean + tnp.where(t > 1, spread, 0) * random.normal(random.fold_in(rest, t), x.shape), None

    x, _ = lax.scan(step, random.normal(start, (len(digits), 64)), tnp.arange(STEPS, 0, -1))
    return (tnp.clip(x, -1, 1) + 1) / 2


def picture(path: Path, images: np.ndarray, columns: int) -> None:
    from matplotlib import pyplot

    wall = images.reshape(-1, columns, 8, 8)
    wall = np.pad(wall, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=0.3).transpose(0, 2, 1, 3)
    path.parent.mkdir(parents=True, exist_ok=True)
    pyplot.imsave(path, np.kron(wall.reshape(-1, columns * 10), np.ones((5, 5))), cmap="gray")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/diffusion.png"))
    options = parser.parse_args()
    params, losses = train(options.seed, options.steps)
    images = np.asarray(drawn(params, random.key(options.seed + 1), np.repeat(np.arange(10), 12)))
    picture(options.out, images, 12)
    console = Console()
    console.print(f"loss {np.mean(losses[:20]):.3f} to {np.mean(losses[-100:]):.3f}; picture: {options.out}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
