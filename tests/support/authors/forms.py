"""What is held of a case: each form is as in plain operations, and the programs of its kernels, walked, are too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tests.support.authors.kit import Case
from tests.support.by_numpy import by_numpy
from tests.support.corpus.runs import close
from tests.support.gpu.walker import check_mosaic, check_triton, kernels_of
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support import pytree


def compiled(case: Case) -> None:
    arrays = case.operands()
    close(tw.jit(case.call)(*arrays), case.plain(np, *arrays), case.tolerance)


def interpreted(case: Case) -> None:
    arrays = case.operands()
    modes = tl.InterpretParams(detect_races=True, random_seed=3)
    close(case.call(*arrays, interpret=modes), case.plain(np, *arrays), case.tolerance)


def loss(call: Callable[..., Any], outs: Any) -> Callable[..., Any]:
    """A scalar of the float results, each weighted."""
    rng = np.random.default_rng(1)
    weights = [rng.standard_normal(np.shape(o)).astype(np.float32) for o in pytree.leaves(outs)]

    def total(*arrays: Any) -> Any:
        found = zip(weights, pytree.leaves(call(*arrays)), strict=True)
        return sum(tnp.sum(w * o) for w, o in found if o.dtype == np.float32)

    return total


def plain_gradient(case: Case, outs: Any, arrays: list[Any]) -> tuple[Any, Any]:
    """The loss and the gradient of plain operations; what is not derived stays as it is: loops may go over it."""
    call = loss(functools.partial(case.plain, tnp), outs)

    def of(*xs: Any) -> Any:
        given = dict(zip(case.derived, xs, strict=True))
        return call(*(given.get(i, a) for i, a in enumerate(arrays)))

    places = tuple(range(len(case.derived)))
    return by_numpy(tw.value_and_grad(of, places), *(arrays[i] for i in case.derived))


def gradient(case: Case) -> None:
    arrays = case.operands()
    outs = case.plain(np, *arrays)
    got = tw.jit(tw.value_and_grad(loss(case.call, outs), case.derived))(*arrays)
    close(got, plain_gradient(case, outs, arrays), 10 * case.tolerance)


def pair(case: Case) -> tuple[list[Any], list[Any], Any]:
    """Two sets of operands, those of no axis the same in both, and the axes."""
    first, second = case.operands(0), case.operands(1)
    axes = case.axes or (0,) * len(first)
    if any(a.shape != b.shape for a, b in zip(first, second, strict=True)):  # what is shared tells the rest's shapes
        second = [a[::-1] * 2 for a in first]
    return first, [b if axis == 0 else a for a, b, axis in zip(first, second, axes, strict=True)], axes


def at_once(case: Case, function: Callable[..., Any]) -> tuple[list[list[Any]], Any]:
    """Two sets of operands, and what a function gives of both at once."""
    first, second, axes = pair(case)
    both = (np.stack([a, b]) if axis == 0 else a for a, b, axis in zip(first, second, axes, strict=True))
    return [first, second], tw.jit(tw.vmap(function, in_axes=axes))(*both)


def batched(case: Case) -> None:
    each, got = at_once(case, case.call)
    for i, arrays in enumerate(each):
        close([g[i] for g in pytree.leaves(got)], case.plain(np, *arrays), case.tolerance)


def batched_gradient(case: Case) -> None:
    """The gradient of each of two, at once: both transformations, and their composition."""
    outs = case.plain(np, *case.operands())
    each, (values, gradients) = at_once(case, tw.value_and_grad(loss(case.call, outs), case.derived))
    for i, arrays in enumerate(each):
        value, expected = plain_gradient(case, outs, arrays)
        close(values[i], value, 10 * case.tolerance)
        close([g[i] for g in gradients], expected, 10 * case.tolerance)


def walked(case: Case, target: str, derived: bool) -> None:
    """The kernels of a case, or of its gradient, walked for a target on small operands, against the interpreter."""
    arrays = case.operands()
    call = tw.grad(loss(case.call, case.plain(np, *arrays)), case.derived) if derived else case.call
    check = check_mosaic if target.startswith("tpu") else check_triton
    for kernel, operands in kernels_of(call, *arrays):
        check(kernel, *operands, target=target)
