"""Time kernels that become machine code of this CPU against the same expressions, compiled by XLA.

A layer norm whose kernel is written here, with the gradients that are derived from it, and the causal attention of
`tilewright.nn`, forward and backward. Each pair is compared first, then timed in turns, in some five seconds. Run by
`make demo`; `--explain` prints the loops that the norm's kernel became, `--assembly` its instructions, too.
"""

import argparse
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import tilewright as tw
from tilewright import lang as tl
from tilewright import nn
from tilewright import numpy as tnp

ROWS, COLUMNS, BLOCK = 4096, 2048, 8
QUERIES = (1, 1024, 16, 64)
console = Console()


def norm_kernel(x_ref, scale_ref, shift_ref, out_ref):
    """Some rows, less their mean, in units of their deviation."""
    x = x_ref[...]
    d = x - tnp.mean(x, axis=1, keepdims=True)
    out_ref[...] = d * tw.lax.rsqrt(tnp.mean(d * d, axis=1, keepdims=True) + 1e-5) * scale_ref[...] + shift_ref[...]


def norm(x, scale, shift):
    """Layer norm of x (M, N) by a kernel over blocks of rows."""
    rows, row = tl.BlockSpec((BLOCK, x.shape[1]), lambda i: (i, 0)), tl.BlockSpec((x.shape[1],), lambda i: (0,))
    call = tl.kernel_call(norm_kernel, out_shape=tw.ShapeDtypeStruct(x.shape, x.dtype), grid=tl.cdiv(len(x), BLOCK),
                          in_specs=[rows, row, row], out_specs=rows)  # fmt: skip
    return call(x, scale, shift)


def norm_expression(x, scale, shift):
    d = x - x.mean(1, keepdims=True)
    return d * tw.lax.rsqrt((d * d).mean(1, keepdims=True) + 1e-5) * scale + shift


def attention(q, k, v):
    return nn.dot_product_attention(q, k, v, is_causal=True, implementation="fused")


def attention_expression(q, k, v):
    """Causal attention of heads (1, length, heads, size), as it is written on paper."""
    scores = tnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    scores = tnp.where(tnp.tri(q.shape[1], dtype=bool), scores, -tnp.inf)
    return tnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v)


def gradients(function):
    """The cotangents of all operands but the last, which is the result's."""
    return lambda *arrays: tw.vjp(function, *arrays[:-1])[1](arrays[-1])


def pairs():
    """By name a function by kernels, the same by XLA, and their operands."""
    rng = np.random.default_rng(0)
    x, bar, scale, shift = (rng.standard_normal(s, np.float32) for s in ((ROWS, COLUMNS),) * 2 + ((COLUMNS,),) * 2)
    q, k, v, heads = (rng.standard_normal(QUERIES, np.float32) for _ in range(4))
    return {
        f"layer norm, {ROWS} x {COLUMNS}": (norm, norm_expression, (x, scale, shift)),
        "its gradients": (gradients(norm), gradients(norm_expression), (x, scale, shift, bar)),
        f"causal attention, {QUERIES[2]} heads, {QUERIES[1]} x {QUERIES[3]}": (
            attention, attention_expression, (q, k, v)),
        "forward and gradients": (gradients(attention), gradients(attention_expression), (q, k, v, heads)),
    }  # fmt: skip


def measure(kernel, expression, operands, seconds):
    """Both functions' least times of a call, in seconds, after their results were compared."""
    operands, forms = tw.device_put(operands), [tw.jit(kernel).lower(*operands).compile()]
    with tw.config(cpu_tiles=False):  # expressions are machine code, too, where that is estimated to be faster
        forms.append(tw.jit(expression).lower(*operands).compile())
    found = [tw.tree.map(np.asarray, f(*operands)) for f in forms]
    tw.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-3), *found)
    best, end = [np.inf, np.inf], time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, f in enumerate(forms):
            start = time.perf_counter()
            tw.block_until_ready(f(*operands))
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each pair (default: 1)")
    parser.add_argument("--explain", action="store_true", help="print the loops of the norm's kernel")
    parser.add_argument("--assembly", action="store_true", help="print its assembly, too")
    options = parser.parse_args()
    table = Table("", "by kernels", "by XLA", "ratio", title="Machine code of this CPU", title_justify="left")
    for name, (kernel, expression, operands) in pairs().items():
        ours, xla = measure(kernel, expression, operands, options.seconds)
        table.add_row(name, f"{ours * 1e3:.1f} ms", f"{xla * 1e3:.1f} ms", f"{ours / xla:.2f}")
    console.print(table)
    if options.explain or options.assembly:
        _, _, operands = next(iter(pairs().values()))
        print(tw.explain(norm, *operands, compile=True, assembly=options.assembly))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
