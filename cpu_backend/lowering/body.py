"""The equations of a body as nodes and roots, in program order, and when the roots run (`Body.flush`).

Roots wait until something needs what they leave in memory, or the order of two accesses to one memory would matter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Literal, Program, Var
from ...core.primitives.refs.state_primitives import Index, access_shape, whole
from ...core.transforms.structural_primitives import add_any_p
from ..llvm.builder import Builder, Value
from .elementwise import RULES
from .emit import Emitter
from .expression_graph import (
    STORED,
    Apart,
    Fold,
    Iota,
    Keep,
    Load,
    Map,
    Memory,
    Node,
    Number,
    Root,
    Store,
    View,
    row_major,
)  # fmt: skip
from .loop_fusion import HERE, aligned, cost, reached
from .refusal import refuse

Rule = Callable[..., Sequence[Any]]
DEAR = 16  # what an element costs that is kept rather than computed for each of several rows
CHEAP = 8  # nodes that are computed again rather than kept


class Body:
    """Programs being turned into code at the place where the builder is. Rules see it as `e`."""

    emit: Emitter
    rules: Mapping[Primitive, Rule]

    def __init__(self, emitter: Emitter, rules: Mapping[Primitive, Rule], allocate: Callable[[int], Value]):
        self.emit, self.rules, self._allocate = emitter, rules, allocate
        self.pending: list[Root] = []
        self.frames: list[tuple[dict[Any, Any], Counter[Any]]] = []
        self.placed: list[list[Node]] = emitter.placed

    @property
    def b(self) -> Builder:
        return self.emit.b

    # ------------------------------------------------------------ programs

    def run(self, program: Program, operands: Sequence[Node | Memory]) -> list[Any]:
        """The outputs of a Program; its roots may still be pending."""
        env: dict[Any, Any] = dict(zip(program.inputs, operands, strict=True))
        for var, value in zip(program.constants, program.values, strict=True):
            env[var] = self.array(np.asarray(value))
        left = Counter(a for e in program.eqns for a in e.inputs if type(a) is Var)
        left.update(a for a in program.outputs if type(a) is Var)
        self.frames.append((env, left))

        def read(atom: Any) -> Any:
            if type(atom) is Literal:
                return Number(atom.type.shape, self.dtype(atom.type.dtype), value=atom.value)
            return env[atom]

        for eqn in program.eqns:
            given = [read(a) for a in eqn.inputs]
            for v in eqn.outputs:
                self.dtype(v.type.dtype)
            rule = self.rules.get(eqn.primitive)
            if rule is None:
                raise refuse(f"{eqn.primitive} has no rule in machine code of a CPU")
            found = rule(self, given, [v.type for v in eqn.outputs], **eqn.params)
            left.subtract(a for a in eqn.inputs if type(a) is Var)
            env.update(zip(eqn.outputs, found, strict=True))
        outputs = [read(a) for a in program.outputs]
        self.frames.pop()
        return outputs

    def dtype(self, dtype: np.dtype[Any]) -> np.dtype:
        if str(dtype) not in STORED:
            raise refuse(f"elements of {dtype} have no machine code on a CPU")
        return dtype

    @contextmanager
    def region(self) -> Iterator[None]:
        """Code that runs perhaps, or again and again: nothing that it computes is there after it."""
        self.placed.append([])
        with self.emit.scope():
            yield
            assert not self.pending
        for node in self.placed.pop():
            node.place = node.memory = None

    # ------------------------------------------------------------ memory

    def array(self, value: np.ndarray) -> Node:
        """A constant array."""
        dtype = self.dtype(value.dtype)
        flat = value.reshape(-1)
        if not value.size or flat.tobytes() == flat[:1].tobytes() * value.size:
            return Number(value.shape, dtype, value=flat[0] if value.size else 0)
        stored = flat.view(np.int16) if str(dtype) == "bfloat16" else flat
        base = self.b.table(f"constant{len(self.b.tables)}", STORED[str(dtype)], [x.item() for x in stored])
        return self.load(Memory("a constant", dtype, value.shape, row_major(value.shape), base, fixed=True))

    def allocate(self, dtype: np.dtype, shape: Sequence[int]) -> Memory:
        """Memory of this cell's own."""
        shape = tuple(shape)
        base = self._allocate(max(math.prod(shape), 1) * np.dtype(dtype).itemsize)
        return Memory("workspace", dtype, shape, row_major(shape), base)

    def load(self, memory: Memory, index: Index | None = None, operands: Sequence[Node] = (), masked: bool = False
             ) -> Load:  # fmt: skip
        index = whole(memory.shape) if index is None else index
        return Load(access_shape(index), memory.dtype, tuple(operands), source=memory, index=index, masked=masked)

    def get(self, memory: Memory, index: Index, operands: Sequence[Node], masked: bool) -> Node:
        """A read of a Ref, after what is pending on it."""
        for root in self.pending:
            if isinstance(root, Store) and root.target is memory:
                plain = not root.add and root.mask is None and not masked and not index.dynamic and not memory.ragged
                if plain and root.index == index:
                    return root.value
                self.flush()
                break
        return self.load(memory, index, operands, masked)

    def store(
        self, memory: Memory, index: Index, value: Node, positions: Sequence[Node], mask: Node | None, add: bool
    ) -> None:
        if memory.fixed:
            raise refuse(f"the operand {memory.name} is written to by the body")
        before = next((r for r in self.pending if isinstance(r, Store) and r.target is memory), None)
        if before is not None:
            plain = before.mask is None and not before.add and not index.dynamic and not memory.ragged
            if add and plain and mask is None and before.index == index:
                self.pending.remove(before)  # stored once, as nothing has read it
                value, add = Map(value.shape, value.dtype, (before.value, value), rule=RULES[add_any_p]), False
            else:
                self.flush()
        self.pending.append(Store(value, memory, index, tuple(positions), mask, add))

    def keep(self, node: Node) -> Memory:
        """Memory that has a node's elements once what is pending has run."""
        if node.place is None:
            node.place = self.allocate(node.dtype, node.shape)
            root = next((r for r in self.pending if r.value is node and isinstance(r, (Fold, Apart))), None)
            if root is not None:
                root.target = node.place
            else:
                self.pending.append(Keep(node, node.place))
            self.placed[-1].append(node)
        return node.place

    def keep_dear(self, node: Node) -> None:
        """Keep what a node is a view of, if its elements are dear."""
        while isinstance(node, View) and not node.starts:
            node = node.operands[0]
        if isinstance(node, Map) and cost(node) >= DEAR:
            self.keep(node)

    def kept(self, node: Node, shape: Sequence[int] | None = None) -> Node:
        """The same elements read from contiguous memory, in a shape."""
        if isinstance(node, Load) and self._contiguous(node):
            memory = node.source
        else:
            memory = self.keep(node)
            self.flush()
        return self.load(memory.viewed(tuple(node.shape if shape is None else shape)))

    @staticmethod
    def _contiguous(node: Load) -> bool:
        memory = node.source
        return (node.index.is_whole(memory.shape) and not node.masked and memory.fixed and not memory.ragged
                and memory.strides == row_major(memory.shape))  # fmt: skip

    # ------------------------------------------------------------ order

    def scalar(self, node: Node) -> Value:
        """A scalar's number here."""
        self.settle(node)
        self.flush()
        return self.emit.at(node, ())

    def stable(self, node: Node) -> bool:
        """Whether a node can be computed later as well as now, and cheaply."""
        seen, waiting = {node}, [node]
        while waiting:
            one = waiting.pop()
            if one.place is not None or isinstance(one, (Number, Iota)) or self.emit.known(one, ()) is not None:
                continue
            fixed = isinstance(one, Load) and one.source.fixed or isinstance(one, View)
            if not fixed and not (isinstance(one, Map) and one.cost <= 1 and len(seen) <= CHEAP):
                return False
            fresh = [n for n in one.operands if n not in seen]
            seen.update(fresh)
            waiting += fresh
        return True

    def settle(self, node: Node) -> None:
        """Have kept of a node what cannot be computed later."""
        if self.stable(node):
            return
        if isinstance(node, View):
            for operand in node.operands:
                self.settle(operand)
        else:
            self.keep(node)

    def live(self) -> list[Node]:
        """Nodes that equations still to come want."""
        return [
            env[var] for env, left in self.frames for var, count in left.items()
            if count > 0 and isinstance(env.get(var), Node)
        ]  # fmt: skip

    def barrier(self) -> None:
        """Run what is pending, and keep whatever is wanted later."""
        for node in self.live():
            self.settle(node)
        self.flush()

    def flush(self) -> None:
        """Run what is pending."""
        if not self.pending:
            return
        for node in self.live():
            self.settle(node)
        roots, self.pending = self.pending, []
        self.emit.run(self._in_order(roots), self.allocate)

    def _in_order(self, roots: list[Root]) -> list[Root]:
        """The roots, with loads kept before the stores that would change what they are to read."""
        ordered = list(roots)
        for store in [r for r in roots if isinstance(r, Store)]:
            at = ordered.index(store)
            produced = {r.value: r for r in ordered[:at] if not isinstance(r, Store)}
            for number, root in enumerate(ordered[at:]):
                if not isinstance(root, Store):
                    produced[root.value] = root
                for node, places in reached(root, produced):
                    if not isinstance(node, Load) or not node.source.same(store.target) or node.memory is not None:
                        continue
                    same = aligned(node, store) and all(p == (d, *HERE) for d, p in enumerate(places))
                    if not number and same:
                        continue
                    if node.place is None:
                        node.place = self.allocate(node.dtype, node.shape)
                        self.placed[-1].append(node)
                        ordered.insert(ordered.index(store), Keep(node, node.place))
                        continue
                    keep = next(r for r in ordered if r.value is node and isinstance(r, Keep))
                    if ordered.index(keep) > ordered.index(store):
                        ordered.remove(keep)
                        ordered.insert(ordered.index(store), keep)
        return ordered
