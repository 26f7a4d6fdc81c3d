"""The machine code of GPU kernels: instructions of main loops by class, loads, registers, occupancy, predicted share.

    python -m benchmarks machine_code                   the table, for an H100 that need not be here
    python -m benchmarks machine_code --write           it takes the place of the one in docs/gpu_code.md
    python -m benchmarks machine_code --check           fails where a figure has drifted from that of docs/gpu_code.md

Kernels are compiled without a GPU and disassembled by the `cuobjdump` of Triton's wheel.

A main loop has tensor core instructions and no such loop within it; of several, the one of full blocks is shown, with
the fewest other instructions. The share of the tensor cores' peak is by a model of one iteration of two warpgroups:
an instruction of N columns takes the tensor cores N / 2 cycles; shared memory moves 128 bytes a cycle, of operands that
are read by each warpgroup and written once by copies; a scheduler starts one instruction of its two warps a cycle; a
special function takes 8 cycles of a warp. All work at once, so the longest is the time. Kernels without products are
bound by memory: their share is of the bandwidth, by the bytes in flight against bandwidth times latency.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tilewright as tw
from tilewright import lax, nn
from tilewright.lang.gpu.code import Compiled
from tilewright.lang.gpu.target_config import BOARDS
from tilewright.lang.targets.target import Resources, Target, target_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gpu_code.md"
MARK, END = "<!-- machine code: made by python -m benchmarks machine_code --write -->\n", "<!-- end of machine code -->"
TARGET = "cuda:sm_90"
LATENCY = 700e-9  # seconds from a load to its value, of HBM
DRIFT = 0.1  # of a figure

# ---------------------------------------------------------------------------- machine code

LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:\{?\s*)(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);")
TENSOR = ("HGMMA", "QGMMA", "IGMMA", "HMMA", "IMMA", "QMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA")
CLASSES = {
    "functions": ("MUFU",),
    "arithmetic": ("FFMA", "FMUL", "FADD", "FFMA2", "FMUL2", "FADD2", "HFMA2", "HADD2", "HMUL2"),
    "selections": ("FMNMX", "FMNMX3", "FSETP", "FSEL", "FSET"),
    "conversions": ("F2FP", "F2F", "F2I", "I2F", "I2FP", "FRND"),
    "memory": ("LDG", "STG", "LDS", "STS", "LDSM", "STSM", "LDGSTS", "LDL", "STL", "RED", "ATOMG", "ATOMS", "UTMALDG",
               "UTMASTG", "UBLKCP", "LDTM", "STTM", "LD", "ST"),
    "waits": ("BAR", "SYNCS", "DEPBAR", "LDGDEPBAR", "WARPGROUP", "WARPSYNC", "MEMBAR", "FENCE", "ERRBAR", "CCTL",
              "NANOSLEEP", "UCGABAR_ARV", "UCGABAR_WAIT", "UTCBAR"),
}  # fmt: skip
CLASS = {name: kind for kind, names in CLASSES.items() for name in names}
WIDTHS = {"32": 4, "64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str  # with its modifiers
    operands: str

    @property
    def base(self) -> str:
        return self.name.partition(".")[0]

    @property
    def kind(self) -> str:
        """The class that it is counted in."""
        if self.base in TENSOR:
            return "tensor"
        return CLASS.get(self.base, "indices, moves")

    @property
    def width(self) -> int:
        """Bytes that a thread loads or stores."""
        return next((n for part in self.name.split(".")[1:] if (n := WIDTHS.get(part))), 4)


def disassembled(binary: bytes) -> list[Instruction]:
    """The instructions of a cubin that has one kernel."""
    found = importlib.util.find_spec("triton")
    if found is None or found.origin is None:
        raise SystemExit("no disassembler: pip install 'tilewright[cuda]'")
    tool = Path(found.origin).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        text = subprocess.run([tool, "-sass", file.name], capture_output=True, text=True, check=True).stdout
    matches = filter(None, map(LINE.match, text.splitlines()))
    return [Instruction(int(m[1], 16), m[3], m[4]) for m in matches]


def loops(code: Sequence[Instruction]) -> list[Sequence[Instruction]]:
    """The loops of a kernel: from the target of each branch back to the branch."""
    number, found = {one.address: i for i, one in enumerate(code)}, []
    for i, one in enumerate(code):
        to = re.search(r"0x([0-9a-f]+)", one.operands) if one.base == "BRA" else None
        first = None if to is None else number.get(int(to[1], 16))
        if first is not None and first < i:
            found.append(code[first : i + 1])
    return found


def main_loop(code: Sequence[Instruction]) -> Sequence[Instruction]:
    """The loop of tensor core instructions with the fewest others, of those that have no such loop within them."""
    inner: list[Sequence[Instruction]] = []
    for loop in sorted(filter(_tensor, loops(code)), key=len):
        if not any(loop[0].address <= a[-1].address and a[0].address <= loop[-1].address for a in inner):
            inner.append(loop)
    return min(inner, key=lambda loop: len(loop) / _tensor(loop), default=())


def _tensor(code: Sequence[Instruction]) -> int:
    return sum(one.kind == "tensor" for one in code)


def loads_in_flight(code: Sequence[Instruction]) -> int:
    """Bytes that a thread loads from global memory, at most, before it waits for one of them."""
    most, flying, waited = 0, 0, set[int]()
    for one in code:
        if one.base == "LDG":
            first = re.match(r"R(\d+)", one.operands)
            waited |= {int(first[1]) + i for i in range(max(one.width // 4, 1))} if first else set()
            flying += one.width
            most = max(most, flying)
        elif any(int(r) in waited for r in re.findall(r"\bR(\d+)", one.operands.partition(",")[2])):
            flying, waited = 0, set()
    return most


# ---------------------------------------------------------------------------- figures


@dataclass(frozen=True)
class Figures:
    """What is told of a kernel: `other` instructions per tensor core instruction, in all and by class."""

    case: str
    kernel: str
    tensor: int
    other: float
    classes: dict[str, float]
    fences: int  # of the whole GPU, in the main loop
    widest: int  # bytes of a load from global memory
    flying: int  # bytes in flight of a multiprocessor
    registers: int
    spills: int
    blocks: int  # of a multiprocessor at once
    share: float


def figures(case: str, compiled: Compiled, used: Resources, target: Target) -> Figures:
    """The figures of one compiled kernel."""
    code = disassembled(compiled.binary)
    loop = main_loop(code)
    tensor, kinds = _tensor(loop), Counter(one.kind for one in loop)
    blocks = _resident(compiled, used, target)
    flying = loads_in_flight(code) * compiled.threads * blocks
    classes = {kind: n / tensor for kind, n in kinds.items() if kind != "tensor"} if tensor else {}
    fences = sum(one.name.startswith(("MEMBAR.ALL.GPU", "MEMBAR.SC.GPU")) for one in loop)
    widest = max((one.width for one in code if one.base == "LDG"), default=0)
    share = _share(loop) if tensor else min(1.0, flying / (target.bandwidth * LATENCY / target.units))
    other = (len(loop) - tensor) / tensor if tensor else 0.0
    return Figures(case, compiled.name, tensor, other, classes, fences, widest, flying, used.registers or 0,
                   used.spills or 0, blocks, share)  # fmt: skip


def _resident(compiled: Compiled, used: Resources, target: Target) -> int:
    """Blocks that a multiprocessor has room for: by registers, threads and shared memory."""
    registers = -(-(used.registers or 1) // 8) * 8 * compiled.threads
    shared = BOARDS[target.name].shared // (compiled.shared + 1024)
    return max(1, min(65536 // registers, 2048 // compiled.threads, shared, 32))


def _share(loop: Sequence[Instruction]) -> float:
    """The share of the tensor cores' peak, by the model of the module."""
    tensor = shared = 0.0
    for one in loop:
        if one.kind == "tensor":
            shape = re.search(r"x(\d+)x", f"{one.name}{one.operands}")
            columns, left = int(shape[1]) if shape else 128, re.search(r"R\d+, R\d+", one.operands) is None
            tensor += columns
            rows = 64 if left else 0  # a left operand in registers is not read
            shared += 32 * (2 * (rows + columns) + 2 * rows + columns) / 128
    functions = sum(one.kind == "functions" for one in loop)
    return tensor / max(tensor, shared, 2 * len(loop), 16 * functions)


# ---------------------------------------------------------------------------- kernels

S = tw.ShapeDtypeStruct
BRAIN = "bfloat16"
SQUARE, HEADS = S((4096, 4096), BRAIN), S((4, 4096, 16, 128), BRAIN)
ROWS, VECTOR = S((16384, 8192), BRAIN), S((8192,), BRAIN)


def _attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
    return nn.fused.dot_product_attention(q, k, v, is_causal=True, **options)


def _attention_backward(q: Any, k: Any, v: Any, ct: Any) -> Any:
    return tw.vjp(lambda *qkv: _attention(*qkv, deterministic=False), q, k, v)[1](ct)


def _bias_gelu(x: Any, y: Any, b: Any) -> Any:
    made = lax.dot(x, y, preferred_element_type="float32") + b.astype("float32")
    return nn.gelu(made).astype(x.dtype)


def _norm_gradient(x: Any, scale: Any, bias: Any) -> Any:
    return tw.grad(lambda *a: (nn.fused.layer_norm(*a).astype("float32") ** 2).sum(), (0, 1, 2))(x, scale, bias)


CASES_OF: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product": (lambda x, y: x @ y, (SQUARE, SQUARE)),
    "product, bias, gelu": (_bias_gelu, (SQUARE, SQUARE, S((4096,), BRAIN))),
    "causal attention": (_attention, (HEADS,) * 3),
    "its gradient": (tw.grad(lambda *a: _attention(*a).astype("float32").sum(), (0, 1, 2)), (HEADS,) * 3),
    "its gradient, in any order": (_attention_backward, (HEADS,) * 4),
    "sum": (lambda x: x.astype("float32").sum(), (ROWS,)),
    "sums of columns": (lambda x: x.astype("float32").sum(0), (ROWS,)),
    "softmax": (nn.fused.softmax, (ROWS,)),
    "gradient of layer norm": (_norm_gradient, (ROWS, VECTOR, VECTOR)),
}


def measured(names: Sequence[str] = ()) -> list[Figures]:
    """The figures of each kernel of the cases."""
    target, found = target_of(TARGET), []
    for name in names or CASES_OF:
        function, args = CASES_OF[name]
        program = tw.compile(function, *args, target=TARGET)
        found += [figures(name, c, r, target) for c, r in zip(program.kernels, program.resources, strict=True)]
    return found


# ---------------------------------------------------------------------------- the table

HEAD = ("kernel", "tensor", "other", *CLASSES, "indices, moves", "fences", "load", "in flight", "registers", "spills",
        "blocks", "share")  # fmt: skip


def row(one: Figures) -> tuple[str, ...]:
    """A row of the table."""
    parts = [f"{one.classes.get(kind, 0):.1f}" if one.tensor else "" for kind in (*CLASSES, "indices, moves")]
    loads = (f"{one.widest} B" if one.widest else "TMA", f"{one.flying:,} B" if one.widest else "")
    counts = (str(one.tensor or ""), f"{one.other:.1f}" if one.tensor else "", *parts, str(one.fences or 0))
    return (f"{one.case}: `{one.kernel}`", *counts, *loads, str(one.registers), str(one.spills), str(one.blocks),
            f"{one.share:.0%}")  # fmt: skip


def table(found: Sequence[Figures]) -> str:
    """The table as Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (HEAD, ("---",) * len(HEAD), *map(row, found))]
    return "\n".join(lines) + "\n"


def drifts(found: Sequence[Figures], text: str) -> list[str]:
    """What differs from a table by more than a tenth, or is no longer in it."""
    lines = [[c.strip() for c in line[1:-1].split("|")] for line in text.splitlines()]
    old = {cells[0]: cells for cells in lines if len(cells) > 1}
    wrong = []
    for one in found:
        before, now = old.get(row(one)[0]), row(one)
        if before is None:
            wrong.append(f"{now[0]}: not in the table")
            continue
        for name, a, b in zip(HEAD[1:], before[1:], now[1:], strict=True):
            x, y = (float(re.sub(r"[^0-9.]", "", s) or 0) for s in (a, b))
            if abs(x - y) > DRIFT * max(x, y) + (1 if name in ("registers", "blocks") else 0.3):
                wrong.append(f"{now[0]}: {name} was {a or 0}, is {b or 0}")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile, count, and show, keep or check the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks machine_code", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--write", action="store_true", help="put the table in docs/gpu_code.md")
    parser.add_argument("--check", action="store_true", help="fail where a figure has drifted")
    parser.add_argument("--only", action="append", default=[], choices=list(CASES_OF))
    options = parser.parse_args(arguments)
    found, page = measured(options.only), PAGE.read_text()
    before, _, rest = page.partition(MARK)
    kept, _, after = rest.partition(END)
    if options.write:
        PAGE.write_text(f"{before}{MARK}{table(found)}{END}{after}")
    print(table(found), end="")
    wrong = drifts(found, kept) if options.check else []
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return int(bool(wrong))
