"""The walk from a function to something that runs: rules, passes, their levels and their reports."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tests.support.paths import GOLDEN
from tilewright import errors, random, triton_backend
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.compiler.pass_manager import up_to, walk
from tilewright.compiler.pipeline import LOWER, PIPELINE, STAGES, Request, settings_ahead, settings_for
from tilewright.core.ir.passes import primitives_of
from tilewright.core.ir.program import Eqn, Program, Var
from tilewright.core.ir.types import ArrayType
from tilewright.core.primitives.elementwise.arithmetic import add_p
from tilewright.core.primitives.special.functions import digamma_p
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.xla_backend.analysis.hlo_report import steps_of
from tilewright.xla_backend.options.compile_options import Call, Unit
from tilewright.xla_backend.pipeline.expand_primitives import expanded
from tilewright.xla_backend.stablehlo import rules
from tilewright.xla_backend.stablehlo.emit import Emitter, Operand
from tilewright.xla_backend.stablehlo.linalg.call import inline

STRUCT = tw.ShapeDtypeStruct((4, 8), "float32")


def softmax(x):
    e = tnp.exp(x - tnp.max(x, -1, keepdims=True))
    return e / tnp.sum(e, -1, keepdims=True)


def doubled(x):
    def double(x, o):
        o[...] = x[...] * 2

    return tl.kernel_call(double, STRUCT)(x) + 1


def keyed(x):
    """Kernels, a primitive that XLA lacks, and random keys."""
    return tnp.cumsum(softmax(x), 0) * random.key_data(random.key(7))[1].astype("float32")


def walked(function, *args, stop, target=None, **changes):
    settings = settings_for(tw.devices("cpu")[0], True) if target is None else settings_ahead(target)
    settings = replace(settings, **changes)
    return walk(up_to(PIPELINE, stop, STAGES), Request(function, args, {}), settings)


# ---------------------------------------------------------------------------- rules


@pytest.mark.parametrize("name", ["neg", "add", "dot_general", "scan", "kernel_call"])
def test_rules_are_those_of_the_primitive_and_not_of_its_name(name):
    """A primitive of a user's own may have any name."""
    own = tw.Primitive(name, typing=lambda x: x, expand=lambda x: x * 3)
    np.testing.assert_array_equal(np.asarray(own.bind(tnp.float32(2))), 6)
    np.testing.assert_array_equal(np.asarray(tw.jit(own.bind)(np.float32(2))), 6)


def test_an_expansion_may_hold_kernels_and_expansions():
    inner = tw.Primitive("inner", typing=lambda x: x, expand=doubled)
    outer = tw.Primitive("outer", typing=lambda x: x, expand=lambda x: inner.bind(x) + tnp.cumsum(x, 0))
    x = np.arange(32.0, dtype=np.float32).reshape(4, 8)
    expected = x * 2 + 1 + np.cumsum(x, 0)
    np.testing.assert_allclose(tw.jit(outer.bind)(x), expected)
    np.testing.assert_allclose(tw.jit(lambda x: tw.lax.cond(x[0, 0] < 1, outer.bind, lambda x: x, x))(x), expected)


def test_a_primitive_without_rule_and_expansion_is_refused_with_its_line():
    bare = tw.Primitive("bare", typing=lambda x: x)
    with pytest.raises(errors.UnsupportedError, match=r"bare has no lowering to XLA(.|\n)*test_pipeline.py"):
        tw.jit(lambda x: bare.bind(x))(np.float32(1))


# ---------------------------------------------------------------------------- passes


@pytest.mark.parametrize("one", PIPELINE[1:], ids=lambda one: one.name)
def test_each_pass_takes_what_the_one_before_it_gives(one):
    before = PIPELINE[PIPELINE.index(one) - 1]
    assert before.gives is one.takes


@pytest.mark.parametrize("old", STAGES)
def test_a_stage_has_the_name_of_its_pass_too(old):
    def text(stop):
        return str(tw.compile(softmax, STRUCT, stop=stop))

    assert text(old) == text(STAGES[old])


@pytest.mark.parametrize("target", ["cpu", "cuda", "tpu"])
@pytest.mark.parametrize(
    "stop", ["trace", "transform", "fuse", "expand", "verify", "split", "legalize", "emit", "print"]
)
def test_text_of_each_level_is_as_recorded(stop, target, request):
    if target == "cuda" and stop in ("emit", "print"):
        pytest.importorskip("triton")
    function = doubled if target == "cpu" else keyed
    text = tw.compile(function, STRUCT, target=target, stop=stop)
    if stop == "print":  # machine code is golden elsewhere
        text = "\n".join(line.partition("backend_config")[0] for line in text.splitlines())
    path = GOLDEN / f"walk.{target}.{stop}.txt"
    text = f"{text}".rstrip() + "\n"
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert text == path.read_text()


def test_kernels_are_emitted_before_anything_is_printed(monkeypatch):
    pytest.importorskip("triton")
    emitted = walked(softmax, STRUCT, stop="emit", target="cuda")

    def fails(kernel, machine):
        raise AssertionError("a kernel is compiled in the middle of printing")

    monkeypatch.setattr(triton_backend, "emit", fails)
    module = walk(PIPELINE[-2:-1], emitted.value, settings_ahead("cuda"), emitted.reports).value
    assert module.text.count("stablehlo.custom_call") == 1


def test_a_program_within_others_is_printed_once():
    inner = tw.jit(lambda x: doubled(x) * tnp.cumsum(x, 0))
    text = tw.compile(lambda x: inner(x) + inner(x + 1), STRUCT, stop="module")
    assert text.count("func.func private") == 1 and text.count("func.call") == 2


def test_what_a_rule_traces_may_need_expansions_of_its_own():
    type_ = ArrayType((4, 8), np.dtype("float32"))
    emitter = Emitter(rules(), "cpu", expanded)
    (found,) = inline(emitter, lambda x: tnp.cumsum(x, 0), [Operand("%x", type_)])
    assert found.type.shape == (4, 8) and any("stablehlo.concatenate" in line for line in emitter.lines)


# ---------------------------------------------------------------------------- levels


def swapped(program: Program) -> Program:
    """A Program that is wrong: its first equation reads what nothing binds."""
    first = program.eqns[0]
    return program.replace(eqns=(first.replace(inputs=[Var(v.type) for v in first.inputs]), *program.eqns[1:]))


@pytest.mark.parametrize("stop", ["trace", "transform", "fuse", "expand", "verify", "split", "legalize", "emit"])
def test_each_level_refuses_a_wrong_program(stop):
    value, level = (lambda w: (w.value, w.level))(walked(softmax, STRUCT, stop=stop))
    level.check(value)
    with pytest.raises(errors.ProgramError):
        level.check(replace(value, program=swapped(value.program)))


def test_the_level_of_kernels_refuses_a_wrong_body():
    fused = walked(doubled, STRUCT, stop="fuse")
    program = fused.value.program
    eqns = [
        eqn.replace(params={"kernel": eqn.params["kernel"].replace(body=swapped(eqn.params["kernel"].body))})
        if eqn.primitive is tl.kernel_call_p else eqn for eqn in program.eqns
    ]  # fmt: skip
    with pytest.raises(errors.ProgramError, match="reads a variable that nothing binds"):
        fused.level.check(replace(fused.value, program=program.replace(eqns=eqns)))


def test_the_expanded_level_refuses_keys_and_what_could_be_expanded():
    def f(x):
        return x + random.uniform(random.key(0), (4, 8)) + tnp.cumsum(x, 0)

    begun = walked(f, STRUCT, stop="fuse")
    legal = walked(f, STRUCT, stop="expand")
    legal.level.check(legal.value)
    with pytest.raises(errors.ProgramError, match="after `expand`|left by `expand`"):
        legal.level.check(begun.value)


def written(body):
    return tl.kernel_call(lambda x, o: o.__setitem__(..., body(x[...])), STRUCT)


@pytest.mark.parametrize("target", ["cuda", "rocm", "tpu"])
def test_a_body_reaches_its_backend_in_what_that_one_has_rules_for(target):
    call = written(lambda x: tw.lax.digamma(x) + (x.astype("int32") // 3))
    done = walked(call, STRUCT, stop="legalize", target=target)
    (kernel,) = kernels_of(done.value.program)
    (_, legal), *_ = (way := done.value.ways[kernel]).routes
    assert legal.kernel is kernel and digamma_p in primitives_of(way.kernel.body)
    assert primitives_of(kernel.body) <= legal.backend.rules.keys() and digamma_p not in primitives_of(kernel.body)
    done.level.check(done.value)
    left = replace(way, routes=((way.routes[0][0], replace(legal, forms=(way.kernel,))),))
    with pytest.raises(errors.UnsupportedError, match="digamma cannot run in"):
        done.level.check(replace(done.value, ways={kernel: left}))


def test_what_no_backend_has_a_rule_for_is_told_before_anything_is_compiled():
    bare = tw.Primitive("bare", typing=lambda x: x)
    call = written(bare.bind)
    tw.compile(call, STRUCT, target="cuda", stop="verify")
    with pytest.raises(errors.UnsupportedError, match=r"bare cannot run in a GPU kernel(.|\n)*test_pipeline.py"):
        tw.compile(call, STRUCT, target="cuda", stop="legalize")
    assert "cannot run: cuda refused it: kernel" in str(tw.explain(call, STRUCT, target="cuda"))


def test_kernels_of_an_expansion_are_verified_and_legalised():
    outer = tw.Primitive("outer", typing=lambda x: x, expand=lambda x: written(tnp.sin)(x))
    done = walked(outer.bind, STRUCT, stop="legalize", target="tpu")
    assert [k for k in kernels_of(done.value.program)] == [*done.value.ways]


def test_the_emitted_level_refuses_kernels():
    legal, emitted = (walked(doubled, STRUCT, stop=stop) for stop in ("legalize", "emit"))
    emitted.level.check(emitted.value)
    with pytest.raises(errors.ProgramError, match="kernel_call left by `expand`"):
        emitted.level.check(legal.value)


@pytest.mark.parametrize("change", [{"kept": (0, 0)}, {"forwarded": {0: 7}}, {"callbacks": [print]}])
def test_the_module_level_refuses_a_wrong_account(change):
    module = walked(softmax, STRUCT, stop="print")
    module.level.check(module.value)
    with pytest.raises(errors.ProgramError):
        module.level.check(replace(module.value, **change))


def test_levels_are_checked_where_checks_are_on():
    type_ = ArrayType((2,), np.dtype("float32"))
    x, y = Var(type_), Var(type_)
    unit = Unit(Program([x], [Eqn(add_p, [x, Var(type_)], [y], {})], [y]), Call())
    settings = settings_for(tw.devices("cpu")[0])
    with pytest.raises(errors.ProgramError):
        walk(LOWER, unit, replace(settings, checked=True))
    with tw.config(debug_checks=False):
        assert not settings_for(tw.devices("cpu")[0]).checked
    assert walk(LOWER[:1], unit, replace(settings, checked=False)).level.name == "program"


# ---------------------------------------------------------------------------- print_passes


def test_every_pass_is_printed_with_its_time(capfd):
    tw.compile(softmax, STRUCT, print_passes=True)
    heads = [line for line in capfd.readouterr().err.splitlines() if line.startswith("-- after")]
    assert [head.split()[2] for head in heads] == [f"{one.name}:" for one in PIPELINE]
    assert all(head.endswith(" ms") and float(head.split()[-2]) >= 0 for head in heads)


def test_the_setting_prints_the_passes_of_every_program(capfd):
    with tw.config(print_passes=True):
        tw.jit(lambda x: x * 5 + 3)(np.float32(1))
    text = capfd.readouterr().err
    assert "-- after compile: executable" in text and "HloModule" in text
    assert "-- after transform: program" in text and "-- after print: module" in text and "stablehlo.multiply" in text
    assert "   (the same)" in text  # what a pass leaves as it was is not printed twice
    tw.jit(lambda x: x * 5 + 4)(np.float32(1))
    assert not capfd.readouterr().err


@pytest.mark.parametrize("target", ["cuda:sm_90", "tpu:v5e", "rocm"])
def test_the_passes_over_a_kernel_are_a_list_that_prints_and_stops(target, capfd):
    """The last level is the kernel that the backend is given; each pass before it can be asked for by its name."""

    def body(x, o):
        o[...] = tw.lax.digamma(x[...])

    def stopped(stop, **kwargs):
        call = tl.kernel_call(body, out_shape=STRUCT)
        return str(tw.compile(call, STRUCT, target=target, stop=stop, **kwargs))

    legal = stopped("legalize", print_passes=True)
    heads = [line for line in capfd.readouterr().err.splitlines() if line.startswith("-- kernel")]
    names = [head.split("/")[1].split(":")[0] for head in heads]
    found = [stopped(f"legalize/{name}") for name in names]
    assert "desugar" in names and names[-1] == "legalize"
    assert "digamma" in found[0] and "digamma" not in found[-1] and found[-1] == legal
    with pytest.raises(errors.ArgumentError, match=f"no pass named 'x'(.|\\n)*{names[0]}"):
        stopped("legalize/x")
    with pytest.raises(errors.ArgumentError, match="no passes of its own"):
        stopped("fuse/desugar")


# ---------------------------------------------------------------------------- reports


def test_a_kernel_that_a_compiler_refuses_is_told_and_computed_by_xla(monkeypatch):
    def refuses(kernel, machine):
        raise errors.ResourceError(f"kernel {kernel.name} takes too much", "less")

    monkeypatch.setattr(triton_backend, "emit", refuses)
    monkeypatch.setattr(triton_backend, "start", lambda kernels, machine: None)
    done = walked(softmax, STRUCT, stop="print", target="cuda")
    (refused,) = done.reports["emit"].refused
    assert done.reports["emit"].kernels == () and "custom_call" not in done.value.text
    assert refused.line() == (
        f"kernel {refused.kernel.name} is computed by XLA: the compiler for cuda refused it: kernel "
        f"{refused.kernel.name} takes too much"
    )


def test_a_kernel_that_a_compiler_refuses_shows_in_explain(monkeypatch):
    pytest.importorskip("triton")

    def refuses(kernel, machine):
        raise errors.ResourceError("too many registers", "less")

    monkeypatch.setattr(triton_backend, "emit", refuses)
    text = str(tw.explain(softmax, STRUCT, target="cuda", compile=True))
    assert "is computed by XLA: the compiler for cuda refused it: too many registers" in text


def test_a_kernel_that_somebody_wrote_is_not_left_to_xla(monkeypatch):
    def refuses(kernel, machine):
        raise errors.ResourceError("too many registers", "less")

    monkeypatch.setattr(triton_backend, "emit", refuses)
    monkeypatch.setattr(triton_backend, "start", lambda kernels, machine: None)

    def alone(x):
        def triple(x, o):
            o[...] = x[...] * 3

        return tnp.sort(tl.kernel_call(triple, STRUCT)(tnp.sort(x)))

    with pytest.raises(errors.ResourceError, match="too many registers"):
        walked(alone, STRUCT, stop="print", target="cuda")


def test_what_a_target_lacks_shows_in_explain():
    def f(x):
        return x * (1 + 2j)

    explained = tw.explain(f, tw.ShapeDtypeStruct((4, 8), "complex64"), target="tpu:v5e")
    text = str(explained)
    assert len(explained.refused) == len(explained.kernels)
    for refused in explained.refused:
        assert f"kernel {refused.kernel.name} is computed by XLA: tpu:v5e refused it" in text


def test_a_kernel_that_somebody_wrote_and_a_target_lacks():
    def double(x, o):
        o[...] = x[...] * 2

    struct = tw.ShapeDtypeStruct((4, 8), "complex64")
    call = tl.kernel_call(double, struct)
    explained = tw.explain(call, struct, target="tpu:v5e")
    assert "kernel double cannot run: tpu:v5e refused it" in str(explained)
    with pytest.raises(errors.DtypeError, match="complex64"):
        tw.explain(call, struct, target="tpu:v5e", compile=True)
    with pytest.raises(errors.DtypeError, match="complex64"):
        tw.compile(call, struct, target="tpu:v5e", stop="verify")


def test_the_way_of_each_kernel_shows_in_explain():
    def gram(x, o):
        @tl.when(tl.program_id(1) == 0)
        def _():
            o[...] = tnp.zeros_like(o)

        o[...] += x[...].T @ x[...]

    def running(x, o, c):
        @tl.when(tl.program_id(0) == 0)
        def _():
            c[...] = tnp.ones_like(c)

        c[...] = c[...] * x[...]
        o[...] = c[...]

    wide = tw.ShapeDtypeStruct((8, 8), "float32")
    summed = tl.kernel_call(gram, wide, grid=(1, 2), in_specs=[tl.BlockSpec((2, 8), lambda i, k: (k, 0))],
                            out_specs=tl.BlockSpec((8, 8), lambda i, k: (0, 0)))  # fmt: skip
    spec = tl.BlockSpec((1, 8), lambda i: (i, 0))
    in_order = tl.kernel_call(running, STRUCT, grid=4, in_specs=[spec], out_specs=spec,
                              scratch_shapes=[tl.VMEM((1, 8), "float32")])  # fmt: skip
    explained = tw.explain(lambda x: (summed(x), in_order(x)), STRUCT, compile=True)
    assert [(kernel.name, route) for kernel, route in explained.routes] == [
        ("gram", "XLA, vectorised over cells, sums over grid axis 1"),
        ("running", "XLA, vectorised over cells, a loop of 4 iterations over grid axis 0"),
    ]
    assert "kernel gram is computed by XLA, vectorised over cells" in str(explained)
    assert tw.explain(in_order, STRUCT).routes == ()


# ---------------------------------------------------------------------------- what XLA does on the CPU


def test_a_plain_function_is_told_as_xlas_fusions():
    explained = tw.explain(softmax, tw.ShapeDtypeStruct((64, 128), "float32"), target="cpu")
    report = explained.xla
    assert explained.kernels == () and report is not None
    assert sum(s.fusions for s in report.steps) >= 1
    operations = {name for step in report.steps for name in step.operations}
    assert {"exponential", "divide"} <= operations or {"exponential", "multiply"} <= operations
    assert report.transcendentals == 64 * 128 and report.flops > 0
    assert report.seconds > 0 and report.bound in ("memory", "vector units")
    read = max(step.bytes_read for step in report.steps)
    assert read >= 64 * 128 * 4
    text = str(explained)
    assert "0 kernels" not in text and "XLA fusions on cpu" in text and "bytes read" in text and "bound by" in text


def test_what_the_numbers_of_xlas_fusions_are_of_is_said():
    def loop(x):
        return tw.lax.fori_loop(0, 5, lambda i, x: tnp.sin(x) * i, x)

    *_, work, least = str(tw.explain(loop, STRUCT, target="cpu")).splitlines()
    assert work.endswith("by XLA's estimate, a loop counted as one iteration")
    assert least.endswith("at 100 Gflop and 20 GB a second")
    assert str(tw.explain(lambda x: x, STRUCT, target="cpu")).endswith("nothing for XLA to compute on cpu")


def test_routines_that_xla_only_calls_are_counted_by_their_bytes():
    report = tw.explain(lambda x: tw.lax.top_k(x, 3), tw.ShapeDtypeStruct((8, 8), "float32"), target="cpu").xla
    assert report is not None and (report.custom, report.flops, report.transcendentals) == (1, 0, 0)
    assert report.bytes_moved == 8 * 8 * 4 + 8 * 3 * 8 and report.seconds > 0
    assert "by XLA's estimate, beside the work of 1 routine that it calls" in "\n".join(report.lines())


def test_a_program_that_computes_nothing():
    assert str(tw.explain(lambda x: x, STRUCT, target="cpu")).startswith("<lambda>: nothing for XLA to compute on cpu")


def test_long_lines_are_wrapped():
    shown = str(tw.explain(lambda: random.normal(random.key(0), (100,)), target="cpu"))
    assert "log-plus-one" in shown and max(map(len, shown.splitlines())) <= 116


def test_kernels_and_fusions_are_told_together_where_compiled():
    explained = tw.explain(doubled, STRUCT, compile=True)
    assert len(explained.kernels) == 1 and explained.xla is not None
    assert str(explained).startswith("doubled: 1 kernel, 1 XLA fusion")
    assert tw.explain(doubled, STRUCT).xla is None


TEXT = """HloModule f, is_scheduled=true, entry_computation_layout={(f32[4]{0})->f32[4]{0}}

%fused_computation (param_0: f32[4], param_1: s32[]) -> f32[4] {
  %param_0 = f32[4]{0} parameter(0)
  %param_1 = s32[] parameter(1)
  %convert.1 = f32[] convert(%param_1)
  %broadcast.1 = f32[4]{0} broadcast(%convert.1), dimensions={}
  ROOT %multiply.1 = f32[4]{0} multiply(%param_0, %broadcast.1)
}

%body (arg: (s32[], f32[4])) -> (s32[], f32[4]) {
  %arg = (s32[], f32[4]{0}) parameter(0)
  %gte.0 = s32[] get-tuple-element(%arg), index=0
  %gte.1 = f32[4]{0} get-tuple-element(%arg), index=1
  %loop_fusion = f32[4]{0} fusion(%gte.1, %gte.0), kind=kLoop, calls=%fused_computation
  ROOT %tuple.0 = (s32[], f32[4]{0}) tuple(%gte.0, %loop_fusion)
}

%condition (arg.1: (s32[], f32[4])) -> pred[] {
  %arg.1 = (s32[], f32[4]{0}) parameter(0)
  ROOT %constant.9 = pred[] constant(false)
}

ENTRY %main (Arg_0: f32[4]) -> f32[4] {
  %Arg_0 = f32[4]{0} parameter(0)
  %constant.2 = s32[] constant(3)
  %tuple.1 = (s32[], f32[4]{0}) tuple(%constant.2, %Arg_0)
  %while.1 = (s32[], f32[4]{0}) while(%tuple.1), condition=%condition, body=%body
  %gte.3 = f32[4]{0} get-tuple-element(%while.1), index=1
  ROOT %custom-call = f32[4]{0} custom-call(%gte.3), custom_call_target="TopK"
}
"""


def test_steps_are_read_from_the_text_of_a_compiled_module():
    loop, call = steps_of(TEXT)
    (fusion,) = loop.inner
    assert (loop.kind, loop.fusions, loop.is_fusion) == ("while", 1, False)
    assert (fusion.kind, fusion.operations) == ("loop", ("convert", "broadcast", "multiply"))
    assert (fusion.bytes_read, fusion.bytes_written) == (20, 16)
    assert list(loop.lines()) == ["while", "  loop fusion of convert, broadcast, multiply: 20 bytes read, 16 written"]
    assert list(call.lines()) == ["TopK: 16 bytes read, 16 written"]


# ---------------------------------------------------------------------------- start-up


def test_a_program_without_kernels_and_meshes_loads_neither():
    code = (
        "import sys, tilewright as tw\n"
        "from tilewright import numpy as tnp\n"
        "x = tnp.ones(3) + 1\n"
        "tw.jit(tw.grad(lambda x: tnp.cumsum(x * x).sum()))(x)\n"
        "late = ('tilewright.lang', 'tilewright.kernel', 'tilewright.compiler.kernel',\n"
        "'tilewright.core.sharding.mesh', 'tilewright.core.sharding.sharding_in_types')\n"
        "print([m for m in sys.modules if m.startswith(late)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
