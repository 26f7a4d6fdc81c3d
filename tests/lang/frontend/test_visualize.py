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


def covered(svg, operand):
    """The rectangles of an operand's blocks, and how much of its panel they fill."""
    group = re.search(rf'data-operand="{operand}">(.*?)</g>', svg).group(1)
    parts = [tuple(map(float, p)) for p in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h", group)]
    width, height = map(float, re.search(r'<rect width="([\d.]+)" height="([\d.]+)" class="outline"', group).groups())
    return parts, sum(w * h for _, _, w, h in parts) / (width * height)


def copy(x, o):
    o[...] = x[...]


def test_a_block_along_two_folded_axes_is_drawn_without_holes():
    spec = tl.BlockSpec((2, 2, 4), lambda i, j: (i, j, 0))
    call = tl.kernel_call(copy, tw.ShapeDtypeStruct((4, 8, 4), "float32"), grid=(2, 4), in_specs=[spec], out_specs=spec)
    parts, share = covered(visualize(call, np.zeros((4, 8, 4), "f")), 1)
    assert share == pytest.approx(1, abs=0.01) and len(set(parts)) == len(parts) == 16


def test_element_blocks_start_at_their_padding():
    spec = tl.BlockSpec((tl.Element(6, (1, 1)),), lambda i: (i * 4,), fill=0)
    out = tl.BlockSpec((1, 6), lambda i: (i, 0))
    call = tl.kernel_call(lambda x, o: o.__setitem__(..., x[...][None]), tw.ShapeDtypeStruct((2, 6), "float32"), grid=2,
                          in_specs=[spec], out_specs=out)  # fmt: skip
    parts, _ = covered(visualize(call, np.zeros(8, "f")), 0)
    assert [(round(x / 27.5), round(w / 27.5)) for x, _, w, _ in parts] == [(0, 5), (3, 5)]


def test_narrow_blocks_keep_their_counts_and_titles_their_width():
    inside, outside = tl.BlockSpec((1,), lambda i, j: (j,)), tl.BlockSpec((1, 1), lambda i, j: (i, j))
    call = tl.kernel_call(lambda x, o: o.__setitem__(..., x[...][None]), tw.ShapeDtypeStruct((2, 16), "float32"),
                          grid=(2, 16), in_specs=[inside], out_specs=outside, name="a" * 90)  # fmt: skip
    svg = visualize(call, np.zeros(16, "f"))
    assert svg.count(">x2</text>") == 16
    assert float(re.search(r'viewBox="0 0 (\d+)', svg).group(1)) > 90 * 7


def test_what_it_is_not_given(tmp_path):
    spec = tl.BlockSpec((4,), lambda i, table: (table[i],))
    grid = tl.PrefetchScalarGridSpec(1, (2,), [spec], tl.BlockSpec((4,), lambda i, table: (i,)))
    call = tl.kernel_call(lambda t, x, o: copy(x, o), tw.ShapeDtypeStruct((8,), "float32"), grid_spec=grid)
    shapes = tw.ShapeDtypeStruct((2,), "int32"), tw.ShapeDtypeStruct((8,), "float32")
    with pytest.raises(errors.ArgumentError, match="read 1 prefetched.*\n.*\n.*pass arrays"):
        visualize(call, *shapes)
    with pytest.raises(errors.ArgumentError, match="ends in .svg or .html"):
        visualize(call, np.zeros(2, "i"), shapes[1], path=tmp_path / "x.png")
