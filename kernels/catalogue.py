"""`TEMPLATES`: primitive to template, one table; `GLUE`: what stays outside kernels, with the reason."""

from __future__ import annotations

from ..core.ir.axis_relation import MOVER
from ..core.ir.primitive import Primitive
from ..core.primitives import linalg
from ..core.primitives.catalogue import ALL
from ..core.primitives.contraction import coo_matmul, fft
from ..core.primitives.contraction.dot_general import dot_general_p
from ..core.primitives.control_flow import functions as control
from ..core.primitives.control_flow import jit_primitive as jit
from ..core.primitives.custom import checkpoint
from ..core.primitives.custom import custom_derivative_primitives as custom_calls
from ..core.primitives.external import host_callback
from ..core.primitives.keys import threefry
from ..core.primitives.refs import state_primitives
from ..core.primitives.spmd import collective
from ..core.support.errors import UnsupportedError
from . import conv, cumulative, index, reduce, shape, window
from . import random as random_kernels
from .template import Template, grouped

_PROGRAM = "holds Programs and no arithmetic of its own: the operations inside become kernels, it stays around them"
_NOTHING = "moves and computes nothing: its result is its operand, so that a kernel would only copy memory"
_KEYS = "another view of the same words in memory: keys are a type of the trace, kernels see words already"
_INSIDE = "an access to a Ref, which exists only inside a kernel's body: it is lowered with the kernel"
_HOST = "runs Python on the host, which no kernel dialect can call"
_FACTORED = "factors matrices column by column with data-dependent pivots: the target's solver library does it"
_FOURIER = "exchanges elements along full axes in stages: the target's library does it"
_SCATTERED = "adds to data-dependent rows, in any order: a gather and a scatter, which are kernels"
_COLLECTIVE = "exchanges data between devices (or the rows of a vmap), which a kernel on one device cannot reach"

GLUE: dict[Primitive, str] = {
    **{p: _PROGRAM for p in (*jit.PRIMITIVES, *control.PRIMITIVES, *custom_calls.PRIMITIVES, checkpoint.checkpoint_p)},
    **{p: _NOTHING for p in (checkpoint.optimization_barrier_p, checkpoint.name_p, threefry.random_clone_p)},
    **{p: _KEYS for p in (threefry.random_wrap_p, threefry.random_unwrap_p)},
    **{p: _INSIDE for p in state_primitives.PRIMITIVES},
    **{p: _HOST for p in host_callback.PRIMITIVES},
    **{p: _FACTORED for p in linalg.PRIMITIVES},
    **{p: _FOURIER for p in fft.PRIMITIVES},
    **{p: _SCATTERED for p in coo_matmul.PRIMITIVES},
    **{p: _COLLECTIVE for p in collective.PRIMITIVES},
}

# Special loop nests, which relations cannot express.
OWN: dict[Primitive, Template] = {
    **reduce.TEMPLATES,
    **conv.TEMPLATES,
    **window.TEMPLATES,
    **cumulative.TEMPLATES,
    **shape.TEMPLATES,
    **index.TEMPLATES,
    **random_kernels.TEMPLATES,
}


def _group_of_one(primitive: Primitive) -> Template:
    """The template of an operation with a relation."""
    family = "shape" if primitive.kind is MOVER else "reduce" if primitive.axes else "elementwise"
    return grouped("contract" if primitive is dot_general_p else family, primitive)


TEMPLATES: dict[Primitive, Template] = {
    **OWN, **{p: _group_of_one(p) for p in ALL if p.relation is not None and p not in OWN and p not in GLUE}
}  # fmt: skip


def check_complete() -> None:
    """Raises UnsupportedError where a primitive has neither a template nor a reason to have none, or both."""
    missing = [p.name for p in ALL if p not in TEMPLATES and p not in GLUE]
    both = [p.name for p in ALL if p in TEMPLATES and p in GLUE]
    if missing or both:
        raise UnsupportedError(
            f"primitives without a template or an entry in GLUE: {missing}; with both: {both}",
            "give each one of the two, in kernels/catalogue.py")  # fmt: skip


check_complete()
