"""The StableHLO printer: operands, operations, regions and functions as text.

Operations are printed in MLIR's generic form, `"dialect.op"(%a) <{attributes}> : (types) -> types`,
one line each. XLA parses the text; it is also what the executable cache hashes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.printer import identifier
from ...core.ir.program import ORDERED, Atom, Eqn, Literal, Program, Var
from ...core.ir.types import FLOAT0, INT32, RARE_FLOATS, ArrayType, Dtype, Type
from ...core.support.errors import Source
from ...core.support.memo import cached
from ...core.tracing.trace import at_line

_ELEMENTS = {
    "bool": "i1", "bfloat16": "bf16", "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2",
    **{name: name.replace("float", "f").replace("_", "").upper().replace("F", "f", 1) for name in RARE_FLOATS},
    "complex64": "complex<f32>", "complex128": "complex<f64>",
    **{f"float{b}": f"f{b}" for b in (16, 32, 64)},
    **{f"int{b}": f"i{b}" for b in (2, 4, 8, 16, 32, 64)},
    **{f"uint{b}": f"ui{b}" for b in (2, 4, 8, 16, 32, 64)},
}  # fmt: skip


type_of = type  # the builtin, whose name is that of a value's type here


@cached()
def element(dtype: Dtype) -> str:
    """The MLIR element type of a dtype."""
    return "i1" if dtype == FLOAT0 else _ELEMENTS[str(dtype)]


@cached(4096)
def tensor(type: ArrayType) -> str:
    """The MLIR tensor type of an `ArrayType`."""
    sizes = [f"{d}x" if type_of(d) is int else "?x" for d in type.shape]
    return f"tensor<{''.join(sizes)}{element(type.dtype)}>"


class Operand(NamedTuple):
    """A value of the module being printed: its SSA name and its type."""

    name: str
    type: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> Any:
        return self.type.dtype


def integers(values: Sequence[int]) -> str:
    """An `array<i64: ...>` attribute."""
    return f"array<i64: {', '.join(map(str, values))}>" if len(values) else "array<i64>"


def dense(value: Any, dtype: Any) -> str:
    """The body of a `dense<...>` attribute with the exact bits of `value`."""
    if dtype == FLOAT0:
        return "false"
    array = np.asarray(value).astype(dtype)
    text = str(array.dtype)
    if array.size and (array.ndim == 0 or (array == array.flat[0]).all()) and array.dtype.kind != "c":
        one = array.reshape(-1)[0]
        if text == "bool":
            return "true" if one else "false"
        if "int" in text:
            return str(int(one))
        if not (one == 0 and array.ndim and np.signbit(array.astype(np.float64)).any()):
            return "0x" + one.tobytes()[::-1].hex().upper()
    if array.dtype.kind == "c" and array.ndim == 0:
        half = np.float32 if text == "complex64" else np.float64
        return f"({dense(array.real, half)}, {dense(array.imag, half)})"
    if text in ("int4", "uint4", "int2", "uint2"):
        return str(array.astype(int).tolist())
    if array.size == 0:
        return ""
    if text == "bool":
        return str(array.tolist()).lower()
    return f'"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"'


TOKEN = ArrayType((), INT32)
ATTRIBUTES = "mhlo.frontend_attributes = {"
Rule = Callable[..., Any]


def _located(line: str, operation: str, source: Source) -> str:
    """A printed operation with its primitive's name, the named scopes it is in, and the user's line."""
    if line.rstrip().endswith(")") and ' loc("' in line.rsplit("\n", 1)[-1]:
        return line
    name = "/".join(filter(None, [source.scope, operation]))
    return f'{line} loc("{_quoted(name)}"("{_quoted(source.code.co_filename)}":{source.line}:1))'


def noted(line: str, notes: Sequence[tuple[str, str]]) -> str:
    """A printed operation with notes for XLA, but for names of which it has a note already."""
    head, found, types = line.rpartition(" : (")
    body, lines, last = head.rpartition("\n")
    text = ", ".join(f"{name} = {json.dumps(value)}" for name, value in
                     ((json.dumps(name), value) for name, value in notes) if f"{name} = " not in last)  # fmt: skip
    if not text or not found:
        return line
    if ATTRIBUTES in last:
        last = last.replace(ATTRIBUTES, f"{ATTRIBUTES}{text}, ")
    elif last.endswith("}"):  # it has other attributes
        last = f"{last[:-1]}, {ATTRIBUTES}{text}}}}}"
    else:
        last = f"{last} {{{ATTRIBUTES}{text}}}}}"
    return "".join((body, lines, last, found, types))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


class Emitter:
    """Prints one module. Rules call `op`; the driver calls `function` and `module_text`."""

    rules: Mapping[Primitive, Rule]
    platform: str
    counter: int

    def __init__(
        self, rules: Mapping[Primitive, Rule], platform: str, expanded: Callable[[Program], Program],
        located: bool = False,
    ):  # fmt: skip
        self.rules, self.platform = rules, platform
        self.located = located  # whether each operation carries the user's source line
        self.expanded = expanded  # what gives a Program that a rule has traced in primitives that have rules
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.called: dict[Any, str] = {}
        self.forwarded: dict[str, list[int | None]] = {}  # which argument of a function each result is, if any
        self.callbacks: list[Any] = []  # host functions of callback equations, in order of appearance
        self.keep: list[Any] = []  # objects the executable must keep alive
        self.token: Any = None  # orders effects within a function: an i32 that each ordered callback passes on
        self.transposes: dict[str, tuple[Operand, Sequence[int]]] = {}  # of what each transposed value is made, and how
        self.counter = 0
        self.imported: dict[Any, str] = {}  # names of the exported functions that are called
        self.unrefined = False  # whether sizes within one of them are to be worked out before XLA compiles the module
        self.meshes: Any = None  # the names of meshes, in programs that run on one
        self.within_mesh = 0  # how many `shard_map`s are being printed; functions are printed in place there

    # ------------------------------------------------------------ single operations

    def fresh(self) -> str:
        self.counter += 1
        return f"%{self.counter}"

    def op(self, name: str, operands: Sequence[Operand], out: Type, attributes: str = "", regions: str = "") -> Operand:
        """Print an operation with one result."""
        result = self.fresh()
        self.lines.append(f"{result} = {self._call(name, operands, attributes, regions)} -> {tensor(out)}")
        return Operand(result, out)

    def ops(
        self, name: str, operands: Sequence[Operand], outs: Sequence[Type], attributes: str = "", regions: str = "",
        label: str = "", more: str = ""
    ) -> list[Operand]:  # fmt: skip
        """Print an operation with any number of results; XLA names the instruction after `label`.

        `more` are attributes that are no properties of the operation.
        """
        types = f"({', '.join(tensor(t) for t in outs)})"
        where = f' loc("{label}")' if label else ""
        call = f"{self._call(name, operands, attributes, regions, more)} -> {types}{where}"
        if not outs:
            self.lines.append(call)
            return []
        result = self.fresh()
        self.lines.append(f"{result}:{len(outs)} = {call}")
        return [Operand(f"{result}#{i}", t) for i, t in enumerate(outs)]

    def _call(self, name: str, operands: Sequence[Operand], attributes: str, regions: str, more: str = "") -> str:
        names = ", ".join([o.name for o in operands])
        types = ", ".join([tensor(o.type) for o in operands])
        properties = f" <{{{attributes}}}>" if attributes else ""
        inner = f" ({regions})" if regions else ""
        found = f" {{{more}}}" if more else ""
        return f'"{name}"({names}){properties}{inner}{found} : ({types})'

    def constant(self, value: Any, type: ArrayType) -> Operand:
        """A constant; scalars spread over the type's shape."""
        array = np.asarray(value)
        if array.ndim == 0 and type.shape and array.dtype.kind == "c":
            return self.broadcast(self.constant(value, ArrayType((), type.dtype)), type.shape)
        return self.op("stablehlo.constant", [], type, f"value = dense<{dense(value, type.dtype)}> : {tensor(type)}")

    def broadcast(self, x: Operand, shape: Sequence[int], dims: Sequence[int] | None = None) -> Operand:
        """`broadcast_in_dim`; by default operand axes align with the trailing axes of `shape`."""
        shape = tuple(shape)
        if x.shape == shape:
            return x
        dims = range(len(shape) - len(x.shape), len(shape)) if dims is None else dims
        out = ArrayType(shape, x.dtype)
        return self.op("stablehlo.broadcast_in_dim", [x], out, f"broadcast_dimensions = {integers(tuple(dims))}")

    def reshape(self, x: Operand, shape: Sequence[int]) -> Operand:
        return x if x.shape == tuple(shape) else self.op("stablehlo.reshape", [x], ArrayType(tuple(shape), x.dtype))

    def convert(self, x: Operand, dtype: np.dtype[Any]) -> Operand:
        return x if x.dtype == dtype else self.op("stablehlo.convert", [x], ArrayType(x.shape, dtype))

    def vector(self, sizes: Sequence[Any], dtype: np.dtype[Any]) -> Operand:
        """Sizes that are not all numbers, as a vector."""
        raise NotImplementedError("only programs that are exported have symbolic sizes")

    # ------------------------------------------------------------ regions and programs

    def region(
        self, types: Sequence[Type], body: Callable[[list[Operand]], Sequence[Operand]], ret: str = "stablehlo.return"
    ) -> str:
        """A region `{ ^bb0(args): ...; return }` whose operations are printed by `body`."""
        outer, self.lines = self.lines, []
        arguments = [Operand(self.fresh(), t) for t in types]
        results = body(arguments)
        names, outs = ", ".join(r.name for r in results), ", ".join(tensor(r.type) for r in results)
        self.lines.append(f'"{ret}"({names}) : ({outs}) -> ()')
        head = ", ".join(f"{a.name}: {tensor(a.type)}" for a in arguments)
        text = "{\n" + (f"^bb0({head}):\n" if types else "") + "\n".join(self.lines) + "\n}"
        self.lines = outer
        return text

    def equation(self, eqn: Eqn, operands: list[Operand]) -> list[Operand]:
        """Print one equation by its rule."""
        rule = self.rules[eqn.primitive]
        out_types = [v.type for v in eqn.outputs]
        if eqn.primitive.multiple:
            return list(rule(self, operands, out_types, **eqn.params))
        return [rule(self, operands, out_types[0], **eqn.params)]

    def inline(self, program: Program, operands: Sequence[Operand]) -> list[Operand]:
        """Print a Program's equations here; gives its outputs. Constants are printed in place."""
        env: dict[Any, Operand] = dict(zip(program.inputs, operands, strict=True))
        for var, value in zip(program.constants, program.values, strict=True):
            env[var] = self.constant(np.asarray(value), var.type)  # type: ignore[arg-type]
        literals: dict[Any, Operand] = {}

        def read(atom: Atom) -> Operand:
            if type(atom) is Var:
                return env[atom]
            assert type(atom) is Literal
            found = literals.get(atom.key)
            if found is None:
                found = literals[atom.key] = self.constant(atom.value, atom.type)
            return found

        for eqn in program.eqns:
            operands, printed = [read(a) for a in eqn.inputs], len(self.lines)
            with at_line(eqn.source):
                results = self.equation(eqn, operands)
            if eqn.source is not None and eqn.source.notes:
                self.lines[printed:] = [noted(line, eqn.source.notes) for line in self.lines[printed:]]
            if self.located and eqn.source is not None:
                self.lines[printed:] = [_located(x, eqn.primitive.name, eqn.source) for x in self.lines[printed:]]
            for var, result in zip(eqn.outputs, results, strict=True):
                env[var] = result
        return [read(a) for a in program.outputs]

    def call(self, program: Program, operands: Sequence[Operand]) -> list[Operand]:
        """Call a Program as a private function, printed once however often it is called."""
        name = self.callee(program)
        if ORDERED not in program.effects:
            results = self.ops("func.call", operands, program.out_types, f"callee = @{name}")
        else:
            types = [*program.out_types, TOKEN]
            *results, self.token = self.ops("func.call", [*operands, self.token], types, f"callee = @{name}")
        return [out if i is None else operands[i] for out, i in zip(results, self.forwarded[name], strict=True)]

    def callee(self, program: Program) -> str:
        """The name of the private function that a Program is printed as."""
        name = self.called.get(program)
        if name is None:
            name = self.called[program] = f"{identifier(program.name)}_{len(self.called)}"
            self.functions.append(self.function(name, program, "private"))
        return name

    def function(
        self, name: str, program: Program, visibility: str, arguments: Sequence[str] = (), given: Sequence[str] = ()
    ) -> str:  # fmt: skip
        """A `func.func`; `arguments` and `given` are attribute dictionaries, one per input and output ("" for none)."""
        outer, self.lines, outer_token = self.lines, [], self.token
        inputs = [Operand(self.fresh(), t) for t in program.in_types]
        extra = list(arguments) or [""] * len(inputs)
        head = ", ".join(
            f"{o.name}: {tensor(o.type)}{' ' + a if a else ''}" for o, a in zip(inputs, extra, strict=True)
        )
        outs = ", ".join(tensor(t) for t in program.out_types)
        shown = ", ".join(f"{tensor(t)} {a}" for t, a in zip(program.out_types, given)) if given else None
        if ORDERED in program.effects and visibility == "private":  # the caller's token passes through
            self.token = Operand(self.fresh(), TOKEN)
            head = ", ".join(filter(None, [head, f"{self.token.name}: {tensor(TOKEN)}"]))
            outs = ", ".join(filter(None, [outs, tensor(TOKEN)]))
            results = self.inline(program, inputs)
            results.append(self.token)
        else:
            self.token = self.constant(0, TOKEN) if ORDERED in program.effects else None
            results = self.inline(program, inputs)
        places = {o.name: i for i, o in enumerate(inputs)}
        self.forwarded[name] = [places.get(r.name) for r, _ in zip(results, program.outputs, strict=False)]
        self.token = outer_token
        names = ", ".join(r.name for r in results)
        body = "\n".join(self.lines)
        self.lines = outer
        ret = f'"func.return"({names}) : ({outs}) -> ()'
        return f"func.func {visibility} @{name}({head}) -> ({shown or outs}) {{\n{body}\n{ret}\n}}"

    def finished(self, name: str, inputs: Sequence[Operand], results: Sequence[Operand],
                 arguments: Sequence[str] = (), given: Sequence[str] = ()) -> str:  # fmt: skip
        """What was printed so far, outside of any function, as a public `func.func`; attributes as for `function`."""
        extra, more = (attributes or [""] * len(ends) for attributes, ends in ((arguments, inputs), (given, results)))
        head = ", ".join(f"{o.name}: {tensor(o.type)} {a}" for o, a in zip(inputs, extra, strict=True))
        names, outs = ", ".join(r.name for r in results), ", ".join(tensor(r.type) for r in results)
        shown = ", ".join(f"{tensor(r.type)} {a}" for r, a in zip(results, more, strict=True))
        body, self.lines = "\n".join(self.lines), []
        ret = f'"func.return"({names}) : ({outs}) -> ()'
        return f"func.func public @{name}({head}) -> ({shown}) {{\n{body}\n{ret}\n}}"

    def module_text(self, name: str, main: str) -> str:
        """The module; where it has lines, its name ends in a digest, by which recordings identify it."""
        functions = "\n".join([main, *self.functions])
        head, declared = ("", "") if self.meshes is None else self.meshes.texts()
        digest = f".{zlib.crc32(functions.encode()):08x}" if self.located else ""
        return f"module @{identifier(name)}{digest} {head}{{\n{declared}{functions}\n}}\n"
