"""Gradient descent in its classic forms, as triples of functions on trees of parameters.

    init(params) -> state        update(step, grads, state) -> state        params(state) -> params

Each rule is written for one array; `optimizer` maps it over the leaves of a tree. Step sizes are numbers, or schedules:
functions of the number of the step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import numpy as tnp
from ..core.ir.array import Array
from ..core.support import pytree
from ..core.support.errors import ArgumentTypeError, TreeError

Schedule = Callable[[Any], Any]


class Optimizer(NamedTuple):
    """The three functions of an optimiser."""

    init_fn: Callable[[Any], Any]
    update_fn: Callable[[Any, Any, Any], Any]
    params_fn: Callable[[Any], Any]


class OptimizerState(NamedTuple):
    """What an optimiser keeps for each leaf of the parameters: `packed_state` has the leaves of each one's state."""

    packed_state: tuple[tuple[Any, ...], ...]
    tree_def: Any
    subtree_defs: tuple[Any, ...]


pytree.register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda structure, leaves: OptimizerState(leaves[0], *structure),
)


def _packed(states: Sequence[Any], structure: Any) -> OptimizerState:
    flat = [pytree.flatten(state) for state in states]
    return OptimizerState(tuple(tuple(leaves) for leaves, _ in flat), structure, tuple(inner for _, inner in flat))


def _states(state: OptimizerState) -> list[Any]:
    return [inner.unflatten(leaves) for inner, leaves in zip(state.subtree_defs, state.packed_state, strict=True)]


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Make a rule for one array, `(init, update, params)`, one for trees of arrays.

    The update raises `TreeError` where gradients have another structure than the parameters.

    >>> opt = sgd(0.5)
    >>> state = opt.update_fn(0, {"w": 2.0}, opt.init_fn({"w": 3.0}))
    >>> opt.params_fn(state)
    {'w': 2.0}
    """

    @functools.wraps(opt_maker)
    def made(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, params = opt_maker(*args, **kwargs)

        def init_all(x: Any) -> OptimizerState:
            leaves, structure = pytree.flatten(x)
            return _packed([init(leaf) for leaf in leaves], structure)

        def update_all(i: Any, grads: Any, state: OptimizerState) -> OptimizerState:
            leaves, structure = pytree.flatten(grads)
            if structure != state.tree_def:
                raise TreeError(f"gradients of structure {structure} for parameters of {state.tree_def}",
                                "pass the gradient of the parameters that the optimiser was begun with")  # fmt: skip
            return _packed([update(i, g, s) for g, s in zip(leaves, _states(state), strict=True)], structure)

        def params_all(state: OptimizerState) -> Any:
            return state.tree_def.unflatten([params(s) for s in _states(state)])

        return Optimizer(init_all, update_all, params_all)

    return made


def _first(state: Any) -> Any:
    return state[0]


def _with_zeros(count: int) -> Callable[[Any], Any]:
    return lambda x: (x, *(tnp.zeros_like(x) for _ in range(count)))


# ---------------------------------------------------------------------------- rules


@optimizer
def sgd(step_size: Any) -> Any:
    """Gradient descent.

    >>> sgd(0.1).params_fn(sgd(0.1).init_fn(1.0))
    1.0
    """
    size = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - size(i) * g, lambda x: x


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent with momentum (Polyak 1964): a velocity that is `mass` of itself plus the gradient.

    >>> float(momentum(0.1, 0.9).params_fn(momentum(0.1, 0.9).init_fn(1.0)))
    1.0
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * velocity, velocity

    return _with_zeros(1), update, _first


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Nesterov's accelerated gradient descent (Nesterov 1983), in the form of Sutskever et al. 2013.

    >>> float(nesterov(0.1, 0.9).params_fn(nesterov(0.1, 0.9).init_fn(1.0)))
    1.0
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * (mass * velocity + g), velocity

    return _with_zeros(1), update, _first


def _inverse_root(squares: Any) -> Any:
    """`1 / sqrt(squares)`, and 0 where nothing was seen."""
    safe = tnp.where(squares > 0, squares, 1.0)
    return tnp.where(squares > 0, 1.0 / tnp.sqrt(safe), 0.0)


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad (Duchi et al. 2011) with momentum: steps over the root of the sum of squared gradients.

    >>> float(adagrad(0.1).params_fn(adagrad(0.1).init_fn(1.0)))
    1.0
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, mean = state
        squares = squares + g * g
        mean = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * mean
        return x - size(i) * mean, squares, mean

    return _with_zeros(2), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """RMSProp (Tieleman and Hinton 2012): steps over the root of the running mean of squared gradients.

    >>> float(rmsprop(0.1).params_fn(rmsprop(0.1).init_fn(1.0)))
    1.0
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares = state
        squares = gamma * squares + (1.0 - gamma) * g * g
        return x - size(i) * g / tnp.sqrt(squares + eps), squares

    return _with_zeros(1), update, _first


@optimizer
def rmsprop_momentum(step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9) -> Any:
    """RMSProp with momentum.

    >>> float(rmsprop_momentum(0.1).params_fn(rmsprop_momentum(0.1).init_fn(1.0)))
    1.0
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, mean = state
        squares = gamma * squares + (1.0 - gamma) * g * g
        mean = momentum * mean + size(i) * g / tnp.sqrt(squares + eps)
        return x - mean, squares, mean

    return _with_zeros(2), update, _first


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam (Kingma and Ba 2015).

    >>> float(adam(0.1).params_fn(adam(0.1).init_fn(1.0)))
    1.0
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * g * g + b2 * squares
        step = (mean / (1 - tnp.asarray(b1, mean.dtype) ** (i + 1))) / (
            tnp.sqrt(squares / (1 - tnp.asarray(b2, mean.dtype) ** (i + 1))) + eps
        )
        return x - size(i) * step, mean, squares

    return _with_zeros(2), update, _first


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adamax, Adam with the largest gradient instead of the mean square (Kingma and Ba 2015, section 7).

    >>> float(adamax(0.1).params_fn(adamax(0.1).init_fn(1.0)))
    1.0
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Array, state: Any) -> Any:
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = tnp.maximum(b2 * largest, tnp.abs(g))
        return x - size(i) / (1 - tnp.asarray(b1, mean.dtype) ** (i + 1)) * mean / (largest + eps), mean, largest

    return _with_zeros(2), update, _first


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """SM3 (Anil et al. 2019): Adagrad whose sums of squares are kept for each row and column, not each element.

    >>> float(sm3(0.1).params_fn(sm3(0.1).init_fn(tnp.ones(1)))[0])
    1.0
    """
    size = make_schedule(step_size)

    def init(x: Any) -> Any:
        x = tnp.asarray(x)
        return x, tnp.zeros_like(x), [tnp.zeros(n, x.dtype) for n in x.shape]

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, rows = state
        along = [v.reshape([-1 if k == axis else 1 for k in range(x.ndim)]) for axis, v in enumerate(rows)]
        squares = functools.reduce(tnp.minimum, along, tnp.asarray(tnp.inf, x.dtype)) if along else tnp.zeros_like(x)
        squares = squares + g * g
        mean = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * mean
        rows = [tnp.max(squares, [k for k in range(x.ndim) if k != axis]) for axis in range(x.ndim)]
        return x - size(i) * mean, mean, rows

    return init, update, _first


# ---------------------------------------------------------------------------- schedules


def constant(step_size: Any) -> Schedule:
    """The same step size at every step.

    >>> constant(0.5)(3)
    0.5
    """
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """`step_size * decay_rate ** (i / decay_steps)`.

    >>> exponential_decay(1.0, 2, 0.25)(1)
    0.5
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    """`step_size / (1 + decay_rate * i / decay_steps)`; with `staircase`, of whole multiples of `decay_steps`.

    >>> inverse_time_decay(1.0, 2, 1.0)(2)
    0.5
    """
    if staircase:
        return lambda i: step_size / (1 + decay_rate * tnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0) -> Schedule:
    """From `step_size` to `final_step_size` over `decay_steps`, by a power of the share that is left.

    >>> float(polynomial_decay(1.0, 4, 0.0)(1))
    0.75
    """

    def schedule(i: Array) -> Any:
        left = 1 - tnp.minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """`values[k]`, where `k` of the (sorted) boundaries lie below the number of the step.

    Raises:
      TreeError: not one value more than there are boundaries.

    >>> float(piecewise_constant([2], [1.0, 0.5])(3))
    0.5
    """
    edges, values = tnp.asarray(boundaries), tnp.asarray(values)
    if not edges.ndim == values.ndim == 1 or edges.shape[0] != values.shape[0] - 1:
        raise TreeError(f"boundaries of shape {edges.shape} for values of shape {values.shape}",
                        "give one value more than there are boundaries, both in one dimension")  # fmt: skip
    return lambda i: values[tnp.sum(i > edges)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """A schedule of a number, or the schedule itself.

    Raises:
      ArgumentTypeError: it is neither.

    >>> make_schedule(0.5)(7)
    0.5
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if tnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise ArgumentTypeError(f"a step size of shape {tnp.shape(scalar_or_schedule)}", "pass a number or a function")


# ---------------------------------------------------------------------------- gradients and states


def l2_norm(tree_: Any) -> Any:
    """The Euclidean norm of all leaves together.

    >>> float(l2_norm([3.0, 4.0]))
    5.0
    """
    return tnp.sqrt(sum(tnp.vdot(x, x) for x in pytree.leaves(tree_)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Gradients scaled so that their norm is at most `max_norm`.

    >>> [float(g) for g in clip_grads([3.0, 4.0], 1.0)]
    [0.6, 0.8]
    """
    norm = l2_norm(grad_tree)
    return pytree.map(lambda g: tnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """Where the state of one leaf hangs in a tree of parameters: a leaf itself, with the state in `subtree`."""

    def __init__(self, subtree: Any):
        self.subtree = subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The state as a tree like the parameters, whose leaves are `JoinPoint`s: a form to save.

    >>> state = momentum(0.1, 0.9).init_fn([1.0])
    >>> len(unpack_optimizer_state(state)[0].subtree)
    2
    """
    return opt_state.tree_def.unflatten([JoinPoint(s) for s in _states(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """What `unpack_optimizer_state` gave, as a state again.

    Raises:
      ArgumentTypeError: a leaf is no `JoinPoint`.

    >>> state = momentum(0.1, 0.9).init_fn([1.0])
    >>> pack_optimizer_state(unpack_optimizer_state(state)).tree_def == state.tree_def
    True
    """
    leaves, structure = pytree.flatten(marked_pytree)
    for leaf in leaves:
        if not isinstance(leaf, JoinPoint):
            raise ArgumentTypeError(f"a leaf {leaf!r} that is no JoinPoint", "pass what `unpack_optimizer_state` gave")
    return _packed([leaf.subtree for leaf in leaves], structure)


__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads", "constant",
    "exponential_decay", "inverse_time_decay", "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer",
    "pack_optimizer_state", "piecewise_constant", "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3",
    "unpack_optimizer_state",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
