"""Backward kernels put together: operands, outputs and scratch, each with what it is, until the kernel is traced."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ..core.types import RefType, is_inexact
from .build import backwards, prune, remap, trace_kernel
from .kernel import Block, Kernel

Key = tuple[str, int]  # what an operand or scratch is, and of which input of the kernel's body


class Assembly(ABC):
    """One backward kernel of a kernel, over a grid of its own; `outputs` are cotangents by position in the body."""

    def __init__(self, kernel: Kernel, grid: Sequence[int]):
        self.kernel, self.grid = kernel, tuple(grid)
        _, self.first_in, self.first_out, self.first_scratch, self.end = kernel.splits
        self.inputs: list[tuple[Key, Block]] = []
        self.outputs: list[tuple[int, Block]] = []
        self.aliases: list[tuple[int, int]] = []
        self.scratch: list[tuple[Key, RefType]] = []

    @abstractmethod
    def old_ids(self, ids: Sequence[Any]) -> list[Any]:
        """The ids of the cell that a cell of the backward kernel runs."""

    @abstractmethod
    def body(self, ids: Any, prefetched: Any, inputs: Any, outputs: Any, scratch: Any) -> None:
        """What a cell does."""

    def remap(self, block: Block, **changes: Any) -> Block:
        return remap(block, self.kernel.prefetch, self.grid, self.old_ids, **changes)

    def type_of(self, position: int) -> Any:
        return self.kernel.body.inputs[position].type

    def add_scratch(self, first: int, space: Sequence[RefType]) -> None:
        """Memory to run cells again in, for cotangents (of Refs from position `first` on), and what loops need."""
        for p in range(self.first_out, self.end):
            self.scratch.append((("work", p), self.type_of(p)))
            if p >= first and is_inexact(self.type_of(p).dtype):
                self.scratch.append((("ct", p), self.type_of(p)))
        self.scratch += [(("space", k), type_) for k, type_ in enumerate(space)]

    def named(self, inputs: Any, outputs: Any, scratch: Any) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
        """The Refs of the backward kernel by what they are."""
        given = {key: ref for (key, _), ref in zip(self.inputs, inputs, strict=True)}
        held = {key: ref for (key, _), ref in zip(self.scratch, scratch, strict=True)}
        results = {p: ref for (p, _), ref in zip(self.outputs, outputs, strict=True)}
        return given, results, held

    def primal(self, given: Any, held: Any) -> list[Any]:
        """The Refs that a cell runs again with, after ids and prefetched ones."""
        operands = [given["in", p] for p in range(self.first_in, self.first_out)]
        return operands + [held["work", p] for p in range(self.first_out, self.end)]

    def traced(self, name: str, parallel: Sequence[bool]) -> tuple[Kernel, tuple[Key, ...]]:
        """The kernel, and what those of its operands are that it reads."""
        built = trace_kernel(
            self.kernel, self.body, name=name, grid=self.grid, inputs=[b for _, b in self.inputs],
            outputs=[b for _, b in self.outputs], scratch=[t for _, t in self.scratch], aliases=self.aliases,
        )  # fmt: skip
        smaller, kept = prune(built)
        return backwards(self.kernel, smaller, parallel), tuple(self.inputs[i][0] for i in kept)
