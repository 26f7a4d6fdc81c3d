"""Tunes the fused library on this machine and writes the table that the package ships for machines of its kind.

    python -m benchmarks shipped --budget 20

The functions are those of `nn.fused` that have a choice of blocks, each with its gradient, in sizes from short texts to
long ones; other sizes use the nearest. The table goes to `src/tilewright/tuning/shipped/`, by the name of the device.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import nn
from tilewright import numpy as tnp
from tilewright.tuning import Store, tables
from tilewright.tuning.measure import device_name

ATTENTION = [(8, 128, 4, 64), (4, 256, 4, 64), (1, 512, 8, 64), (2, 1024, 4, 64), (1, 2048, 8, 64), (1, 1024, 8, 128)]
CLASSES = [(512, 256, 1024), (2048, 256, 8192), (1024, 512, 32000)]  # rows, features, classes


def normal(*shape: int) -> Any:
    """Numbers of a normal distribution."""
    return tnp.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def attention(q: Any, k: Any, v: Any) -> Any:
    """The gradient of causal attention."""
    return tw.grad(lambda q, k, v: nn.fused.dot_product_attention(q, k, v, is_causal=True).sum(), (0, 1, 2))(q, k, v)


def classes(x: Any, w: Any, labels: Any) -> Any:
    """The gradient of the cross entropy of a linear layer."""
    return tw.grad(lambda x, w: nn.fused.linear_cross_entropy(x, w, labels).mean(), (0, 1))(x, w)


def calls() -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """What is tuned."""
    labels = [np.random.default_rng(0).integers(0, c, rows).astype(np.int32) for rows, _, c in CLASSES]
    return [
        *((attention, (normal(*shape),) * 3) for shape in ATTENTION),
        *((classes, (normal(rows, d), normal(d, c), y)) for (rows, d, c), y in zip(CLASSES, labels, strict=True)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for each function and size")
    options = parser.parse_args()
    file = tables.SHIPPED / f"{re.sub('[^a-z0-9]+', '-', device_name().lower())}.json"
    with tempfile.TemporaryDirectory() as folder, tw.config(cache_dir=folder):
        for f, args in calls():
            print(tw.tune(f, *args, budget=options.budget))
        file.parent.mkdir(exist_ok=True)
        print(f"{tables.write(file, Store())} entries in {file.name}")


if __name__ == "__main__":
    main()
