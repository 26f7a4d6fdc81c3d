"""Exports: what is called is what was traced, for every size, from here and from jax, and nothing is traced again."""

import random
import subprocess
import sys
from collections import Counter
from struct import pack
from typing import NamedTuple

import numpy as np
import pytest

import tilewright as tw
from benchmarks.fuzzing import hostile
from examples import gpt
from tests.support.paths import ROOT
from tilewright import export, lax, nn
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.errors import (
    ArgumentError,
    ExportError,
    ExportVersionError,
    InconclusiveDimensionError,
    NoDerivativeError,
    ShapeError,
    TreeError,
    UnsupportedError,
)

F32, I32 = np.float32, np.int32
LETTERS = 11


def struct(shape, dtype=F32):
    return tw.ShapeDtypeStruct(shape, dtype)


def close(got, want, tolerance=2e-6):
    got, want = tw.tree.leaves(got), tw.tree.leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), tolerance, tolerance)


def round_trip(function, *types, **options):
    return export.deserialize(export.export(tw.jit(function), **options)(*types).serialize(options.pop("order", 0)))


# ---------------------------------------------------------------------------- operations with symbolic sizes


def _kernel(x, out):
    out[...] = x[...] * 2 + 1


def _rows(x):
    spec = tl.BlockSpec((None, x.shape[1]), lambda i: (i, 0))
    return tl.kernel_call(_kernel, struct(x.shape), grid=(x.shape[0],), in_specs=[spec], out_specs=spec)(x)


def _vector(x):
    return tl.kernel_call(_kernel, struct(x.shape))(x)


OPERATIONS = {
    "elementwise": lambda x: tnp.where(x > 0, tnp.exp(x), x * 2),
    "reductions": lambda x: (x.sum(0), x.mean(), x.max(1), tnp.argmax(x, 0), tnp.var(x)),
    "size as a number": lambda x: x / x.shape[0] + x.shape[0] * 2 + 3 / x.shape[0],
    "reshape": lambda x: (x.reshape(-1), x.reshape(3, -1), x.reshape(x.shape[0], 3, 1), x.T.ravel()),
    "broadcast": lambda x: (tnp.broadcast_to(x[:, :1], (x.shape[0], 4)), tnp.ones((x.shape[0], 2)), x[None] + x),
    "iota": lambda x: (tnp.arange(x.shape[0]), tnp.arange(1, 2 * x.shape[0], 2), lax.iota(I32, x.shape[0])),
    "slices": lambda x: (x[1:], x[:-1], x[::-1], x[0], x[-1], x[:, :2], x[: x.shape[0] // 2], x[::2], x[:2]),
    "concatenate": lambda x: tnp.concatenate([x, x[:1], x]),
    "pad": lambda x: (tnp.pad(x, ((0, x.shape[0]), (1, 0))), tnp.pad(x, ((2, 1), (0, 0)))),
    "product": lambda x: (x @ x.T, tnp.einsum("ij,ik->jk", x, x)),
    "gather": lambda x: (x[tnp.array([0, 1, 0])], x[:, tnp.array([2, 0])], tnp.take(x, tnp.arange(x.shape[0]) % 2, 0)),
    "scatter": lambda x: (x.at[0].set(7.0), x.at[tnp.array([0, 1])].add(x[:2]), x.at[:, 1].mul(2.0)),
    "sort": lambda x: (tnp.sort(x, 0), tnp.argsort(x, 0), lax.top_k(x, 2)),
    "scan": lambda x: lax.scan(lambda c, r: (c + r, c * 2), tnp.zeros(3), x),
    "loop": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], tnp.zeros(3)),
    "branches": lambda x: lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x),
    "dynamic slice": lambda x: lax.dynamic_slice(x, (x.shape[0], 1), (x.shape[0], 2)),
    "convolution": lambda x: lax.conv(x[:, None], tnp.ones((2, 1, 2)), (1,), "VALID"),
    "gradient": lambda x: tw.grad(lambda y: (tnp.sin(y) @ y.T).sum())(x),
    "vmap": lambda x: tw.vmap(lambda r: tnp.cumsum(r) / r.sum())(x),
    "softmax": lambda x: (nn.softmax(x, 0), nn.layer_norm(x), nn.logsumexp(x, 0)),
    "kernel of rows": _rows,
    "kernel, batched": lambda x: tw.vmap(_vector)(x),
    "random": lambda x: tw.vmap(lambda r: tw.random.normal(tw.random.fold_in(tw.random.key(0), 1), (3,)) + r)(x),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_with_a_symbolic_size_are_those_of_each_size(name):
    function = OPERATIONS[name]
    (b,) = export.symbolic_shape("b", constraints=["b >= 2"])
    exported = export.export(tw.jit(function))(struct((b, 3)))
    for size in (2, 5):
        x = np.random.default_rng(size).normal(size=(size, 3)).astype(F32)
        close(exported.call(x), tw.jit(function)(x), 1e-5)


def test_sizes_are_stated_in_expressions_and_asked_for_by_name():
    b, t = export.symbolic_shape("b, t", constraints=["t >= 4"])

    def halves(x, y):
        assert export.is_symbolic_dim(x.shape[0]) and x.shape[0] // 2 == b and not export.is_symbolic_dim(3)
        assert export.symbolic_dim_bounds(t - 2) == (2, np.inf) and export.symbolic_dim_bounds(3) == (3, 3)
        return x[: x.shape[0] // 2] + y[:, : t - 2].sum(1), y

    exported = export.export(tw.jit(halves))(struct((2 * b,)), struct((b, t)))
    assert str(exported) == "halves(f32[2*b], f32[b,t]) -> (f32[b], f32[b,t]) for cpu"
    x, y = np.arange(6, dtype=F32), np.ones((3, 5), F32)
    loaded = export.deserialize(exported.serialize())
    for one in (exported, loaded):
        close(one.call(x, y), (x[:3] + 3, y))
        with pytest.raises(ExportError, match=r"args\[0\].shape\[0\] is 5, and was exported as 2\*b"):
            one.call(x[:5], y)
        with pytest.raises(ExportError, match=r"args\[0\] is i32\[6\], and was exported as f32\[2\*b\]"):
            one.call(x.astype(I32), y)
        with pytest.raises(ExportError, match="constraint .*t >= 4.* does not hold"):
            one.call(x, y[:, :3])
        with pytest.raises(TreeError, match="was exported for arguments of the structure"):
            one.call([x], y)
    args = export.symbolic_args_specs(({"a": x}, y), ({"a": "n"}, "n, ..."))
    assert str(args[0]["a"].shape) == "(n,)" and str(args[1].shape) == "(n, 5)"


def test_what_needs_a_number_says_which_constraint_or_operation():
    (b,) = export.symbolic_shape("b")
    with pytest.raises(InconclusiveDimensionError, match="whether b > 3 is not known"):
        export.export(tw.jit(lambda x: x if x.shape[0] > 3 else -x))(struct((b,)))
    with pytest.raises(InconclusiveDimensionError, match="the size b is used as a number"):
        export.export(tw.jit(lambda x: [x * i for i in range(x.shape[0])]))(struct((b,)))
    with pytest.raises(ExportError, match="do not determine t"):
        export.export(tw.jit(lambda x: x))(struct((b * export.symbolic_shape("t", scope=b.scope)[0], b)))
    blocks = tl.BlockSpec((4,), lambda i: (i,))
    kernel = tl.kernel_call(_kernel, struct((9 * b,)), grid=(2 * b,), in_specs=[blocks], out_specs=blocks)
    with pytest.raises(UnsupportedError, match="symbolic"):
        export.export(tw.jit(kernel))(struct((9 * b,)))
    with pytest.raises(UnsupportedError, match="symbolic sizes, and cuda launches known grids"):
        export.export(tw.jit(tw.vmap(_vector)), platforms=["cuda:sm_90"])(struct((b, 128)))
    with pytest.raises(ExportError, match="calls functions of the host"):
        export.export(tw.jit(lambda x: tw.pure_callback(np.sin, struct((3,)), x)))(struct((3,)))
    with pytest.raises(ArgumentError, match="there is no platform 'vax'"):
        export.export(tw.jit(_vector), platforms=["vax"])


# ---------------------------------------------------------------------------- bytes


class Pair(NamedTuple):
    left: object
    right: object


def test_trees_types_and_derivatives_come_back_from_bytes():
    if "tests.Pair" not in tw.core.support.runtime.runtime.parts["export.nodes"]:
        export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")

    def function(p, n, *, scale):
        return {"y": p.left["w"] * scale + n, "none": None, "k": tw.random.split(p.right)}, [n > 0]

    args = Pair({"w": np.arange(3, dtype=F32)}, tw.random.key(4)), np.int32(2)
    e = export.deserialize(export.export(tw.jit(function))(*args, scale=np.float16(2)).serialize(2))
    got, want = e.call(*args, scale=np.float16(2)), function(*args, scale=np.float16(2))
    assert tw.tree.structure(got) == tw.tree.structure(want)
    assert (tw.random.key_data(got[0].pop("k")) == tw.random.key_data(want[0].pop("k"))).all()
    close(got, want)

    def loss(w, call):
        return (call(Pair({"w": w}, args[1]), args[1], scale=np.float16(2))[0]["y"] ** 2).sum()

    def plain(p, n, *, scale):
        return {"y": tnp.sin(p.left["w"]) * scale}, None

    pair = Pair({"w": args[0].left["w"]}, args[1])
    e = export.deserialize(export.export(tw.jit(plain))(pair, args[1], scale=np.float16(2)).serialize(2))
    w = tnp.array(args[0].left["w"])
    close(tw.grad(loss)(w, e.call), tw.grad(loss)(w, plain))
    second = [tw.grad(lambda w, c=call: tw.grad(loss)(w, c).sum())(w) for call in (e.call, plain)]
    close(*second)
    with pytest.raises(NoDerivativeError):
        tw.jvp(lambda w: e.flat(w, args[1], args[1], np.float16(2)), (w,), (w,))
    with pytest.raises(ExportError, match="has no derivative"):
        export.deserialize(e.serialize()).vjp()
    with pytest.raises(TreeError, match="keys of exported trees are strings"):
        export.export(tw.jit(lambda d: d))({1: w}).serialize()


def test_bytes_of_other_versions_or_of_nothing_are_named():
    from tilewright.export import flat, seal
    from tilewright.export.schema import SCHEMA

    data = export.export(tw.jit(tnp.sin))(struct((3,))).serialize()
    table = flat.read(SCHEMA, "Exported", data)

    def written(changes):
        return seal.sealed(flat.written(SCHEMA, "Exported", table | changes))

    for changed, what in (({"version": 99}, "version 99"), ({"calling": 3}, "calling convention 3")):
        with pytest.raises(ExportVersionError, match=what):
            export.deserialize(written(changed))
    for change in ({"in_numbers": [7]}, {"disabled_checks": [{"kind": -1}]}, {"unique_types": [{"dtype": -3}]}):
        with pytest.raises(ExportVersionError, match="number"):
            export.deserialize(written(change))
    rng = np.random.default_rng(0)
    for blob in (b"", b"no export", bytes(100), bytes(data[:40]), rng.bytes(400)):
        with pytest.raises(ExportVersionError):
            export.deserialize(blob)
    with pytest.raises(ExportError, match="exported for tpu, and is called on cpu"):
        export.export(tw.jit(tnp.sin), platforms=["tpu"])(struct((3,))).call(np.ones(3, F32))


def test_each_flipped_bit_is_an_error_before_the_program_is_read():
    found = hostile.exports(400, seed=1)
    assert not hostile.wrong("exports", found), found


def test_an_end_that_is_cut_off_or_of_other_tables_is_named():
    first, second = (export.export(tw.jit(f))(struct((3,))).serialize() for f in (tnp.sin, tnp.cos))
    for damaged, why in (
        (first[:-48], "its end is missing"), (first[:-49] + first[-48:], "which were"),
        (second[:-48] + first[-48:], "damaged export"), (first + b"x", "its end is missing"),
    ):  # fmt: skip
        with pytest.raises(ExportVersionError, match=why):
            export.deserialize(damaged)


def test_tables_that_nothing_vouches_for_are_read_or_refused_by_name():
    from tilewright.export import flat
    from tilewright.export.schema import SCHEMA

    table = flat.read(SCHEMA, "Exported", export.export(tw.jit(lambda x, y: {"a": tnp.sin(x) @ y, "b": x.sum()}))(
        struct((3, 3)), struct((3, 3))).serialize())  # fmt: skip
    blob = bytes(flat.written(SCHEMA, "Exported", table | {"written_by": "another program"}))
    assert export.deserialize(blob).fun_name == "<lambda>"
    draw = random.Random(0)
    found = Counter(hostile.outcome(lambda: export.deserialize(hostile.flipped(blob, draw)), lambda _: True)
                    for _ in range(400))  # fmt: skip
    assert not [what for what in found if what.startswith("raw")], found
    for shape in ("9^9^9^9", "2^99999999", "(" * 3000, "((a+b+c)^60)^60", "x" * 10_000, "a\0b"):
        types = [{"shape": [shape], "dtype": 10}]
        bad = flat.written(SCHEMA, "Exported", table | {"written_by": None, "unique_types": types})
        with pytest.raises((ExportVersionError, ShapeError)):
            export.deserialize(bad)


def test_tables_that_are_referred_to_twice_at_each_step_are_refused():
    from tilewright.export import flat

    schema, steps = {"Node": (("children", ["Node"]),)}, 60
    blob = bytearray(pack("<I", 12))
    for _ in range(steps):  # 28 bytes: a vtable, a table that refers to a vector, which refers twice to the next table
        blob += pack("<HHHxxiIIII", 6, 8, 4, 8, 4, 2, 8 + 8, 4 + 8)
    blob += pack("<HHxxxxi", 4, 4, 8)
    assert len(flat.read(schema, "Node", blob[:4] + blob[4 + 28 * 58 :])["children"]) == 2
    with pytest.raises(flat.FormatError, match="without an end"):
        flat.read(schema, "Node", bytes(blob))


def test_kernels_go_with_an_export_as_code_of_the_devices_that_are_named():
    pytest.importorskip("triton")
    exported = export.export(tw.jit(_vector), platforms=["cpu", "cuda:sm_90"])(struct((128,)))
    assert exported.platforms == ("cpu", "cuda") and exported.uses_global_constants
    text = exported.mlir_module()
    assert "stablehlo.case" in text and "sm_90" in text
    x = np.arange(128, dtype=F32)
    close(exported.call(x), x * 2 + 1)


# ---------------------------------------------------------------------------- a model, here, elsewhere and in jax


@pytest.fixture(scope="module")
def model():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"LAYERS": 1, "HEADS": 2, "WIDTH": 8, "CONTEXT": 6, "WRITTEN": 3}.items():
            patch.setattr(gpt, name, value)
        params = gpt.initial(tw.random.key(0), LETTERS)
        (b,) = export.symbolic_shape("b")
        rng = np.random.default_rng(0)
        codes, keys = rng.integers(0, LETTERS, (3, 7)).astype(I32), tw.random.split(tw.random.key(1), 3)
        types = struct((b, 7), I32)
        state = nn.adamw_init(params)
        many = tw.vmap(gpt.write, (None, 0, 0))
        steps = gpt.make_step(100).__wrapped__
        yield {
            "initial": (lambda key: gpt.initial(key, LETTERS), (tw.random.key(0),), (tw.random.key(0),)),
            "hidden": (gpt.hidden, (params, types), (params, codes)),
            "loss": (gpt.loss, (params, types), (params, codes)),
            "step": (steps, (params, state, types), (params, state, codes)),
            "write": (many, (params, struct((b,), keys.dtype), struct((b, 6), I32)), (params, keys, codes[:, :6])),
        }


LONG = pytest.mark.targets  # some seconds each, most of them XLA's


FUNCTIONS = ["hidden", "loss", *(pytest.param(name, marks=LONG) for name in ("initial", "step", "write"))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_of_a_model_is_exported_for_any_batch_and_called_without_tracing(model, name, tmp_path):
    function, types, args = model[name]
    data = export.export(tw.jit(function), platforms=["cpu", "tpu"])(*types).serialize(1 if name == "loss" else 0)
    loaded, want = export.deserialize(data), tw.jit(function)(*args)
    before = tw.stats()["trace"].times
    got = loaded.call(*args)
    assert tw.stats()["trace"].times == before
    close(got, want, 1e-5)
    jax = pytest.importorskip("jax")
    pytest.importorskip("flatbuffers")

    def as_jax(x):
        if str(getattr(x, "dtype", "")).startswith("key"):
            return jax.random.wrap_key_data(np.asarray(tw.random.key_data(x)))
        return np.asarray(x)

    theirs, given = jax.export.deserialize(data), tw.tree.map(as_jax, args)
    with jax.default_device(jax.devices("cpu")[0]):
        close(jax.tree.leaves(theirs.call(*given)), want, 1e-5)
        if name == "loss":
            slopes = tw.jit(tw.grad(function))(*args)
            close(jax.tree.leaves(jax.jit(jax.grad(theirs.call))(*given)), slopes, 1e-5)
    if name == "loss":
        close(tw.jit(tw.grad(loaded.call))(*args), slopes, 1e-5)


CHILD = """
import sys
import numpy as np
import tilewright as tw
from tilewright import export
loaded = export.deserialize(open(sys.argv[1], "rb").read())
total = sum(float(loaded.call(np.full((n, 2), 2.0, np.float32))) for n in (1, 4))
print(total, tw.stats()["trace"].times)
"""


def test_another_process_calls_an_export_without_the_function(tmp_path):
    (b,) = export.symbolic_shape("b")
    path = tmp_path / "f.stablehlo"
    path.write_bytes(export.export(tw.jit(lambda x: (x * x).sum()))(struct((b, 2))).serialize())
    env = {"PYTHONPATH": f"{ROOT / 'src'}", "PATH": "/usr/bin", "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split() == ["40.0", "0"]


def test_exports_call_exports_and_take_part_in_programs():
    b, c = export.symbolic_shape("b")[0], export.symbolic_shape("c")[0]
    inner = round_trip(lambda x: tnp.cumsum(x, 0) * x.shape[0], struct((b, 2)))
    outer = round_trip(lambda y: inner.call(y[1:]) + 1, struct((c + 1, 2)))
    x = np.ones((4, 2), F32)
    close(outer.call(x), np.cumsum(x[1:], 0) * 3 + 1)
    close(tw.jit(lambda x: inner.call(x) + inner.call(x[:2]).sum())(x), np.cumsum(x, 0) * 4 + 12)
    with pytest.raises(UnsupportedError, match="under `vmap`"):
        tw.vmap(inner.call)(x[None])


def test_exports_of_jax_are_called_here():
    jax, jnp = pytest.importorskip("jax"), pytest.importorskip("jax.numpy")
    pytest.importorskip("flatbuffers")
    n = jax.export.symbolic_shape("n")[0]
    shape = jax.ShapeDtypeStruct
    with jax.default_device(jax.devices("cpu")[0]):

        @jax.jit
        def function(p, x):
            y = jnp.tanh(x @ p["w"]).mean(0)
            return {"y": y, "order": jnp.argsort(x[:, 0]), "r": jnp.linalg.qr(p["w"])[1]}

        types = {"w": shape((3, 3), F32)}, shape((2 * n + 1, 3), F32)
        theirs = jax.export.export(function, platforms=["cpu", "tpu"])(*types)
        ours = export.deserialize(theirs.serialize(1))
        x, w = np.random.default_rng(0).normal(size=(7, 3)).astype(F32), {"w": np.diag([1, 2, 3]).astype(F32)}
        close(ours.call(w, x), jax.tree.leaves(theirs.call(w, x)), 1e-5)

        def loss(call):
            return lambda p: call(p, x)["y"].sum()

        close(tw.grad(loss(ours.call))(w), jax.tree.leaves(jax.grad(loss(theirs.call))(w)), 1e-5)
    with pytest.raises(ExportError, match=r"2\*n \+ 1"):
        ours.call(w, x[:6])


# ---------------------------------------------------------------------------- the command


def test_the_command_exports_a_function_of_a_file_or_prints_a_pass(tmp_path, capsys):
    from tilewright.cli.main import main

    source, out = tmp_path / "model.py", tmp_path / "f.stablehlo"
    source.write_text("from tilewright import numpy as tnp\ndef score(x, n):\n    return tnp.sin(x).sum(1) * n\n")
    function = f"{source}::score"
    types = ["--shape", "f32[b,128]", "--shape", "i32[]"]
    assert main(["export", function, *types, "--constraint", "b >= 2", "--vjp", "1", "-o", str(out)]) == 0
    assert "score(f32[b,128], i32[]) -> (f32[b]) for cpu" in capsys.readouterr().out
    x = np.ones((2, 128), F32)
    close(export.deserialize(out.read_bytes()).call(x, np.int32(2)), np.sin(x).sum(1) * 2, 1e-5)
    assert main(["export", function, "--shape", "f32[4,128]", "--shape", "i32[]", "--stop", "print"]) == 0
    assert "stablehlo.sine" in capsys.readouterr().out
    source.write_text(source.read_text() + "def product(x, y):\n    return x @ y\n")
    for wrong, told in (
        ([function, "--shape", "128"], "--shape '128'"),
        ([function, *types, "--target", "vax"], "no platform 'vax'"),
        (["nothing.py::f"], "there is no file 'nothing.py'"),
        ([f"{source}::product", "--shape", "f32[4,3]", "--shape", "f32[4]"], f"at: {source}:5 (product)"),
    ):
        assert main(["export", *wrong]) == 2
        said = capsys.readouterr().out
        assert told in said and "remedy: " in said and "runpy" not in said
    with pytest.raises(SystemExit):
        main(["export", function, *types, "--stop", "nowhere"])
    assert "legalize" in capsys.readouterr().err


def test_what_is_not_a_size_or_an_export_is_said():
    sizes = export.symbolic_shape("b")
    for wrong in ("b", sizes):
        with pytest.raises(tw.errors.ArgumentTypeError, match="is not a size") as raised:
            tw.ShapeDtypeStruct((wrong, 3), "float32")
        assert "symbolic_shape" in raised.value.remedy
    with pytest.raises(tw.errors.ArgumentTypeError, match="takes the bytes of an export, got str"):
        export.deserialize("f.stablehlo")
