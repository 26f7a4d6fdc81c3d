"""libtpu's estimates of a program's time and instructions, from a separate process: the flags are read at its start."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.support.errors import CompileError
from ..devices import tpu_plugin

REGISTER_BYTES = 8 * 128 * 4  # one vector register, which is what a spill stores


@dataclass(frozen=True)
class Estimate:
    """Of one instruction of the compiled program: cycles of a call, instruction words, bytes that spills store."""

    cycles: int | None
    bundles: int | None
    spills: int | None


def estimates(text: str, target: str, timeout: float = 600.0) -> dict[str, Estimate]:
    """For each instruction of a program compiled from the text of a StableHLO module, what libtpu estimates.

    The cycles come from a static count of instruction words and of the time of copies, which runs through the grid:
    some milliseconds for each cell. Where the program compiles but not with that count, cycles are None.

    Raises:
      CompileError: the compiler refuses the program, ends its process, or takes longer than `timeout` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-tpu-") as folder:
        words = (f"--xla_jf_dump_to={folder}",
                 "--xla_jf_dump_llo_pass_label_regex=final_hlo-static-per-bundle-utilization")  # fmt: skip
        cycles = f"--xla_jf_dump_static_llo_profile_to={folder}"
        failed = _compiled(text, target, (cycles, *words), timeout)
        if failed and not _compiled(text, target, words, timeout):
            failed = ""  # on some generations the profile itself takes VMEM, more than such a program leaves
        if failed:
            raise CompileError(
                f"libtpu's estimate for {target} failed: {failed[-2000:]}",
                "`compile(f, ..., target=...)` without an estimate says whether it compiles at all")  # fmt: skip
        return _read(Path(folder))


def _compiled(text: str, target: str, flags: Sequence[str], timeout: float) -> str:
    """Compile a program in another process with some of libtpu's flags; gives what it says if it fails, else ""."""
    asked = " ".join(filter(None, [os.environ.get("LIBTPU_INIT_ARGS"), *flags]))
    environment = {**os.environ, "LIBTPU_INIT_ARGS": asked, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", __name__, target]
    try:
        done = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise CompileError(f"libtpu's estimate for {target} takes longer than {timeout:g} s",
                           "a smaller grid") from None  # fmt: skip
    return (done.stderr or f"exit {done.returncode}") if done.returncode else ""


def _read(folder: Path) -> dict[str, Estimate]:
    cycles: dict[str, int] = {}
    for path in folder.glob("*_static_llo_profile.textproto"):
        # The file is named after the instruction by libtpu 0.0.48, and after the device too by later ones.
        found = re.search(r'hlo_op_name: "([^"]*)"\s+estimated_cycles: (\d+)', path.read_text())
        if found:
            cycles[found[1]] = int(found[2])
    words: dict[str, tuple[int, int]] = {}
    for path in folder.glob("*final_hlo-static-per-bundle-utilization.txt"):
        named = re.fullmatch(r"\d+-(.*)-\d+-final_hlo-static-per-bundle-utilization", path.stem)
        if named:
            words[named[1]] = _words(path.read_text())
    return {
        name: Estimate(cycles.get(name), *(words[name] if name in words else (None, None)))
        for name in {*cycles, *words}
    }


def _words(table: str) -> tuple[int, int]:
    """Instruction words, and bytes stored by spills, from the table of what each word uses of each unit."""
    head, _, body = table.partition("== UTILIZATION:")
    units = [u.strip() for u in head.split("\n")[1].split(",")]
    rows = [line.split() for line in body.splitlines() if line.strip()]
    stores = sum(int(row[units.index("VSTORE:SPILL")]) for row in rows)
    return len(rows), stores * REGISTER_BYTES


def main() -> None:
    tpu_plugin.compile(sys.stdin.read(), sys.argv[1], "program")


if __name__ == "__main__":
    main()
