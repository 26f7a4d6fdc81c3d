"""Tensor memory of Blackwell: its numbers, and who may touch a column of a quarter of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.support.errors import EmulationError
from .shared import Shared
from .values import LANES

COLUMNS, QUARTERS = 512, 4
SIZES = (32, 64, 128, 256, 512)  # of what is taken, in columns


class TensorMemory:
    """Its numbers, how many columns are taken, and who touched them."""

    def __init__(self, agents: int) -> None:
        self.value: np.ndarray = np.full((LANES, COLUMNS), np.nan, np.float32)
        self.columns = 0
        self.closed = False  # whether no more columns may be taken
        self.order: Shared = Shared(4 * QUARTERS * COLUMNS, "tensor memory", agents)
        # 2: its stores are not waited for, 1: what threads stored or loaded there is not fenced
        self.open: np.ndarray = np.zeros((QUARTERS, COLUMNS), np.int64)

    def take(self, columns: int) -> None:
        """Columns for a block; products of later blocks wait for them."""
        if columns not in SIZES or self.columns or self.closed:
            already = "after the permit is given up" if self.closed else f"where {self.columns} are taken"
            raise EmulationError(f"{columns} columns of tensor memory are taken {already}: take one of {SIZES} once")
        self.columns = columns

    def give_back(self, columns: int) -> None:
        """The columns that were taken."""
        if columns != self.columns:
            raise EmulationError(f"{columns} columns of tensor memory are given back, of {self.columns} taken")
        self.columns = 0

    def grains(self, first: int, columns: int, quarter: int | None = None) -> Any:
        if first + columns > self.columns:
            raise EmulationError(
                f"columns {first} to {first + columns} of tensor memory, of which {self.columns} are taken"
            )
        found = np.arange(QUARTERS)[:, None] * COLUMNS + np.arange(first, first + columns)
        return (found if quarter is None else found[quarter]).reshape(-1)

    def settled(self, grains: Any, level: int) -> None:
        """Whether what threads stored there is stored (1), and seen by products (0)."""
        worst = int(self.open.reshape(-1)[grains].max(initial=0))
        if worst > level:
            missing = "tcgen05.wait::st" if worst == 2 else "tcgen05.fence::before_thread_sync"
            raise EmulationError(f"tensor memory that threads stored or loaded is used without {missing}")
