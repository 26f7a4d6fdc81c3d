"""The table of docs/kernels.md on kernels and devices: each kernel in all its forms, and for each target.

`python -m docs.kernel_targets` works out what `docs/kernel_targets.json` lacks, which takes half an hour where all is
missing, and rewrites the table; interrupted, it goes on where it was. With names of kernels it works those out anew,
with `--anew` all. Programs are compiled at a size that matters, and walked in NumPy at a small one. A cell is "right",
with what is worth knowing beside it, or the number of the reason for which the kernel is refused, or not walked.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import tilewright as tw
from docs.capabilities import table
from tests.support.authors import EVERY, forms, shared
from tests.support.authors.kit import Case
from tilewright import numpy as tnp
from tilewright.core.support import pytree
from tilewright.core.support.errors import TilewrightError
from tilewright.lang.gpu.normalize import GPU_LIMITS
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.legalize import legal
from tilewright.lang.loopnest.plan import plan
from tilewright.lang.targets.target import target_of
from tilewright.triton_backend.compiler import WORKERS
from tilewright.triton_backend.rules import BACKEND

ROOT = Path(__file__).resolve().parent.parent
PAGE, DATA = ROOT / "docs" / "kernels.md", ROOT / "docs" / "kernel_targets.json"
BEGIN, END = "<!-- kernels on devices: made by `python -m docs.kernel_targets` -->\n", "<!-- end of devices -->"
HERE = {"compiled": forms.compiled, "interpreted": forms.interpreted, "gradient": forms.gradient, "vmap": forms.batched}
DEVICES = ("cuda:sm_90", "cuda:sm_100", "rocm:gfx942", "tpu:v5e", "tpu:v6e")
COLUMNS = (*HERE, *DEVICES, "gradient on cuda:sm_90", "gradient on tpu:v5e")
LIMIT = 60  # seconds of processor time that a compilation may take
SPILLS = 1024  # bytes of a thread's registers in memory that are not worth a word
CASES = (*EVERY, *shared.cases())
Outcome = dict[str, Any]


def function_of(case: Case, column: str) -> Callable[..., Any]:
    """What is compiled for a column: the case at its large size, or the gradient of the sum of its squares."""

    def call(*arrays: Any) -> Any:
        return case.call(*arrays, **case.blocks)

    def total(*arrays: Any) -> Any:
        outs = [o for o in pytree.leaves(call(*arrays)) if o.dtype.kind not in "iub"]
        return sum(tnp.sum(o.astype("float32") ** 2) for o in outs)

    return tw.grad(total, case.derived) if column.startswith("gradient") else call


def compile_for(case: Case, column: str) -> Any:
    """A case compiled for a column of the table; raises as `tilewright.compile`."""
    with warnings.catch_warnings(), tw.config(cache_dir=""):
        warnings.simplefilter("ignore")
        return tw.compile(function_of(case, column), *case.large, target=column.split()[-1])


def held(case: Case, column: str) -> int:
    """The most bytes of Refs that a program of a kernel for GPUs keeps in registers: why it spills."""
    most = 0
    for kernel in kernels_of(tw.make_jaxpr(function_of(case, column))(*case.large)):
        made, first = plan(legal(kernel, BACKEND, target_of("cuda:sm_90")).kernel, GPU_LIMITS), kernel.splits[2]
        refs = made.kernel.body.inputs[first:]
        homes = (*made.output_homes, *made.scratch_homes)
        most = max(most, sum(r.type.array.nbytes for r, home in zip(refs, homes, strict=False) if home is not None))
    return most


def processor_time() -> float:
    """Seconds that processors spent on this process and on the compilers that it started, which are ended."""
    WORKERS.end()
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {(getattr(error, 'what', str(error)).splitlines() or [''])[0]}"


def compiling(case: Case, column: str) -> Outcome:
    """What became of compiling it: `why` it is refused, or seconds, bytes spilled and notes."""
    begun = processor_time()
    try:
        used = compile_for(case, column).resources
    except TilewrightError as error:
        return {"why": _why(error)}
    seconds, spills = processor_time() - begun, max((r.spills or 0 for r in used), default=0)
    found = {"seconds": round(seconds, 1), "spills": spills, "notes": [r.note for r in used if r.note]}
    return found | ({"held": held(case, column)} if spills > SPILLS else {})


def outcome(case: Case, column: str) -> Outcome:
    """What became of a case in a column: `none` if it has no derivative, `unlike` what a form or a walk found wrong."""
    derived = column.startswith("gradient")
    if derived and not case.derived:
        return {"none": True}
    found = {} if column in HERE else compiling(case, column)
    if "why" in found:
        return found
    try:
        if column in HERE:
            HERE[column](case)
        else:
            forms.walked(case, column.split()[-1], derived)
    except Exception as error:  # refused, or not right: both are told
        found["unlike"] = _why(error)
    return found


def apart(case: Case, known: dict[str, Outcome]) -> dict[str, Outcome]:
    """The outcomes of a case by column, from a process of its own, which is ended where it takes too long."""
    found = dict(known)
    for column in COLUMNS:  # a process goes through all columns, unless one ends it
        if column in found:
            continue
        command = [sys.executable, "-m", "docs.kernel_targets", "--case", case.name]
        try:
            done = subprocess.run([*command, *(c for c in COLUMNS if c not in found)], capture_output=True, text=True,
                                  timeout=10 * LIMIT, cwd=ROOT)  # fmt: skip
            if done.returncode == 1:  # an error of this module, not of what it looks at
                raise RuntimeError(done.stderr)
            said, why = done.stdout, f"the compiler ended the process with {done.returncode}"
        except subprocess.TimeoutExpired as late:
            said, why = (late.stdout or b"").decode(), f"the compiler takes more than {10 * LIMIT} s"
        found |= dict(json.loads(line) for line in said.splitlines() if line.startswith("["))
        found.setdefault(next((c for c in COLUMNS if c not in found), column), {"why": why})
    return found


class Reasons:
    """The numbered reasons below the table."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1


def cell(found: Outcome, reasons: Reasons) -> str:
    if "none" in found:
        return "none: integers"
    if "why" in found:
        return f"no ({reasons.number(found['why'])})"
    said = [f"compiles ({reasons.number(found['unlike'])})" if "unlike" in found else "right"]
    spills, seconds = found.get("spills", 0), found.get("seconds", 0)
    if spills > SPILLS:
        said.append(f"{spills:,} bytes of a thread spilled, for {found['held'] / 1024:,.0f} KiB of state in registers")
    said += [f"{seconds:.0f} s to compile"] if seconds > LIMIT else []
    changed = [part.split(" in place")[0] for note in found.get("notes", ()) for part in note.split("; ")]
    return "; ".join([*said, *dict.fromkeys(changed)])


def shown(outcomes: dict[str, dict[str, Outcome]]) -> str:
    """The table of outcomes by kernel and column, and its reasons."""
    reasons = Reasons()
    rows = [[c.name, *(cell(outcomes[c.name][column], reasons) for column in COLUMNS)] for c in CASES]
    listed = "".join(f"{n}. {why.replace('|', chr(92) + '|')}\n" for n, why in enumerate(reasons.texts, 1))
    return table(["kernel", *COLUMNS], rows) + (f"\n{listed}" if listed else "")


def page(outcomes: dict[str, dict[str, Outcome]]) -> str:
    """The text of the page with the table in its place."""
    head, rest = PAGE.read_text().split(BEGIN)
    return f"{head}{BEGIN}\n{shown(outcomes)}\n{END}{rest.split(END)[1]}"


def stored() -> dict[str, dict[str, Outcome]]:
    return json.loads(DATA.read_text()) if DATA.exists() else {}


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--case"]:
        _, name, *columns = arguments
        for column in columns:
            print(json.dumps([column, outcome(next(c for c in CASES if c.name == name), column)]), flush=True)
        return
    outcomes, lock = {} if arguments == ["--anew"] else stored(), Lock()
    for name in arguments:
        outcomes.pop(name, None)

    def one(case: Case) -> None:
        found = apart(case, outcomes.get(case.name, {}))
        with lock:
            outcomes[case.name] = found
            ordered = {c.name: outcomes[c.name] for c in CASES if c.name in outcomes}
            DATA.write_text(json.dumps(ordered, indent=1) + "\n")
            print(f"{case.name}: {len(ordered)} of {len(CASES)}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, CASES))
    PAGE.write_text(page(outcomes))


if __name__ == "__main__":
    main(sys.argv[1:])
