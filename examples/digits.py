"""Train a classifier of handwritten digits through a fused kernel written here, and check and time that kernel.

The kernel computes `gelu(x @ w + b)` tile by tile: a grid of output tiles, and an inner axis along which the
contraction accumulates. `grad` goes through it as through any other function. Run by `make demo`.
"""

import argparse
import gzip
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import tilewright as tw
from tilewright import lang as tl
from tilewright import nn, random
from tilewright import numpy as tnp

HERE = Path(__file__).resolve().parent
SIZES = (64, 256, 256, 10)
BATCH, N_TEST = 128, 448  # the test images are a quarter of the 1,797
PEAK_RATE, DECAY, SMOOTHING = 4e-3, 2e-2, 0.05
DEFAULT = {"tile": (128, 128, 128)}
console = Console()

# ---------------------------------------------------------------------------------------------- the kernel


def linear_gelu_kernel(x, w, b, out, acc):
    """One tile of `gelu(x @ w + b)`; `acc` stays from one step along the contraction to the next."""
    step, last = tl.program_id(2), tl.num_programs(2) - 1

    @tl.when(step == 0)
    def _():
        acc[...] = tnp.zeros_like(acc[...])

    acc[...] += x[...] @ w[...]

    @tl.when(step == last)
    def _():
        out[...] = nn.gelu(acc[...] + b[...])


def linear_gelu(x, w, b, tile=(64, 128, 32)):
    """`gelu(x @ w + b)` for x (M, K), w (K, N), b (N,), in tiles of (m, n, k)."""
    (rows, depth), columns = x.shape, w.shape[1]
    m, n, k = tile
    return tl.kernel_call(
        linear_gelu_kernel,
        out_shape=tw.ShapeDtypeStruct((rows, columns), x.dtype),
        grid=(tl.cdiv(rows, m), tl.cdiv(columns, n), tl.cdiv(depth, k)),
        in_specs=[
            tl.BlockSpec((m, k), lambda i, j, s: (i, s)),
            tl.BlockSpec((k, n), lambda i, j, s: (s, j)),
            tl.BlockSpec((1, n), lambda i, j, s: (0, j)),
        ],
        out_specs=tl.BlockSpec((m, n), lambda i, j, s: (i, j)),
        scratch_shapes=[tl.VMEM((m, n), x.dtype)],
    )(x, w, b.reshape(1, -1))


TILES = [(m, n, k) for m in (64, 128, 256, 512) for n in (64, 128, 256, 512) for k in (64, 128, 256)]


@tw.autotune(space={"tile": TILES})
def tuned_linear_gelu(x, w, b, *, tile=(128, 128, 128)):
    """The same with tiles that may be chosen by measurement; see `docs/tuning.md`."""
    return linear_gelu(x, w, b, tile)


# ----------------------------------------------------------------------------------------------- the model


def initial(key):
    """Weights of He's initialisation and zero biases."""
    keys = random.split(key, len(SIZES) - 1)
    pairs = zip(keys, SIZES, SIZES[1:])
    return [(random.normal(k, (n, m)) * (2 / n) ** 0.5, tnp.zeros((m,))) for k, n, m in pairs]


def logits(params, x):
    *hidden, (w, b) = params
    for weights, bias in hidden:
        x = linear_gelu(x, weights, bias)
    return x @ w + b


def loss(params, x, labels):
    """Cross entropy against labels smoothed a little, averaged over the batch."""
    target = nn.one_hot(labels, 10) * (1 - SMOOTHING) + SMOOTHING / 10
    return -(target * nn.log_softmax(logits(params, x))).sum(axis=-1).mean()


def warp(image, matrix, shift):
    """An 8 x 8 image seen through an affine map, by linear interpolation."""
    axis = tnp.arange(8.0)
    grid = tnp.stack(tnp.meshgrid(axis - 3.5, axis - 3.5, indexing="ij"), axis=-1).reshape(64, 2)
    place = grid @ matrix.T + shift + 3.5
    across, along = (tnp.maximum(0.0, 1.0 - abs(place[:, d, None] - axis)) for d in (0, 1))
    return ((across @ image) * along).sum(axis=-1)


def augment(key, x):
    """Each image turned, sheared, scaled and shifted a little, at random."""
    linear, shift = random.split(key)
    matrices = tnp.eye(2) + 0.12 * random.normal(linear, (x.shape[0], 2, 2))
    return tw.vmap(warp)(x.reshape(-1, 8, 8), matrices, 0.4 * random.normal(shift, (x.shape[0], 2)))


def make_step(total: int):
    """One step of Adam with decoupled weight decay and a cosine schedule over `total` steps."""

    def step(params, mean, square, i, key, x, labels):
        value, grads = tw.value_and_grad(loss)(params, augment(random.fold_in(key, i), x), labels)
        t = i.astype(np.float32)
        rate = PEAK_RATE * 0.5 * (1 + tnp.cos(np.pi * t / total))
        mean = tw.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
        square = tw.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, grads)
        fix, fix2 = 1 - 0.9 ** (t + 1), 1 - 0.999 ** (t + 1)
        params = tw.tree.map(
            lambda p, m, s: p - rate * (m / fix / (tnp.sqrt(s / fix2) + 1e-8) + DECAY * p), params, mean, square
        )
        return params, mean, square, value

    return tw.jit(step, donate_argnums=(0, 1, 2))


def load(seed: int):
    """Training and test images (pixels of 0 to 1) and labels, split at random."""
    with gzip.open(HERE / "data" / "digits.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    table = table[np.random.default_rng(seed).permutation(len(table))]
    images, labels = table[:, :64] / 16, table[:, 64].astype(np.int32)
    return images[N_TEST:], labels[N_TEST:], images[:N_TEST], labels[:N_TEST]


def train(seed: int, epochs: int):
    """Train; give the loss of every step, the test accuracy after every epoch, and the seconds."""
    images, labels, test_images, test_labels = load(seed)
    rng = np.random.default_rng(seed)
    params = initial(random.key(seed))
    mean, square = tw.tree.map(tnp.zeros_like, params), tw.tree.map(tnp.zeros_like, params)
    batches = len(images) // BATCH
    step, predict = make_step(epochs * batches), tw.jit(lambda p, x: logits(p, x).argmax(axis=-1))
    key, losses, accuracies = random.key(seed + 1), [], []
    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("epoch {task.completed}/{task.total}  loss {task.fields[loss]:.3f}"),
        TextColumn("test accuracy {task.fields[accuracy]:.1%}"),
        TimeElapsedColumn(),
    )
    start = time.perf_counter()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=epochs, loss=np.nan, accuracy=0.0)
        for epoch in range(epochs):
            order = rng.permutation(len(images))
            for b in range(batches):
                chosen = order[b * BATCH : (b + 1) * BATCH]
                i = np.int32(epoch * batches + b)
                params, mean, square, value = step(params, mean, square, i, key, images[chosen], labels[chosen])
                losses.append(value)
            accuracies.append(float((np.asarray(predict(params, test_images)) == test_labels).mean()))
            progress.update(task, advance=1, loss=float(losses[-1]), accuracy=accuracies[-1])
    return [float(v) for v in losses], accuracies, time.perf_counter() - start


# ----------------------------------------------------------------------------------------- checks and times


def numpy_linear_gelu(x, w, b):
    z = x @ w + b
    return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


def operands(rows: int, depth: int, columns: int, dtype: Any):
    rng = np.random.default_rng(0)
    shapes = (rows, depth), (depth, columns), (columns,)
    return [(rng.standard_normal(shape) / shape[0] ** 0.5).astype(dtype) for shape in shapes]


def forward_error() -> float:
    """Largest difference between the compiled kernel and NumPy, relative to the largest value."""
    x, w, b = operands(256, 256, 256, np.float32)
    want = numpy_linear_gelu(x, w, b)
    return float(np.abs(np.asarray(tw.jit(linear_gelu)(x, w, b)) - want).max() / np.abs(want).max())


def gradient_error() -> float:
    """Largest relative difference, over the operands, between the gradient and central differences in float64."""
    with tw.config(enable_x64=True):
        args = operands(128, 64, 256, np.float64)
        rng = np.random.default_rng(1)
        f = tw.jit(lambda x, w, b: tnp.sin(linear_gelu(x, w, b)).sum())
        grads, worst, h = tw.grad(f, argnums=(0, 1, 2))(*args), 0.0, 1e-5
        for n, grad in enumerate(grads):
            direction = rng.standard_normal(args[n].shape)
            up, down = ([*args[:n], args[n] + s * h * direction, *args[n + 1 :]] for s in (1, -1))
            slope = (float(f(*up)) - float(f(*down))) / (2 * h)
            worst = max(worst, abs(float((np.asarray(grad) * direction).sum()) - slope) / abs(slope))
    return worst


def milliseconds(f: Callable[..., Any], *args: Any, repeat: int = 15) -> float:
    """Median time of a call, after two to warm up."""
    times = []
    for _ in range(repeat + 2):
        start = time.perf_counter()
        tw.block_until_ready(f(*args))
        times.append(time.perf_counter() - start)
    return float(np.median(times[2:])) * 1e3


def timings(size: int = 1024) -> dict[str, float]:
    """Milliseconds of the layer at size x size x size, three ways."""
    arrays = operands(size, size, size, np.float32)
    on_device = [tnp.asarray(a) for a in arrays]
    return {
        "kernel, 128 x 128 x 128 tiles": milliseconds(
            tw.jit(lambda x, w, b: linear_gelu(x, w, b, tile=(128, 128, 128))), *on_device
        ),
        "unfused expression, op by op": milliseconds(lambda x, w, b: nn.gelu(x @ w + b), *on_device),
        "the same expression under jit": milliseconds(tw.jit(lambda x, w, b: nn.gelu(x @ w + b)), *on_device),
        "NumPy": milliseconds(numpy_linear_gelu, *arrays),
    }


def tune(size: int = 1024, budget: float = 20):
    """What the tuner finds for the layer at size x size x size within some seconds; kept for later runs."""
    return tuned_linear_gelu.tune(*map(tnp.asarray, operands(size, size, size, np.float32)), budget=budget)


def abroad(target: str, size: int = 1024) -> str:
    """What the layer's kernel takes on a device that need not be here, or what to install for its compiler."""
    shapes = (size, size), (size, size), (size,)
    args = [tw.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    try:
        used = tw.compile(lambda x, w, b: linear_gelu(x, w, b, tile=(128, 128, 32)), *args, target=target).resources
    except tw.errors.VersionError as missing:
        return f"not compiled: {missing.remedy}"
    kernel = next(r for r in used if r.kernel.startswith("linear_gelu_kernel"))
    memory = "VMEM" if target.startswith("tpu") else "shared memory"
    parts = [f"{kernel.fast_bytes / 1024:,.0f} of {kernel.fast_limit / 1024:,.0f} KiB of {memory}"]
    if kernel.registers is not None:
        parts.append(f"{kernel.registers} registers")
    if kernel.spills is not None:
        parts.append(f"{kernel.spills} bytes spilled")
    return ", ".join(parts)


def devices_table(found: dict[str, str]) -> Table:
    """What `abroad` says of each target, its brackets as they are."""
    table = Table("the kernel, compiled for", "takes", title="devices that need not be here")
    for target, takes in found.items():
        table.add_row(target, escape(takes))
    return table


def picture(path: Path, losses: list[float], accuracies: list[float], times: dict[str, float], trials: Any) -> None:
    """One PNG: the learning curve, a bar for each timing, and the time of each configuration that was tried."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (curve, bars, tried) = pyplot.subplots(1, 3, figsize=(17, 4.2), layout="constrained")
    steps = np.arange(1, len(losses) + 1) / (len(losses) / len(accuracies))
    curve.plot(steps, losses, color="tab:blue", linewidth=0.6, label="training loss (augmented, smoothed labels)")
    curve.set(xlabel="epoch", ylabel="loss", yscale="log", title="UCI handwritten digits")
    right = curve.twinx()
    right.plot(range(1, len(accuracies) + 1), accuracies, color="tab:orange", label="test accuracy")
    right.set(ylabel="test accuracy", ylim=(0.9, 1.0))
    lines = curve.get_lines() + right.get_lines()
    curve.legend(lines, [str(line.get_label()) for line in lines], loc="center right")
    drawn = bars.barh(list(times), list(times.values()), color=["tab:orange", *["tab:blue"] * (len(times) - 1)])
    bars.bar_label(drawn, fmt="%.1f", padding=3)
    bars.invert_yaxis()
    bars.margins(x=0.18)
    bars.set(xlabel="milliseconds, median", title="gelu(x @ w + b), 1024 x 1024 x 1024, float32")
    measured = [t for t in trials if t.seconds is not None]
    tried.plot([1e3 * t.seconds for t in measured], "o-", color="tab:blue")
    for i, t in enumerate(measured):
        if i == 0 or t.configuration == DEFAULT:
            usual, tile = t.configuration == DEFAULT, t.configuration["tile"]
            what, color = ("the defaults", "tab:orange") if usual else ("the fastest", "tab:green")
            tried.plot([i], [1e3 * t.seconds], "o", color=color, markersize=10, label=f"{what}, {tile}")
    tried.legend(loc="lower right")
    tried.set(xlabel="tiles that were tried, the fastest first", ylabel="milliseconds", title="tuning", ylim=(0, None))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=20, help="seconds of tuning")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "digits.png")
    options = parser.parse_args()

    forward, gradient = forward_error(), gradient_error()
    losses, accuracies, seconds = train(options.seed, options.epochs)
    times = timings()
    report = tune(budget=options.budget)
    picture(options.out, losses, accuracies, times, report.trials)

    checks = [
        ("test accuracy", f"{accuracies[-1]:.2%}", "at least 97%", accuracies[-1] >= 0.97),
        ("kernel against NumPy", f"{forward:.1e}", "relative, below 1e-5", forward < 1e-5),
        ("gradient against differences", f"{gradient:.1e}", "relative, below 1e-6", gradient < 1e-6),
    ]
    table = Table("check", "found", "wanted", "", title=f"trained {options.epochs} epochs in {seconds:.1f} s")
    for name, found, wanted, good in checks:
        table.add_row(name, found, wanted, "[green]ok[/]" if good else "[red]FAILED[/]")
    console.print(table)
    table = Table("gelu(x @ w + b), 1024 x 1024 x 1024, float32", "ms", "against the kernel")
    kernel = next(iter(times.values()))
    for name, took in times.items():
        table.add_row(name, f"{took:.1f}", f"{took / kernel:.2f}")
    console.print(table)
    best, tried = report.best, f"{len(report.trials)} of {report.space} tiles, {report.programs} different programs"
    told = f"       kept {best.configuration['tile']}, {1e3 * (best.seconds or 0):.1f} ms: {report.why}"
    console.print(f"tuned: {tried}, in {report.elapsed:.0f} s\n{told}", soft_wrap=True)
    console.print(devices_table({target: abroad(target) for target in ("tpu:v5e", "cuda:sm_90")}))
    console.print(f"picture: {options.out}")
    return 0 if all(good for *_, good in checks) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
