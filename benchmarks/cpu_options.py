"""What each option of `xla_backend/cpu_passes` is worth: one program with it and without it (the setting
`cpu_without`).

python -m benchmarks cpu_options
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Api, Case, Side, per_call

ROWS, COLUMNS = 1024, 512
CELLS = 8


def _operands(api: Api, *shape: int) -> Any:
    return api.np.asarray(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))


def products(api: Api) -> float:
    """The gradient of a layer with respect to its weights: x.T @ y."""
    x, y = _operands(api, ROWS, COLUMNS), _operands(api, ROWS, COLUMNS)
    f = api.jit(lambda x, y: x.T @ y)
    return per_call(lambda: f(x, y), api.block_until_ready, calls=1, samples=25)


def few_rows(api: Api) -> float:
    """The first call of a new function with 20 sums over a batch of 32."""
    x = _operands(api, 32, 256)
    f = api.jit(lambda x: [(x * float(i)).sum(0) for i in range(20)])
    compiled = f.lower(x).compile()
    start = time.perf_counter()
    api.block_until_ready(compiled(x))
    return time.perf_counter() - start


def placeless(api: Api) -> float:
    """The compilation of 400 operations."""
    x = _operands(api, 32, 256)

    def f(x: Any) -> Any:
        for i in range(200):
            x = api.np.sin(x) * (1.0 + i)
        return x

    lowered = api.jit(f).lower(x)
    start = time.perf_counter()
    lowered.compile()
    return time.perf_counter() - start


def _kernel(api: Api, body: Any, out: Any, grid: Any, blocks: Any, out_block: Any, *operands: Any) -> float:
    tl = api.lang
    specs = [tl.BlockSpec(*block) for block in blocks]
    call = tl.kernel_call(body, out_shape=api.ShapeDtypeStruct(out, "float32"), grid=grid, in_specs=specs,
                          out_specs=tl.BlockSpec(*out_block))  # fmt: skip
    f = api.jit(call)
    return per_call(lambda: f(*operands), api.block_until_ready, calls=1, samples=25)


def merged_sums(api: Api) -> float:
    """x @ y as a kernel that adds up products of blocks."""

    def body(x: Any, y: Any, o: Any) -> None:
        @api.lang.when(api.lang.program_id(0) == 0)
        def _() -> None:
            o[...] = api.np.zeros_like(o)

        o[...] += x[...] @ y[...]

    step = ROWS // CELLS
    blocks = [((COLUMNS, step), lambda i: (0, i)), ((step, COLUMNS), lambda i: (i, 0))]
    whole = (COLUMNS, COLUMNS)
    operands = _operands(api, COLUMNS, ROWS), _operands(api, ROWS, COLUMNS)
    return _kernel(api, body, whole, CELLS, blocks, (whole, lambda i: (0, 0)), *operands)


def exchanged(api: Api) -> float:
    """(x @ y).T as a kernel over blocks of rows of x."""

    def body(x: Any, y: Any, o: Any) -> None:
        o[...] = (x[...] @ y[...]).T

    step = ROWS // CELLS
    blocks = [((step, COLUMNS), lambda i: (i, 0)), ((COLUMNS, COLUMNS), lambda i: (0, 0))]
    operands = _operands(api, ROWS, COLUMNS), _operands(api, COLUMNS, COLUMNS)
    return _kernel(api, body, (COLUMNS, ROWS), CELLS, blocks, ((COLUMNS, step), lambda i: (0, i)), *operands)


def scan_windows(api: Api) -> float:
    """The compilation of running sums of 64 rows of 1024."""
    lowered = api.jit(lambda x: api.np.cumsum(x, 1)).lower(_operands(api, 64, 1024))
    start = time.perf_counter()
    lowered.compile()
    return time.perf_counter() - start


def narrow_windows(api: Api) -> float:
    """A stencil of three points over two million numbers."""
    n, step = 2**21, 2**12

    def body(x: Any, o: Any) -> None:
        window = x[...]
        o[...] = window[:step] + window[1 : step + 1] + window[2 : step + 2]

    blocks = [((api.lang.Element(step + 2),), lambda i: (i * step,))]
    return _kernel(api, body, (n,), n // step, blocks, ((step,), lambda i: (i,)), _operands(api, n + 2))


def with_and_without(name: str, measure: Callable[[Api], float]) -> Case:
    """A case whose other side has the option switched off."""

    def used(library: str) -> float:
        return measure(Api(library))

    def switched_off(library: str) -> float:
        api = Api(library)
        with api.config(cpu_without=name):
            return measure(api)

    return Case(name, Side("tilewright", used), Side("tilewright", switched_off, label="without"), 1.0)


MEASURED = (products, few_rows, placeless, merged_sums, exchanged, scan_windows, narrow_windows)
CASES = [with_and_without(f.__name__, f) for f in MEASURED]
