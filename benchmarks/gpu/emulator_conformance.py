"""Assumptions of the emulator of Hopper and Blackwell, checked on a GPU: swizzles, descriptors, clusters.

A fact is a small kernel, of which the interpreter says what comes of it, and whose program gives that in the emulator,
as tests show. Where the device lays out, counts, rounds or shares in another way, numbers are others, or elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tests.support.gpu.cluster_kernels import shared
from tests.support.gpu.hopper_cases import PRODUCTS, attention_told, operands, paged, product
from tests.support.gpu.warpgroup_kernels import specialised
from tests.support.traced import kernels_in
from tilewright import ShapeDtypeStruct, config
from tilewright.compiler.backend_selection import MOSAIC_GPU
from tilewright.core.ir.types import ArrayType
from tilewright.emulator.calls import run_mosaic_gpu
from tilewright.errors import UnsupportedError
from tilewright.interop.driver import driver
from tilewright.lang import mosaic_gpu as plgpu
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.targets.target import Target
from tilewright.mosaic_gpu.ptx import DESCRIPTOR

from .variants import calling, described

NEAR = 2e-2  # of the largest number: sums in another order, functions that are not exact


@dataclass(frozen=True)
class Fact:
    """What is asked: a kernel and its operands; results differ by `near` of the largest number at most.

    `emulated`: it is the emulator that says what comes of it, since the kernel's meaning is of more bits.
    """

    name: str
    make: Callable[[], tuple[Kernel, list[np.ndarray]]]
    near: float = 0.0
    emulated: bool = False

    def ask(self, device: Any, machine: Target) -> str:
        """What differs on a device; nothing, or why the machine has no such kernel."""
        kernel, arrays = self.make()
        try:
            module = MOSAIC_GPU.module(kernel, machine)
        except UnsupportedError as error:
            return f"not on this GPU: {error.what}"
        expected = run_mosaic_gpu(module, arrays) if self.emulated else interpret(kernel, *arrays)
        with config(kernel_route=MOSAIC_GPU.name):
            found = device.call(calling(kernel))(*map(device.array, arrays))
        return _difference(device.host(found), np.asarray(expected[0]), self.near)


def _difference(found: np.ndarray, expected: np.ndarray, near: float) -> str:
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    apart = np.abs(found - expected)
    wrong = ~(apart <= near * max(1.0, float(np.abs(expected).max(initial=0))))
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (f"{np.count_nonzero(wrong)} of {wrong.size} numbers differ, the first at {place}: {found[place]:.6g} where "
            f"the emulator has {expected[place]:.6g}")  # fmt: skip


@dataclass(frozen=True)
class Bytes:
    """Whether the descriptors that a kernel's blocks make are, byte for byte, those that the driver makes."""

    name: str = "descriptors made on the device are those of the driver"

    def ask(self, device: Any, machine: Target) -> str:
        kernel, arrays = whole_numbers("plain")
        module, code = MOSAIC_GPU.ready.compiled_kernel(kernel, machine)
        given = [*map(device.array, arrays), *(device.empty(t.shape, str(t.dtype)) for t in module.out_types)]
        pointers, held = [device.pointer(x) for x in given], device.bytes(bytes(module.scratch))
        found = driver()
        function = found.function(code.binary, code.name, code.shared, 0)
        where = [*pointers, device.pointer(held), 0]
        found.launch(function, code.grid, code.threads, code.shared, device.stream, where)
        device.wait()
        made, size = device.host(held).tobytes(), DESCRIPTOR * len(module.boxes)
        wanted = described(module.boxes, pointers, module.scratch // size)
        wrong = [i for i, (a, b) in enumerate(zip(made, wanted, strict=True)) if a != b]
        words = sorted({i % DESCRIPTOR // 8 for i in wrong})
        return f"words {words} of {len(module.boxes)} descriptors differ" if wrong else ""


def whole_numbers(form: str, **options: Any) -> tuple[Kernel, list[np.ndarray]]:
    """A product whose operands are small integers, so that sums are exact in any order."""
    kernel = product(**{**PRODUCTS[form], **options})
    rng = np.random.default_rng(0)
    return kernel, [rng.integers(-4, 5, t.shape).astype(t.dtype) for t in kernel.in_types]


def rounded() -> tuple[Kernel, list[np.ndarray]]:
    """Numbers with more bits than TF32 has, multiplied by one: what the copy engine makes of them."""
    kernel = product(**{**PRODUCTS["tf32"], "n": 256, "k": 256})
    bits = np.random.default_rng(0).integers(1 << 30, (1 << 30) + (1 << 23), (128, 256)).astype(np.uint32)
    return kernel, [bits.view(np.float32), np.eye(256, dtype=np.float32)]


def of(make: Callable[[], Kernel]) -> tuple[Kernel, list[np.ndarray]]:
    kernel = make()
    return kernel, operands(kernel)


def written(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = np.float16
            ) -> tuple[Kernel, list[np.ndarray]]:  # fmt: skip
    """A kernel that is written for warpgroups, on whole numbers."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]
    (kernel,) = kernels_in(function, [ArrayType(a.shape, a.dtype) for a in arrays])
    return kernel, arrays


def to_and_fro(x: Any) -> Any:
    """Rows of 256 bytes: copied by the engine, read by threads, and back by the engine from other memory."""
    columns = 256 // x.dtype.itemsize

    def body(x: Any, read: Any, back: Any, tile: Any, arrived: Any) -> None:
        plgpu.copy_gmem_to_smem(x, tile, arrived)
        plgpu.barrier_wait(arrived)
        read[...] = tile[...]
        plgpu.copy_smem_to_gmem(tile, back)
        plgpu.wait_smem_to_gmem(0)

    out = ShapeDtypeStruct((64, columns), x.dtype)
    scratch = [plgpu.SMEM((64, columns), x.dtype), plgpu.Barrier()]
    return plgpu.kernel(body, out_type=(out, out), scratch_types=scratch)(x)[0]


FACTS: tuple[Fact | Bytes, ...] = (
    *(Fact(f"rows of {np.dtype(dtype).name} are swizzled by 128 bytes as they are read",
           partial(written, to_and_fro, (64, 256 // np.dtype(dtype).itemsize), dtype=dtype))
      for dtype in (np.float16, np.float32)),
    *(Fact(f"matrices of a product lie as their descriptors say, {form}", partial(whole_numbers, form))
      for form in ("plain", "left turned", "right turned", "both turned, wide")),
    Fact("rows past the end of an array are zeros, and none are stored there", partial(whole_numbers, "ragged")),
    Bytes(),
    Fact("products of 8-bit integers", partial(whole_numbers, "8-bit integers")),
    Fact("products of float8", partial(whole_numbers, "float8, plain")),
    Fact("the copy engine rounds float32 to TF32, to the nearest", rounded, emulated=True),
    Fact("a computed left operand lies in registers, or tensor memory, as a result does",
         partial(whole_numbers, "computed left")),
    Fact("two blocks of a cluster share copies, or a product",
         partial(of, lambda: product(m=256, n=256, k=512, columns=128, cluster=2, persistent=False)), NEAR),
    Fact("blocks make many tiles of results",
         partial(of, lambda: product(m=1024, n=4096, k=128, columns=64, persistent=True)), NEAR),
    Fact("blocks of a cluster copy for each other, and tell of it",
         partial(written, shared, (256, 256), (256, 256)), NEAR),
    Fact("a warpgroup copies for two, with registers that it gave up",
         partial(written, specialised, (256, 256), (256, 128)), NEAR),
    *(Fact(f"attention, {name}", partial(of, partial(attention_told, which)), NEAR)
      for which, name in enumerate(("forwards", "for the gradient of queries", "for that of keys and values"))),
    Fact("pages by a table", partial(paged, page=128, group=128), NEAR),
)  # fmt: skip
