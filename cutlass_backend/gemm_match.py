"""Which kernels are a product of two matrices with an elementwise epilogue, and what product it is.

    d[l, m, n], ... = epilogue(sum_k a[l, m, k] * b[l, k, n], operands[l, m, n], operands[n], operands[m], ...)

A kernel is one if each of its grid's axes walks through one of l, m, n and k, from end to end, in every operand alike.
Its blocks are then no matter: CUTLASS cuts the arrays by tiles of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..core.ir.program import Eqn, Literal, Program, Var
from ..core.ir.types import is_float
from ..core.primitives.contraction.dot_general import Precision, dot_general_p
from ..core.primitives.movement.shape import broadcast_in_dim_p, transpose_p
from ..core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p
from ..lang.analysis.index_maps import inside, map_of
from ..lang.gpu.normalize import GPU_LIMITS
from ..lang.kernel.kernel import Block, Kernel
from ..lang.legalize import Unfit
from ..lang.legalize.opset import FAMILIES
from ..lang.loopnest.peeling import peeled
from ..lang.loopnest.plan import Plan, plan
from .epilogue import COLUMNS, ROWS, RULES, TYPES, Axes, Printer, Value, value_of

SHORT = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
FACTORS = (*SHORT, "float32", "int8", "uint8")
RESULTS = ("float32", *SHORT)
REDUCTIONS = frozenset(FAMILIES["reductions"])
Role = int | None  # the axis of the grid that walks through an axis of an array; None: a block has all of it


@dataclass(frozen=True)
class Factor:
    """A matrix that is multiplied: the input it is, and whether the summed axis is the one without gaps.

    `batched`: it has a matrix for each product, else one for all of them.
    """

    number: int
    dtype: str
    summed_last: bool
    batched: bool


@dataclass(frozen=True)
class Leaf:
    """An operand of the epilogue: the input it is, and whether it varies along rows, columns and products."""

    number: int
    dtype: str
    rows: bool
    columns: bool
    batched: bool


@dataclass(frozen=True)
class Result:
    """What is stored: an expression, and the dtype that it becomes."""

    text: str
    dtype: str


@dataclass(frozen=True)
class Contraction:
    """See the module; `lines` compute what `results` are made of from `acc` and one `x<i>` for each leaf."""

    kernel: Kernel
    rows: int
    columns: int
    depth: int
    count: int  # of products
    left: Factor
    right: Factor
    leaves: tuple[Leaf, ...]
    lines: tuple[str, ...]
    results: tuple[Result, ...]


@dataclass(frozen=True)
class _Shape:
    """The roles of the axes of the result, and their sizes."""

    batch: tuple[Role, ...]
    rows: Role
    columns: Role
    summed: Role
    sizes: tuple[int, int, int, int]  # rows, columns, depth, products


def contraction(kernel: Kernel) -> Contraction:
    """The product that a kernel is.

    Raises:
      Unfit: it is none, and why.
    """
    planned = plan(kernel, GPU_LIMITS)
    k = planned.kernel
    if not k.cells:
        raise Unfit("its grid is empty, so that nothing runs: leave the call out")
    if k.prefetch or k.aliases:
        raise Unfit("it has prefetched scalars, of which CUTLASS's tiles know nothing: leave it to others" if k.prefetch
                    else "operands share memory with results: leave `input_output_aliases` out")  # fmt: skip
    if len(planned.carry) > 1:
        raise Unfit(f"{len(planned.carry)} axes of its grid carry something from cell to cell: let one, that of the "
                    "sum")  # fmt: skip
    product, last = _parts(planned)
    shape = _shape(k, product, planned.carry)
    left, right = (_factor(k, product, side, shape) for side in (0, 1))
    text = _Epilogue(k, shape, product)
    results = []
    for value, block in zip(text.run(last), k.outputs, strict=True):
        if value.axes not in ((ROWS, COLUMNS), (None, COLUMNS), (ROWS, None)):
            raise Unfit("what it stores does not lie as the product does: store matrices of its rows and columns, and "
                        "add up or transpose in another kernel")  # fmt: skip
        if _split(k, block) != _split(k, k.outputs[0]) or block.array.shape != k.outputs[0].array.shape:
            raise Unfit(f"its results, {k.outputs[0].array.show()} and {block.array.show()}, do not lie alike: give "
                        "them one shape and one `BlockSpec`")  # fmt: skip
        results.append(Result(value.text, str(block.array.dtype)))
        if results[-1].dtype not in RESULTS or not is_float(value.dtype):
            raise Unfit(f"its result is {block.array.dtype}: convert it in the kernel to one of {', '.join(RESULTS)}")
    rows, columns, depth, count = shape.sizes
    return Contraction(
        k, rows, columns, depth, count, left, right, tuple(text.leaves), tuple(text.p.lines), tuple(results)
    )


# ---------------------------------------------------------------------------- the parts of the body


@dataclass(frozen=True)
class _Product:
    """The product in the body: its equation, the inputs that its factors are, and what holds the sum over cells."""

    eqn: Eqn
    inputs: tuple[int, int]
    turned: tuple[bool, bool]  # whether a factor is transposed before it is multiplied
    sum: Var | None
    loaded: dict[Var, int]  # what is read in every cell, by input


def _parts(planned: Plan) -> tuple[_Product, list[Eqn]]:
    """The product, and the equations after it."""
    k = planned.kernel
    homes = dict(zip(k.body.inputs[k.splits[2] :], (*planned.output_homes, *planned.scratch_homes), strict=True))
    # What the epilogue writes and reads again are its values, which live as long as it likes.
    parts = peeled(k, planned.carry, {v: 0 for v, h in homes.items() if h is not None})
    numbers = {ref: n for n, ref in enumerate(k.body.inputs[k.splits[1] : k.splits[2]])}
    main = list(parts.main.eqns)
    products = [e for e in main if e.primitive is dot_general_p]
    if len(products) != 1:
        raise Unfit(f"its loop has {len(products)} products of matrices, and CUTLASS's one: divide it into several "
                    "kernels")  # fmt: skip
    (eqn,) = products
    loaded = {e.outputs[0]: numbers[e.inputs[0]] for e in main if _is_load(e) and e.inputs[0] in numbers}
    turns = {e.outputs[0]: e.inputs[0] for e in main if e.primitive is transpose_p and len(e.inputs[0].type.shape) == 2}
    turned = (eqn.inputs[0] in turns, eqn.inputs[1] in turns)
    sides: Any = tuple(loaded.get(turns.get(a, a)) for a in eqn.inputs)  # type: ignore[arg-type]
    if None in sides:
        raise Unfit("a factor of its product is computed in the kernel, and CUTLASS multiplies what it has copied: "
                    "compute it before")  # fmt: skip
    gone = {*loaded, *(a for a in eqn.inputs if a in turns)}
    rest = _live([e for e in main if e is not eqn and not (e.outputs and e.outputs[0] in gone)])
    if not planned.carry:
        return _Product(eqn, sides, turned, None, loaded), rest
    (held,) = _sums(rest, eqn)
    if set(parts.before) != {0} or not _is_zeroed(parts.before[0], held):
        raise Unfit("its sum does not begin at zero in the first cell of its loop: store zeros there, and add what "
                    "else there is at the end")  # fmt: skip
    if set(parts.after) - {0}:
        raise Unfit("it does something between its loops: do it after the last one")
    after = _live(list(parts.after[0].eqns)) if parts.after else []
    return _Product(eqn, sides, turned, held, loaded), after


def _live(eqns: list[Eqn]) -> list[Eqn]:
    """The equations that write something, and those that they need."""
    needed: set[Any] = set()
    kept = []
    for eqn in reversed(eqns):
        if any(e.kind != "read" for e in eqn.effects) or any(v in needed for v in eqn.outputs):
            kept.append(eqn)
            needed |= {a for a in eqn.inputs if type(a) is Var}
    return kept[::-1]


def _is_load(eqn: Eqn) -> bool:
    return eqn.primitive is get_p and not eqn.params.get("masked") and _whole(eqn)


def _whole(eqn: Eqn) -> bool:
    return not eqn.params.get("masked") and eqn.params["index"].is_whole(eqn.inputs[0].type.shape)


def _sums(rest: list[Eqn], product: Eqn) -> list[Var]:
    """What the loop adds its product to, where it does nothing else."""
    if len(rest) != 1 or rest[0].primitive is not addupdate_p or not _whole(rest[0]):
        raise Unfit("its loop does more than to add up a product: compute before the loop, or after it")
    ref, value = rest[0].inputs[:2]
    assert type(ref) is Var
    if value is not product.outputs[0] or str(ref.type.dtype) not in ("float32", "int32"):
        raise Unfit("its loop adds up a product in another dtype than float32 (int32 of integers), or what is made of "
                    "it: add up the product itself, in scratch of float32")  # fmt: skip
    return [ref]


def _is_zeroed(program: Program, ref: Var) -> bool:
    """Whether all that a Program does is to set a Ref to zeros."""
    acting = [e for e in program.eqns if e.effects]
    if len(acting) != 1 or acting[0].primitive is not swap_p or acting[0].inputs[0] is not ref or not _whole(acting[0]):
        return False
    made = {v: e for e in program.eqns for v in e.outputs}
    stored = acting[0].inputs[1]
    eqn = made.get(stored) if type(stored) is Var else None
    if eqn is None or eqn.primitive is not broadcast_in_dim_p:
        return False
    (value,) = eqn.inputs
    return type(value) is Literal and value.value == 0


# ---------------------------------------------------------------------------- axes


def _roles(kernel: Kernel, block: Block) -> tuple[Role, ...]:
    """The axis of the grid that walks through each axis of an array, block after block."""
    fact = map_of(kernel, block)
    if fact is None or fact.affine is None or any(block.element):
        raise Unfit(f"the blocks of {block.name} are not taken one after the other: give an index map that names axes "
                    "of the grid")  # fmt: skip
    found: list[Role] = []
    for d, (n, size) in enumerate(zip(block.array.shape, block.sizes, strict=True)):
        terms, start = fact.affine.coefficients[d], fact.affine.const[d]
        if not terms and start == 0 and size >= n:
            found.append(None)
        elif start == 0 and list(terms.values()) == [1] and size * kernel.grid[(axis := next(iter(terms)))] >= n:
            found.append(axis)
        else:
            raise Unfit(f"the blocks of {block.name} do not go through its axis {d} from end to end: CUTLASS "
                        "multiplies whole arrays; slice before")  # fmt: skip
    return tuple(found)


def _split(kernel: Kernel, block: Block) -> tuple[tuple[Role, ...], list[int]]:
    """The roles of an array's axes, and which of them the body sees."""
    return _roles(kernel, block), [d for d, gone in enumerate(block.squeezed) if not gone]


def _shape(kernel: Kernel, product: _Product, carry: tuple[int, ...]) -> _Shape:
    out = kernel.outputs[0]
    roles, seen = _split(kernel, out)
    n = out.array.ndim
    if seen != [n - 2, n - 1]:
        raise Unfit(f"a block of its result, {out.array.show()}, is of the axes {seen}: let it be of the last two")
    left = kernel.inputs[product.inputs[0]]
    ((contracting, _), batched) = product.eqn.params["dimension_numbers"]
    if batched != ((), ()) or len(contracting) != 1:
        raise Unfit("its product has axes of a batch within a block, or sums along several: let the grid have the "
                    "axes of the batch, and sum along one")  # fmt: skip
    left_roles, left_seen = _split(kernel, left)
    axis = left_seen[contracting[0] ^ product.turned[0]]
    rows, columns = out.array.shape[n - 2 :]
    count = math.prod(out.array.shape[: n - 2])
    shape = _Shape(roles[: n - 2], roles[n - 2], roles[n - 1], left_roles[axis],
                   (rows, columns, left.array.shape[axis], count))  # fmt: skip
    walked = [a for a in (*shape.batch, shape.rows, shape.columns, shape.summed) if a is not None]
    if len(set(walked)) != len(walked) or set(walked) < set(kernel.long_axes):
        raise Unfit("an axis of its grid goes through two axes of the product, or through none: let each go through "
                    "one")  # fmt: skip
    if carry and carry != (shape.summed,) or not carry and shape.summed in kernel.long_axes:
        raise Unfit("the axis of its grid that carries the sum is not the one that its factors are summed along: let "
                    "it be that one")  # fmt: skip
    return shape


def _batched(name: str, roles: tuple[Role, ...], shape: _Shape) -> bool:
    """Whether an operand has leading axes, those of the result."""
    if not roles or not shape.batch:
        if roles:
            raise Unfit(f"{name} has more axes than the result: let the result have them, and add them up in another "
                        "kernel")  # fmt: skip
        return False
    if roles != shape.batch:
        raise Unfit(f"{name} has a part of the leading axes of the result: broadcast it along the others, or leave all "
                    "out")  # fmt: skip
    return True


def _factor(kernel: Kernel, product: _Product, side: int, shape: _Shape) -> Factor:
    """A factor, held against the result."""
    block = kernel.inputs[product.inputs[side]]
    roles, seen = _split(kernel, block)
    n, dtype = block.array.ndim, str(block.array.dtype)
    if seen != [n - 2, n - 1]:
        raise Unfit(f"a block of {block.name} is not of its last two axes: let leading axes be `None` in its block")
    summed = product.eqn.params["dimension_numbers"][0][side][0] ^ product.turned[side]
    free = 1 - summed
    size, role = (shape.sizes[0], shape.rows) if side == 0 else (shape.sizes[1], shape.columns)
    if roles[n - 2 + free] != role or block.array.shape[n - 2 + free] != size:
        raise Unfit(f"{block.name} does not go along with the {'columns' if side else 'rows'} of the result: give it "
                    "one axis of the grid with them")  # fmt: skip
    if roles[n - 2 + summed] != shape.summed or block.array.shape[n - 2 + summed] != shape.sizes[2]:
        raise Unfit("its factors are not summed along one axis of the grid, of one length: let both walk along it")
    proved = inside(kernel, block)[n - 2 + summed]
    if not all(proved) and block.fill != 0:
        raise Unfit(f"blocks of {block.name} pass its end along the summed axis: give `fill=0` to its `BlockSpec`")
    if dtype not in FACTORS:
        raise Unfit(f"{block.name} is {dtype}: convert it before to one of {', '.join(FACTORS)}")
    if dtype == "float32" and any(one != Precision.DEFAULT for one in product.eqn.params["precision"] or ()):
        raise Unfit("a product of float32 with more than default precision: the tensor cores round its factors to "
                    "TF32; ask for the default")  # fmt: skip
    return Factor(product.inputs[side], dtype, summed == 1, _batched(block.name, roles[: n - 2], shape))


# ---------------------------------------------------------------------------- the epilogue


class _Epilogue:
    """The equations after the product as C++, with the operands that they load."""

    def __init__(self, kernel: Kernel, shape: _Shape, product: _Product):
        self.kernel, self.shape, self.product = kernel, shape, product
        self.p, self.leaves = Printer(), []
        self.refs = {ref: n for n, ref in enumerate(kernel.body.inputs[kernel.splits[1] : kernel.splits[2]])}
        self.outs = kernel.body.inputs[kernel.splits[2] : kernel.splits[3]]
        out, factor = product.eqn.outputs[0].type.dtype, product.eqn.inputs[0].type.dtype
        if str(out) not in (("int32",) if factor.kind in "iu" else RESULTS):
            raise Unfit(f"its product of {factor} is summed in {out}: sum in float32, integers in int32")
        self.known: dict[Var, Value] = {}
        self.held: dict[Var, Value] = {}  # what was written to scratch
        axes = (ROWS, COLUMNS)  # a product of another dtype is the sum in float32, rounded
        whole = str(out) in ("float32", "int32")
        self.acc = Value("acc", out, axes) if whole else self.p.named("acc", out, axes)
        if product.sum is None:
            self.known[product.eqn.outputs[0]] = self.acc
            self.known |= {v: self.leaf(n) for v, n in product.loaded.items() if n not in product.inputs}

    def run(self, eqns: list[Eqn]) -> list[Value]:
        """What is stored, by result."""
        stored: dict[Any, Value] = {self.product.sum: self.acc}
        for eqn in eqns:
            if eqn.primitive is get_p and _whole(eqn):
                self.known[eqn.outputs[0]] = self.load(eqn.inputs[0])
            elif eqn.primitive is swap_p and _whole(eqn) and eqn.inputs[0] not in self.refs:
                ref: Any = eqn.inputs[0]
                self.held[ref] = value_of(self.p, eqn.inputs[1], self.known)
                stored[ref] = self.held[ref]
            elif eqn.primitive in REDUCTIONS:
                raise Unfit(f"{eqn.primitive} is in its epilogue: CUTLASS combines elements of tiles of its own, which "
                            "are no blocks of the kernel, and tiles in memory that the host clears; do it in another "
                            "kernel", eqn.source)  # fmt: skip
            elif eqn.effects or len(eqn.outputs) != 1 or eqn.primitive not in RULES:
                raise Unfit(f"{eqn.primitive} is in its epilogue, which is of single elements: do it in another "
                            "kernel", eqn.source)  # fmt: skip
            else:
                operands = [value_of(self.p, a, self.known) for a in eqn.inputs]
                self.known[eqn.outputs[0]] = self.p.equation(eqn, operands)
        if any(ref not in stored for ref in self.outs):
            raise Unfit("it stores no result where its sum is complete: store all results in the last turn")
        return [stored[ref] for ref in self.outs]

    def load(self, ref: Any) -> Value:
        if ref in self.held:
            return self.held[ref]
        if ref is self.product.sum:
            return self.acc
        if ref not in self.refs:
            raise Unfit("its epilogue reads a result or scratch that it has not written: keep the value")
        return self.leaf(self.refs[ref])

    def leaf(self, number: int) -> Value:
        """An operand of the epilogue, held against the result."""
        block, shape = self.kernel.inputs[number], self.shape
        dtype, roles = str(block.array.dtype), _roles(self.kernel, block)
        if dtype not in TYPES:
            raise Unfit(f"{block.name} is {dtype}: convert it before to one of {', '.join(TYPES)}")
        sizes = {ROWS: (shape.sizes[0], shape.rows), COLUMNS: (shape.sizes[1], shape.columns)}
        axes: list[str | None] = []
        ahead: list[Role] = []
        for d, (n, role) in enumerate(zip(block.array.shape, roles, strict=True)):
            if block.squeezed[d]:
                if n > 1:
                    ahead.append(role)
                continue
            here = [a for a, found in sizes.items() if n > 1 and (n, role) == found and a not in axes]
            if n > 1 and not here:
                raise Unfit(f"{block.name} does not lie along rows and columns of the result: give it axes of their "
                            "length, or of 1, and their axes of the grid")  # fmt: skip
            if len(here) == 2:  # two axes of one size, each a whole block
                here = [ROWS] if block.array.ndim - d > 1 else [COLUMNS]
            axes.append(here[0] if here else None)
        if [a for a in axes if a] == [COLUMNS, ROWS]:
            raise Unfit(f"{block.name} is transposed in its epilogue: transpose it before")
        leaf = Leaf(number, dtype, ROWS in axes, COLUMNS in axes, _batched(block.name, tuple(ahead), shape))
        if leaf not in self.leaves:
            self.leaves.append(leaf)
        return Value(f"x{self.leaves.index(leaf)}", block.array.dtype, _seen(axes))


def _seen(axes: list[str | None]) -> Axes:
    return tuple(axes)
