"""A fused plan as text: what each kernel does and how it is cut, what it all moves, and what stays between kernels."""

from __future__ import annotations

import textwrap
from collections import Counter

from ..generate.group import OWN_BODY
from .fusion import FusedKernel, Fusion

WIDTH = 116  # columns of a line


def kernel_lines(fused: FusedKernel) -> list[str]:
    """What was fused into a kernel, and how its loops are cut."""
    names = [f"{n} {name}" if n > 1 else name for name, n in Counter(fused.operations).items()]
    loops = []
    for i, (size, tile) in enumerate(zip(fused.loops.sizes, fused.tiles, strict=True)):
        kind = " whole" if i in fused.loops.whole else " summed" if i in fused.loops.carry else ""
        loops.append(f"{size}{kind}" if tile >= size else f"{size}{kind} by {tile}")
    fuses = wrapped(f"fuses {', '.join(names)}")
    return [*fuses, f"  loops {', '.join(loops)}", "  derivative: of the operations, taken before they were fused"]


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def plan_lines(fusion: Fusion) -> list[str]:
    """A fused plan's bytes and flops, the operations outside of its kernels, and the values stored between them.

    A program that only calls its author's kernels, unchanged, has no lines.
    """
    account, lines = fusion.account, []
    same = account is None or account.bytes_after == account.bytes_before
    if same and not fusion.every_kernel and all(reason == OWN_BODY for _, reason in fusion.glue):
        return []
    if account is not None:
        share = account.bytes_after / account.bytes_before if account.bytes_before else 1.0
        moved, unfused = f"{account.bytes_after:,} bytes moved", f"{account.bytes_before:,}"
        lines.append(f"  {moved}, {share:.2f} of {unfused} unfused")
        lines.append(f"  {account.flops_after:,} flops, {account.flops_before:,} unfused")
    for (name, reason), n in Counter(fusion.glue).items():
        lines += wrapped(f"outside: {name}{f' ({n} times)' if n > 1 else ''}: {reason}")
    between: dict[tuple[str, str, str], list[str]] = {}
    for b in fusion.boundaries:
        between.setdefault((b.producer, b.consumer, b.reason), []).append(b.value)
    for (producer, consumer, reason), values in between.items():
        lines += wrapped(f"not fused: {producer}, {consumer} ({', '.join(values)}): {reason}")
    for inner in fusion.inner:
        lines += [f"  in {inner.program.name}:", *(f"  {line}" for line in plan_lines(inner))]
    return lines


def plan_text(fusion: Fusion, title: str) -> str:
    """The whole plan, kernels in order."""
    kernels = [
        line for k in fusion.every_kernel for line in (f"kernel {k.kernel.name}: {k.bytes:,} bytes", *kernel_lines(k))
    ]
    return "\n".join([title, *plan_lines(fusion), *kernels])
