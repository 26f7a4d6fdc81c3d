"""How a product is cut: the tile of a block of threads, the cluster of blocks that share loads, and the launch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..lang.cutlass import CompilerParams
from ..lang.legalize import Unfit
from ..lang.targets.target import Target
from .gemm_match import Contraction

HOPPER, BLACKWELL = "cuda:sm_90", "cuda:sm_100"


@dataclass(frozen=True)
class Tiling:
    """`schedule` and `ending` are CUTLASS's names of how warps divide the work; `pair`: two blocks make one tile."""

    tile: tuple[int, int, int]
    cluster: tuple[int, int]
    schedule: str
    ending: str
    pair: bool
    stages: int | None

    @property
    def block(self) -> tuple[int, int, int]:
        """The part of a tile that one block makes."""
        rows, columns, depth = self.tile
        return (rows // 2 if self.pair else rows), columns, depth


def tiling(product: Contraction, target: Target, asked: CompilerParams) -> Tiling:
    """The tiling of a product on a target, as asked for or by its size.

    Raises:
      Unfit: there is no such product, or no such tile, on the target.
    """
    blackwell = target.name.startswith(BLACKWELL)
    if not blackwell and not target.name.startswith(HOPPER):
        raise Unfit(f"it is for Hopper (sm_90) and Blackwell (sm_100), not for {target.name}")
    _check_layout(product, blackwell)
    return (_blackwell if blackwell else _hopper)(product, target, asked)


def _check_layout(product: Contraction, blackwell: bool) -> None:
    """Rows of arrays are multiples of 16 bytes apart, for the copy engine; on Hopper bytes are summed along rows."""
    inputs, rows, columns, depth = product.kernel.inputs, product.rows, product.columns, product.depth
    lines = [(inputs[f.number].name, depth if f.summed_last else free, f.dtype)
             for f, free in ((product.left, rows), (product.right, columns))]  # fmt: skip
    lines += [(inputs[x.number].name, columns, x.dtype) for x in product.leaves if x.rows and x.columns]
    lines += [(out.name, columns, str(out.array.dtype)) for out in product.kernel.outputs]
    for name, n, dtype in lines:
        if n * np.dtype(dtype).itemsize % 16:
            raise Unfit(f"the rows of {name}, {n} of {dtype}, are not a multiple of 16 bytes: pad them")
    kinds = {f.dtype for f in (product.left, product.right)}
    if len(kinds) > 1 and not all(kind.startswith("float8") for kind in kinds):
        raise Unfit(f"its factors are {product.left.dtype} and {product.right.dtype}: convert one before")
    size = _size(product)
    along = product.left.summed_last and product.right.summed_last
    if not along and (size == 4 or size == 1 and not blackwell):
        how = ("4", "the tensor cores ask") if size == 4 else ("1", "Hopper asks")
        raise Unfit("an element of its factors has a size of {}, and they are not both summed along their rows, as {}: "
                    "transpose the second one".format(*how))  # fmt: skip


def _size(product: Contraction) -> int:
    """The bytes of an element of a factor."""
    return np.dtype(product.left.dtype).itemsize


def _tiles(product: Contraction, tile: tuple[int, ...]) -> int:
    return math.ceil(product.rows / tile[0]) * math.ceil(product.columns / tile[1]) * product.count


def _hopper(product: Contraction, target: Target, asked: CompilerParams) -> Tiling:
    depth = 128 // _size(product)
    wide = product.columns > 128 and _size(product) == 2 and _tiles(product, (128, 256)) >= target.units // 2
    tile = asked.tile or (128 if product.rows > 64 else 64, 256 if wide else 128, depth)
    cluster = asked.cluster or ((2 if product.rows > tile[0] else 1), 1)
    _check(tile, cluster, depth)
    way = "Pingpong" if tile[0] == 64 else "Cooperative"
    return Tiling(tile, cluster, f"KernelTmaWarpSpecialized{way}", f"TmaWarpSpecialized{way}", False, asked.stages)


def _blackwell(product: Contraction, target: Target, asked: CompilerParams) -> Tiling:
    depth = 128 // _size(product)
    pair = product.rows > 128 and _tiles(product, (128, 256)) >= target.units // 2
    tile = asked.tile or ((256 if pair else 128), (256 if pair and product.columns > 128 else 128), depth)
    cluster = asked.cluster or ((2 if tile[0] == 256 else 1), 1)
    _check(tile, cluster, depth)
    if (tile[0] == 256) != (cluster[0] % 2 == 0):
        raise Unfit(f"a tile of {tile[0]} rows in a cluster of {cluster}: two blocks of a cluster make 256 rows")
    sms = 2 if tile[0] == 256 else 1
    return Tiling(tile, cluster, f"KernelTmaWarpSpecialized{sms}SmSm100", f"TmaWarpSpecialized{sms}Sm", sms == 2,
                  asked.stages)  # fmt: skip


def _check(tile: tuple[int, int, int], cluster: tuple[int, int], depth: int) -> None:
    if tile[0] not in (64, 128, 256) or tile[1] % 16 or not 16 <= tile[1] <= 256 or tile[2] % depth:
        raise Unfit(f"a tile of {tile}: rows are 64, 128 or 256, columns a multiple of 16 up to 256, and the depth a "
                    f"multiple of {depth}")  # fmt: skip
    if any(n not in (1, 2, 4, 8) for n in cluster) or math.prod(cluster) > 8:
        raise Unfit(f"a cluster of {cluster}: its sizes are 1, 2, 4 or 8, 8 blocks in all at most")


def grid(product: Contraction, tiling: Tiling, target: Target) -> tuple[int, int, int]:
    """The blocks that are launched: on Hopper as many as run at once, on Blackwell one for each tile.

    CUTLASS's schedulers: `PersistentTileSchedulerSm90Params::get_grid_shape` with raster order along rows, and
    `PersistentTileSchedulerSm100::get_grid_shape`.
    """
    rows, columns, _ = tiling.block
    across, down = tiling.cluster
    x = math.ceil(math.ceil(product.rows / rows) / across) * across
    y = math.ceil(math.ceil(product.columns / columns) / down) * down
    if target.name.startswith(BLACKWELL):
        return x, y, product.count
    most = max(target.units // down // across * across, across)
    return min(most, x * y * product.count // down), down, 1
