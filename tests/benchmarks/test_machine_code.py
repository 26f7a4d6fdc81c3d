"""Reading machine code: loops, classes, loads in flight, and what has drifted from a table."""

import importlib.util

import pytest

from benchmarks.machine_code import (
    MARK,
    PAGE,
    Instruction,
    drifts,
    loads_in_flight,
    loops,
    main_loop,
    measured,
    table,
)

CODE = [
    ("LDG.E.128", "R4, desc[UR4][R2.64]"), ("LDG.E.128", "R8, desc[UR4][R2.64+0x200]"), ("FADD", "R0, R4, R8"),
    ("LDG.E", "R1, desc[UR4][R2.64]"), ("HGMMA.64", "x128x16.F32.BF16 R24, gdesc[UR12].tnspB, R24"),
    ("MUFU.EX2", "R3, R5"), ("FSEL", "R3, R5, R6, P0"), ("BRA", "0x40"), ("MEMBAR.ALL.GPU", ""), ("BRA", "0x30"),
    ("EXIT", ""),
]  # fmt: skip


def code():
    return [Instruction(16 * i, name, operands) for i, (name, operands) in enumerate(CODE)]


def test_loops_and_loads():
    found = loops(code())
    assert [(loop[0].address, loop[-1].address) for loop in found] == [(0x40, 0x70), (0x30, 0x90)]
    assert [one.kind for one in main_loop(code())] == ["tensor", "functions", "selections", "indices, moves"]
    assert loads_in_flight(code()) == 32 and code()[0].width == 16 and code()[3].width == 4


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs tilewright[cuda]")
def test_figures_of_a_sum_and_their_drift():
    found = measured(["sum"])
    assert [one.kernel for one in found] == ["reduce_cast_sum_part", "reduce_cast_sum_total"]
    assert found[0].widest == 16 and found[0].share > 0.9 and not found[0].spills
    text = table(found)
    assert drifts(found, text) == []
    assert any("registers was" in line for line in drifts(found, text.replace(f"| {found[0].registers} |", "| 200 |")))
    assert drifts(found, "") and MARK in PAGE.read_text()
