"""Profiles tell programs by the user's names and lines; recordings open in the tools they are for."""

import collections
import gzip
import html
import inspect
import json
import os
from html.parser import HTMLParser

import pytest

import tilewright as tw
from tilewright import errors, lax, profiler
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.explanation.html import nodes_of
from tilewright.profiler.report import Span, _own

X = tnp.ones((128, 128))


def _product(a, b, o):
    o[...] = a[...] @ b[...]


product = tl.kernel_call(
    _product, tw.ShapeDtypeStruct((128, 128), "float32"), grid=(2,),
    in_specs=[tl.BlockSpec((64, 128), lambda i: (i, 0)), tl.BlockSpec((128, 128), lambda i: (0, 0))],
    out_specs=tl.BlockSpec((64, 128), lambda i: (i, 0)))  # fmt: skip


@tw.jit
def layers(x):
    for i in range(2):
        with tw.named_scope(f"layer{i}"):
            x = tnp.tanh(x @ x)
    return lax.fori_loop(0, 3, lambda i, c: c * 2 - x, x)


def test_a_profile_tells_scopes_and_lines(tmp_path):
    with tw.profile(lines=True) as found:
        layers(X).block_until_ready()
    rows = [row for row in found.rows if row.program == "layers"]
    assert any("layer1/tanh" in row.name and __file__ in row.line for row in rows)
    assert all(row.seconds >= 0 and row.calls for row in rows)
    assert "layers: " in str(found) and " in 1 program\n" in str(found)
    found.save(tmp_path / "trace.json.gz")
    events = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]
    assert any("tanh" in e["name"] and e["args"]["line"].startswith(__file__) for e in events if e["ph"] == "X")


def sums(x):
    return tnp.sum(x)  # first


def line_of(function, text):
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


def test_every_row_has_a_line(tmp_path):
    def work(x):
        return tw.grad(lambda x: (product(x, x) ** 2).sum())(x).sum() + looped(x) + (x @ x[0]).sum()

    for _ in range(2):  # compiled, then loaded from the disk, where each program has another number
        with tw.config(cache_dir=str(tmp_path)), tw.profile(lines=True) as found:
            tw.block_until_ready((tw.jit(work)(X), X @ X))
            tw.block_until_ready((tw.jit(sums)(X), tw.jit(sums)(X[0])))  # two programs of one name
        assert not [row for row in found.rows if not row.line.startswith(__file__)]
        lines = {row.line for row in found.rows if row.program == "sums"}
        assert lines == {f"{__file__}:{line_of(sums, '# first')}"}
        tw.clear_caches()


@tw.jit
def looped(x):
    return lax.fori_loop(0, 3, lambda i, c: c @ x, x).sum()


def test_what_a_primitive_expands_to_has_its_line():
    @tw.jit
    def inverse(x):
        return tnp.linalg.inv(x)

    with tw.profile(lines=True) as found:
        inverse(X + tnp.eye(128)).block_until_ready()
    rows = [row for row in found.rows if row.program == "inverse"]
    assert rows and {row.line for row in rows} == {f"{__file__}:{line_of(inverse.__wrapped__, 'inv(x)')}"}


def test_a_profile_within_its_block(tmp_path):
    with tw.profile() as found:
        assert "after" in str(found) and "after" in found._repr_html_()
        with pytest.raises(errors.ProfilerError, match="within its `with` block"):
            _ = found.rows
        with pytest.raises(errors.ProfilerError, match="within its `with` block"):
            found.save(tmp_path / "trace.json")


def test_without_lines_nothing_is_compiled_again():
    layers(X).block_until_ready()
    before = tw.stats()
    with tw.profile() as found:
        layers(X).block_until_ready()
    assert tw.stats() == before and any(row.program == "layers" for row in found.rows)


def test_an_empty_profile():
    with tw.profile() as found:
        pass
    assert found.rows == [] and "nothing" in str(found)


def test_own_time_is_without_what_is_within():
    spans = [Span("p", "loop", 0, 10, "t"), Span("p", "a", 1, 3, "t"), Span("p", "b", 5, 2, "t"),
             Span("p", "c", 11, 1, "t"), Span("p", "d", 2, 9, "other")]  # fmt: skip
    assert _own(spans) == [5, 3, 2, 1, 9]


def test_a_trace_for_tensorboard_and_perfetto(tmp_path):
    with profiler.trace(tmp_path, create_perfetto_trace=True), profiler.StepTraceAnnotation("train", step_num=1):
        profiler.annotate_function(lambda: layers(X).block_until_ready(), "mine")()
    (folder,) = (tmp_path / "plugins" / "profile").iterdir()
    assert list(folder.glob("*.xplane.pb"))
    trace = json.loads(gzip.decompress((folder / "perfetto_trace.json.gz").read_bytes()))
    assert {"train", "mine"} <= {e.get("name") for e in trace["traceEvents"]} and "metadata" not in trace


def test_one_recording_at_a_time(tmp_path):
    with pytest.raises(errors.ProfilerError, match="no recording"):
        profiler.stop_trace()
    with profiler.trace(tmp_path), pytest.raises(errors.ProfilerError, match="already running"), tw.profile():
        pass
    with pytest.raises(errors.ArgumentError, match="create_perfetto_trace"):
        profiler.start_trace(tmp_path, create_perfetto_link=True)
    with pytest.raises(errors.ProfilerError, match="no server"):
        profiler.stop_server()
    with pytest.raises(errors.ArgumentError, match="no port 80000"):
        profiler.start_server(80000)


def test_memory(tmp_path):
    profiler.save_device_memory_profile(tmp_path / "memory.prof")
    assert gzip.decompress((tmp_path / "memory.prof").read_bytes())


def test_compiled_text_tells_lines_where_asked_for():
    with tw.config(source_lines=True):
        text = tw.jit(lambda x: tnp.exp(x) + 1).lower(X).compile().as_text()
    assert 'op_name="exp"' in text and __file__ in text
    assert __file__ not in tw.jit(lambda x: tnp.exp(x) + 1).lower(X).compile().as_text()


def test_the_report_on_memory_names_lines():
    def f(x):
        y = tnp.sort(x)  # as large as x, alive with it
        return (y * x).sum(), y[:2]

    found = tw.memory_report(f, tw.ShapeDtypeStruct((4096,), "float32"))
    assert found.arguments == 4 * 4096 and 2 * 4 * 4096 <= found.peak <= 4 * 4 * 4096
    rows = {live.role: origin for live, origin in found.alive if live.bytes == 4 * 4096}
    assert "sort" in rows["temporary"].name and __file__ in rows["temporary"].line
    assert "at the peak" in str(found) and "argument" in str(found)
    assert tw.memory_report(lambda x: x, X).peak >= 0


class Page(HTMLParser):
    """Whether every element is closed, and how many of each there are."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], collections.Counter()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen[tag] += 1
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.seen[tag] += 1


def kernel(block):
    def body(a, o):
        o[...] = tnp.exp(a[...]) * 2

    spec = tl.BlockSpec(block, lambda i, j: (i, j))
    grid = (128 // block[0], 128 // block[1])
    return tl.kernel_call(body, tw.ShapeDtypeStruct((128, 128), "float32"), grid=grid, in_specs=[spec], out_specs=spec,
                          name="doubled_exp")  # fmt: skip


def test_the_page_of_an_explanation(tmp_path):
    call = kernel((64, 64))

    def f(x):
        h = call(x @ x)
        return (call(h + 1) * h).sum()

    tw.explain(f, X, measure=True).save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    found = Page(text)
    assert not found.open and found.seen["svg"] >= 3 and "doubled_exp" in text and "<script" not in text
    for title in ("The program", "Kernels", "What XLA runs", "Roofline", "Measured", "As text"):
        assert f"<h2>{title}</h2>" in text
    assert f">{html.escape(os.path.relpath(__file__))}:" in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_a_page_for_a_device_has_the_roofline(tmp_path):
    explained = tw.explain(lambda x: kernel((8, 128))(x).sum(), X, target="tpu:v5e")
    explained.save(tmp_path / "page.html"), explained.save(tmp_path / "page.txt")
    text = (tmp_path / "page.html").read_text()
    assert Page(text).seen["circle"] == len(explained.kernels) > 0 and "<h2>Roofline</h2>" in text
    assert (tmp_path / "page.txt").read_text() == f"{explained}\n"
    with pytest.raises(errors.ArgumentError, match="page.doc"):
        explained.save(tmp_path / "page.doc")


def test_glue_and_kernels_are_a_graph_without_circles():
    call = kernel((64, 64))
    nodes = nodes_of(tw.make_jaxpr(lambda x: call(call(x) + x) * call(x - 1))(X))
    assert [n.kernel for n in nodes].count(True) == 3
    assert all(a < i for i, n in enumerate(nodes) for a in n.after)
