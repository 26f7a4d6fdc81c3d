"""Random programs as data: statements over arrays, with nested transformations, that any library of jax's names runs.

    Program   ::= parameters (shapes), statements, result
    Statement ::= operation, operands (numbers of earlier values), static parameters, subprograms

A Program is JSON, so that another process runs it too, and `source` prints it as a script. Values are float64; each
operation is smooth almost everywhere and bounded on bounded operands, so that results are comparable to 1e-8.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

Shape = tuple[int, ...]
SHAPES: tuple[Shape, ...] = ((), (3,), (4,), (2, 3), (3, 4), (2, 3, 4), (1, 3), (4, 1))


@dataclass
class Statement:
    op: str
    args: list[int]
    params: dict[str, Any] = field(default_factory=dict)
    programs: list[Program] = field(default_factory=list)


@dataclass
class Program:
    shapes: list[Shape]
    statements: list[Statement] = field(default_factory=list)
    result: int = 0

    @classmethod
    def of(cls, data: dict[str, Any]) -> Program:
        """A Program read from JSON."""
        statements = [
            Statement(s["op"], s["args"], s["params"], [Program.of(p) for p in s["programs"]])
            for s in data["statements"]
        ]
        return cls([tuple(s) for s in data["shapes"]], statements, data["result"])

    def data(self) -> dict[str, Any]:
        """The Program as JSON's types."""
        return asdict(self)


# Each operation as an expression: `lib` is the library, `np` its numpy; a and b are operands, p the parameters.
ELEMENTWISE = {
    "sin": "np.sin(a)", "cos": "np.cos(a)", "tanh": "np.tanh(a)", "exp": "np.exp(-np.abs(a))", "erf": "lib.lax.erf(a)",
    "sqrt": "np.sqrt(1 + a * a)", "log": "np.log1p(a * a)", "logistic": "lib.nn.sigmoid(a)", "neg": "-a",
    "square": "np.tanh(a * a)", "atan": "np.arctan(a)", "rsqrt": "lib.lax.rsqrt(1 + a * a)", "relu": "lib.nn.relu(a)",
    "stop": "lib.lax.stop_gradient(a)", "sign": "np.sign(a) * a", "cast": "a.astype('float32').astype('float64')",
}  # fmt: skip
BINARY = {
    "add": "a + b", "sub": "a - b", "mul": "np.tanh(a) * b", "div": "a / (1 + b * b)", "max": "np.maximum(a, b)",
    "min": "np.minimum(a, b)", "where": "np.where(a > b, a, np.sin(b))", "atan2": "np.arctan2(a, 2 + b * b)",
    "pow": "(1.5 + np.tanh(a)) ** np.tanh(b)", "hypot": "np.hypot(a, 1 + b * b)", "outer": "np.tanh(np.outer(a, b))",
    "tensordot": "np.tanh(np.tensordot(a, b, 0).ravel()[:4])",
}  # fmt: skip
OF_ONE_AXIS = {
    "sum": "np.sum(a, p['axis'])", "mean": "np.mean(a, p['axis'], keepdims=True)", "amax": "np.max(a, p['axis'])",
    "prod": "np.prod(np.tanh(a), p['axis'])", "cumsum": "np.cumsum(a, p['axis'])", "sort": "np.sort(a, p['axis'])",
    "cumprod": "np.cumprod(np.cos(a), p['axis'])", "lse": "lib.nn.logsumexp(a, p['axis'])",
    "softmax": "lib.nn.softmax(a, p['axis'])", "flip": "np.flip(a, p['axis'])", "roll": "np.roll(a, 1, p['axis'])",
    "std": "np.std(np.concatenate([a, np.sin(3 * a)], p['axis']), p['axis'])",
    "cummax": "lib.lax.cummax(a, p['axis'] % a.ndim)",
    "diff": "np.diff(np.concatenate([a, np.cos(a)], p['axis']), axis=p['axis'])",
    "take": "np.take(a, np.array([0, 0, 1, -1]) % a.shape[p['axis']], p['axis'])",
    "argsort": "np.take_along_axis(a, np.argsort(np.sin(5 * a), p['axis']), p['axis'])",
    "concat": "np.concatenate([a, 2 * a], p['axis'])",
    "scan_sum": "lib.lax.associative_scan(np.add, a, axis=p['axis'] % a.ndim)",
    "slice": "lib.lax.slice_in_dim(a, 0, 1, axis=p['axis'] % a.ndim)", "expand": "np.expand_dims(a, p['axis'])",
    "dynamic_slice":
        "lib.lax.dynamic_slice_in_dim(a, np.argmax(a.ravel()) % a.shape[p['axis']], 1, p['axis'] % a.ndim)",
}  # fmt: skip
SHAPED = {
    "ravel": "a.ravel()[:4]", "transpose": "a.T", "broadcast": "np.broadcast_to(a, (2, *a.shape))",
    "pad": "np.pad(a, [(1, 0)] * a.ndim)", "set": "a.at[..., 0].set(np.sin(a[..., 0]))",
    "last": "a[..., ::-1][..., :3]",
    "add_at": "a.at[np.array([0, 0])].add(0.5 * a[:1])",
    "gram": "np.tanh(a.reshape(a.shape[0], -1) @ a.reshape(a.shape[0], -1).T)",
    "einsum": "np.einsum('...i,...i->...', np.tanh(a), a)",
    "segment": "lib.ops.segment_sum(a, np.arange(a.shape[0]) % 2, 2)",
    "min_at": "a.at[0].min(np.cos(a[-1]))", "mul_at": "a.at[-1].multiply(1.5)",
}  # fmt: skip
TABLE = ELEMENTWISE | BINARY | OF_ONE_AXIS | SHAPED
CODE = {name: compile(text, name, "eval") for name, text in TABLE.items()}

# Transformations of subprograms: `f`, `g` take the operands; results are one array.
TRANSFORMS = {
    "jit": "lib.jit(f)(*x)",
    "checkpoint": "lib.checkpoint(f)(*x)",
    "grad": "lib.grad(lambda *x: np.sum(f(*x)))(*x)",
    "value_and_grad": "(lambda v, g: v * g)(*lib.value_and_grad(lambda *x: np.sum(f(*x)), len(x) - 1)(*x))",
    "jvp": "lib.jvp(f, x, tuple(np.cos(t) for t in x))[1]",
    "vjp": "(lambda out, pull: pull(np.cos(out))[0])(*lib.vjp(f, *x))",
    "jacfwd": "np.sum(lib.jacfwd(f)(*x), 0) if f(*x).ndim else lib.jacfwd(f)(*x)",
    "jacrev": "np.sum(lib.jacrev(f)(*x), 0) if f(*x).ndim else lib.jacrev(f)(*x)",
    "linearize": "lib.linearize(f, *x)[1](*(np.sin(t) for t in x))",
    "linear_transpose": "lib.vjp(lib.linearize(f, *x)[1], *x)[1](np.cos(f(*x)))[0]",
    "vmap": "lib.vmap(f)(*(np.stack([t, np.sin(t)]) for t in x))",
    "vmap_out": "lib.vmap(f, in_axes=-1, out_axes=-1)(*(np.stack([t, 0.5 * t], -1) for t in x))",
    "vmap_first": "lib.vmap(f, in_axes=(0, *[None] * (len(x) - 1)))(np.stack([x[0], -x[0]]), *x[1:])",
    "scan":
        "lib.lax.scan(lambda c, t: (np.tanh(np.sum(f(*(np.tanh(z + c) for z in x))) + t), c), np.sum(x[0]) * 0, "
        "np.arange(3.0))[1]",
    "fori":
        "lib.lax.fori_loop(0, 3, lambda i, c: np.tanh(c + np.sum(f(*(np.sin(z + c + i) for z in x)))), "
        "np.sum(x[0]) * 0)",
    "while":
        "lib.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.tanh(c[1] + np.sum(f(*(np.sin(z + c[1]) "
        "for z in x))))), (0, np.sum(x[0]) * 0))[1]",
    "fori_traced":
        "lib.lax.fori_loop(0, (np.abs(7 * np.sum(x[0])) % 3 + 1).astype('int32'), lambda i, c: np.tanh(c + "
        "np.sum(f(*(np.sin(z + c + i) for z in x)))), np.sum(x[0]) * 0)",
    "map": "lib.lax.map(lambda t: f(*(np.sin(z + t) for z in x)), np.arange(2.0))",
    "cond": "lib.lax.cond(np.sum(x[0]) > 0, f, lambda *x: np.cos(f(*x)), *x)",
    "switch":
        "lib.lax.switch((np.abs(10 * np.sum(x[0])) % 3).astype('int32'), [f, lambda *x: np.sin(f(*x)), lambda "
        "*x: 2 * f(*x)], *x)",
    "custom_jvp": "custom_jvp(lib, f)(*x)",
    "custom_vjp": "custom_vjp(lib, f)(*x)",
    "hessian": "np.sum(lib.hessian(lambda t: np.sum(f(t, *x[1:])))(x[0]), tuple(range(x[0].ndim)))",
}  # fmt: skip
TRANSFORM_CODE = {name: compile(text, name, "eval") for name, text in TRANSFORMS.items()}


def custom_jvp(lib: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a user's rule for tangents: half of the true ones."""
    g = lib.custom_jvp(f)

    @g.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        out, dot = lib.jvp(f, primals, tangents)
        return out, 0.5 * dot

    return g


def custom_vjp(lib: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a user's rule for cotangents: twice the true ones."""
    g = lib.custom_vjp(f)

    def forward(*x: Any) -> Any:
        return f(*x), x

    def backward(x: Any, ct: Any) -> Any:
        return tuple(2 * t for t in lib.vjp(f, *x)[1](ct))

    g.defvjp(forward, backward)
    return g


def function(program: Program, lib: Any) -> Callable[..., Any]:
    """A Program as a function of a library's arrays."""

    def run(*operands: Any) -> Any:
        values = list(operands)
        for s in program.statements:
            args = [values[i] for i in s.args]
            names: dict[str, Any] = {"np": lib.numpy, "lib": lib, "p": s.params, "x": tuple(args)}
            names |= dict(zip("abc", args, strict=False))
            names |= {"f": function(s.programs[0], lib)} if s.programs else {}
            names |= {"custom_jvp": custom_jvp, "custom_vjp": custom_vjp}
            values.append(eval((TRANSFORM_CODE if s.programs else CODE)[s.op], names))
        return values[program.result]

    return run


def operands(program: Program, seed: int) -> list[np.ndarray]:
    """The arrays that a Program is run on."""
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(shape) for shape in program.shapes]


def array(described: dict[str, Any]) -> np.ndarray:
    """An array of a shape and dtype, drawn from a seed: small integers, and normal values with few ties."""
    draw = np.random.default_rng(described["seed"])
    dtype = np.dtype(described["dtype"])
    values = draw.standard_normal(described["shape"]) * 2
    if dtype.kind in "iu":
        values = np.abs(np.rint(values)) if dtype.kind == "u" else np.rint(values)
    return (values > 0 if dtype.kind == "b" else values).astype(dtype)


ShapeOf = Callable[[Program], Shape]


class Draw:
    """Draws Programs; `shape_of` gives a result's shape, and raises one of `refusals` where it has none."""

    def __init__(self, seed: int, shape_of: ShapeOf, refusals: tuple[type[Exception], ...]):
        self.random, self.shape_of, self.refusals = random.Random(seed), shape_of, refusals

    def program(self, shapes: Sequence[Shape] | None = None, length: int = 6, depth: int = 3) -> Program:
        """A Program of some statements, whose subprograms are nested up to a depth."""
        given = list(shapes or (self.random.choice(SHAPES) for _ in range(self.random.randint(1, 3))))
        program, known = Program(given), list(given)
        for _ in range(40):
            if len(program.statements) >= length:
                break
            statement = self._statement(known, depth)
            trial = Program(given, [*program.statements, statement], len(known))
            try:
                shape = self.shape_of(trial)
            except self.refusals:  # shapes that do not fit: another statement is drawn
                continue
            if int(np.prod(shape)) <= 64 and len(shape) <= 4:
                program, known = trial, [*known, shape]
        return program

    def _statement(self, known: Sequence[Shape], depth: int) -> Statement:
        count = len(known)
        recent = lambda: max(self.random.randrange(count), self.random.randrange(count))  # noqa: E731
        if depth and self.random.random() < 0.4:
            args = [recent() for _ in range(self.random.randint(1, 2))]
            inner = self.program([known[i] for i in args], self.random.randint(1, 3), depth - 1)
            return Statement(self.random.choice([*TRANSFORMS]), args, {}, [inner])
        op = self.random.choice([*TABLE])
        args = [recent() for _ in range(2 if op in BINARY else 1)]
        rank = len(known[args[0]])
        params = {"axis": self.random.randrange(-rank, rank) if rank else 0} if op in OF_ONE_AXIS else {}
        return Statement(op, args, params)


def smaller(program: Program) -> list[Program]:
    """Programs that are smaller by one step: without the last statements, with one replaced by an operand or body."""
    found = []
    first = len(program.shapes)
    for n, s in enumerate(program.statements):
        found.append(Program(program.shapes, program.statements[: n + 1], first + n))
        found += [_without(program, n, arg) for arg in dict.fromkeys(s.args)]
        if s.programs:
            (inner,) = s.programs
            spliced = [_replaced(program, n, Statement(s.op, s.args, s.params, [small])) for small in smaller(inner)]
            found += [*spliced, _replaced(program, n, Statement("jit", s.args, {}, [inner]))]
    return [p for p in found if size(p) < size(program)]


def names_in(program: Program) -> set[str]:
    """The operations of a Program and its subprograms."""
    return {s.op for s in program.statements}.union(*(names_in(p) for s in program.statements for p in s.programs))


def size(program: Program) -> int:
    """The number of statements, those of subprograms counted twice and plain calls less than transformations."""
    return sum(
        1 + sum(2 * size(p) + (s.op != "jit") for p in s.programs) + (not s.programs and s.op != "sin")
        for s in program.statements
    )


def _without(program: Program, n: int, instead: int) -> Program:
    """The Program without a statement, whose uses take one of its operands."""
    gone = len(program.shapes) + n
    new = lambda i: instead if i == gone else i - (i > gone)  # noqa: E731
    statements = [
        Statement(s.op, [new(i) for i in s.args], s.params, s.programs)
        for k, s in enumerate(program.statements)
        if k != n
    ]
    return Program(program.shapes, statements, new(program.result))


def _replaced(program: Program, n: int, statement: Statement) -> Program:
    statements = [statement if k == n else s for k, s in enumerate(program.statements)]
    return Program(program.shapes, statements, program.result)


def source(program: Program, name: str = "f", indent: str = "") -> list[str]:
    """The lines of a function that runs the Program with the names of `TABLE` and `TRANSFORMS`."""
    values = [f"x{i}" for i in range(len(program.shapes))]
    lines = [f"{indent}def {name}({', '.join(values)}):"]
    inner = indent + "    "
    for n, s in enumerate(program.statements):
        if s.programs:
            lines += source(s.programs[0], f"{name}{n}", inner)
        text = (TRANSFORMS if s.programs else TABLE)[s.op]
        bound = [f"{letter}={values[i]}" for letter, i in zip("abc", s.args, strict=False)]
        bound += [f"x=({''.join(values[i] + ', ' for i in s.args)})"] if s.programs else []
        bound += [f"p={s.params}"] if s.params else []
        bound += [f"f={name}{n}"] if s.programs else []
        values.append(f"v{n}")
        lines.append(f"{inner}v{n} = (lambda {', '.join(bound)}: {text})()")
    return [*lines, f"{inner}return {values[program.result]}"]
