"""The picture of a kernel shows every block once, in the order in which cells touch them."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import tilewright as tw
from tests.support.programs import MATRIX, WEIGHTS, matmul
from tilewright import errors
from tilewright import lang as tl
from tilewright.lang import visualize


def blocks(svg, operand):
    group = re.search(rf'data-operand="{operand}">(.*?)</g>', svg).group(1)
    return re.findall(r'data-block="([\d,]+)"><title>[^:]*: first seen by cell (\d+), (\d+) visits', group)


def test_matmul_blocks_in_order(tmp_path):
    svg = visualize(matmul, MATRIX, WEIGHTS, path=tmp_path / "matmul.svg")
    ET.fromstring(svg)
    assert (tmp_path / "matmul.svg").read_text() == svg
    assert blocks(svg, 0) == [("0,0", "0", "1"), ("0,1", "1", "1"), ("1,0", "2", "1"), ("1,1", "3", "1")]
    assert blocks(svg, 1) == [("0,0", "0", "2"), ("1,0", "1", "2")]
    assert blocks(svg, 2) == [("0,0", "0", "2"), ("1,0", "2", "2")]


def test_a_page_with_a_slider(tmp_path):
    page = visualize(matmul, MATRIX, WEIGHTS, path=tmp_path / "matmul.html")
    assert "type=range" in page and "<svg" in page and page.count("<script>") == 1


def test_ranks_one_and_three():
    def body(x, y, o):
        o[...] = x[...] + y[...]

    call = tl.kernel_call(
        body, tw.ShapeDtypeStruct((2, 3, 4), "float32"), grid=(2, 3),
        in_specs=[tl.BlockSpec((4,), lambda b, i: (0,)), tl.BlockSpec((None, 1, 4), lambda b, i: (b, i, 0))],
        out_specs=tl.BlockSpec((None, 1, 4), lambda b, i: (b, i, 0)),
    )  # fmt: skip
    svg = visualize(call, np.zeros(4, "f"), np.zeros((2, 3, 4), "f"))
    assert len(blocks(svg, 0)) == 1 and len(blocks(svg, 1)) == len(blocks(svg, 2)) == 6


def test_what_cannot_be_drawn():
    with pytest.raises(errors.ArgumentError, match="calls no kernel"):
        visualize(lambda x: x + 1, 1.0)
