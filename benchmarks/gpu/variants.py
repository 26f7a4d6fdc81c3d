"""Forms of a case's one kernel that `gpu` measures beside each other: what a compiler is told, who makes descriptors.

    Form ::= (device, case, machine) -> a function of the device's arrays
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilewright import ShapeDtypeStruct, compile, config, vjp
from tilewright.compiler import backend_selection
from tilewright.compiler.backend_selection import MOSAIC_GPU, TRITON
from tilewright.core.ir.types import ArrayType
from tilewright.core.primitives.contraction.dot_general import dot_general_p
from tilewright.errors import UnsupportedError
from tilewright.interop.driver import driver
from tilewright.kernels.generate.single_op import Alone
from tilewright.kernels.generate.tiles import runs_at
from tilewright.lang import triton
from tilewright.lang.call.primitive import kernel_call_p
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import Target
from tilewright.mosaic_gpu.ptx import DESCRIPTOR, ELEMENT, Box

Form = Callable[..., Callable[..., Any]]
# The driver's numbers of elements (CUtensorMapDataType) that are not those of PTX; here it is bfloat16's.
HOST_ELEMENT = {"bfloat16": 9}
# What makes descriptors in a kernel's PTX.
MAKING = re.compile(r"^\s*tensormap\.(replace|cp_fenceproxy).*\n", re.MULTILINE)


def found_kernels(case: Any, machine: Target) -> list[Kernel]:
    """The kernels that a case's function, or its derivative, becomes."""
    function = case.function
    if case.gradient:
        function = lambda *xs: (lambda made, pull: pull(made))(*vjp(case.function, *xs))  # noqa: E731
    types = [ShapeDtypeStruct(shape, case.dtype) for shape in case.shapes]
    found = compile(function, *types, target=machine.name, stop="fuse")
    return list(kernels_of(getattr(found, "program", found)))


def only_kernel(case: Any, machine: Target, params: Any) -> Kernel:
    """A case's one kernel, which takes its operands as they are, told something of its compilation.

    Raises:
      UnsupportedError: the machine has no such form of it.
    """
    (kernel,) = found_kernels(case, machine)
    assert tuple(kernel.in_types) == tuple(ArrayType(shape, kernel.in_types[0].dtype) for shape in case.shapes)
    changed = replace(kernel, settings=tuple({**dict(kernel.settings), "compiler_params": params}.items()))
    (TRITON if isinstance(params, triton.CompilerParams) else MOSAIC_GPU).module(changed, machine)
    return changed


def calling(kernel: Kernel) -> Callable[..., Any]:
    return lambda *xs: kernel_call_p.bind(*xs, kernel=kernel)[0]


def told(device: Any, case: Any, machine: Target, params: Any) -> Callable[..., Any]:
    """The kernel told something of its compilation. Raises as `only_kernel`."""
    return device.call(calling(only_kernel(case, machine, params)))


def in_one_run(device: Any, case: Any, machine: Target) -> Callable[..., Any]:
    """A product whose sum is not split over several runs."""
    types = [ArrayType(shape, case.dtype) for shape in case.shapes]
    params = {"dimension_numbers": (((1,), (0,)), ((), ())), "precision": None, "preferred_element_type": None}
    out = ArrayType((types[0].shape[0], types[1].shape[1]), case.dtype)
    product = Alone.of(dot_general_p, types, [out], params)
    tiles = next(t for t in product.candidates(machine) if runs_at(product.loops, t) == 1)
    return device.call(calling(product.kernel(tiles, "contract")))


# ---------------------------------------------------------------------------- descriptors that the host makes


def without_making(ptx: str) -> str:
    """The PTX of a kernel that takes its tensor descriptors as it finds them in its scratch memory.

    >>> without_making("  tensormap.replace.tile.rank [%r1], %r2;\\n  ret;\\n")
    '  ret;\\n'
    """
    return MAKING.sub("", ptx)


def encoded(box: Box, pointer: int) -> bytes:
    """A tensor descriptor as CUDA's driver makes it (cuTensorMapEncodeTiled)."""
    found = driver()
    names, rank = found.bindings, len(box.sizes)
    made = found._check(
        "cuTensorMapEncodeTiled",
        names.CUtensorMapDataType(HOST_ELEMENT.get(box.element, ELEMENT[box.element])), rank, pointer,
        [names.cuuint64_t(n) for n in box.sizes], [names.cuuint64_t(n) for n in box.strides[1:]],
        [names.cuuint32_t(n) for n in box.box], [names.cuuint32_t(1)] * rank,
        names.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        names.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B if box.swizzled
        else names.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
        names.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
        names.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )  # fmt: skip
    return b"".join(int(word).to_bytes(8, "little") for word in made.opaque)


def described(boxes: Sequence[Box], pointers: Sequence[int], blocks: int) -> bytes:
    """What the scratch memory of a launch holds: of each block its descriptors."""
    return b"".join(encoded(box, pointers[box.argument]) for box in boxes) * blocks


def described_by_host(device: Any, case: Any, machine: Target, params: Any) -> Callable[..., Any]:
    """The kernel without what makes its descriptors, which are put into its scratch memory before. Raises as `told`."""
    module, code = backend_selection.MOSAIC_GPU.ready.compiled_kernel(only_kernel(case, machine, params), machine)
    if module.aliases or module.prepare is not None or module.finish is not None or len(module.out_types) != 1:
        raise UnsupportedError(f"kernel {module.name} is not one launch with one result", "measure another one")
    blocks, found = module.scratch // (DESCRIPTOR * len(module.boxes)), driver()
    function = found.function(without_making(code.assembly).encode() + b"\0", code.name, code.shared, 0)
    (out,) = module.out_types
    known: dict[tuple[int, ...], Any] = {}  # results and scratch memory by the addresses of operands

    def call(*operands: Any) -> Any:
        pointers = tuple(map(device.pointer, operands))
        if pointers not in known:
            result = device.empty(out.shape, str(out.dtype))
            where = [*pointers, device.pointer(result)]
            held = device.bytes(described(module.boxes, where, blocks))
            known[pointers] = result, [*where, device.pointer(held), 0], held
        result, where, _ = known[pointers]
        found.launch(function, code.grid, code.threads, code.shared, device.stream, where)
        return result

    return call


def of_form(device: Any, case: Any, machine: Target, form: Form) -> Callable[..., Any] | None:
    """The function that is a case in a form; None where the machine has no such form."""
    try:
        with config(kernel_target=machine):
            return form(device, case, machine)
    except UnsupportedError:
        return None
