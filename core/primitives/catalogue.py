"""`ALL`: every primitive of this package's core, family by family."""

from ..ir.primitive import Primitive
from . import linalg
from .contraction import conv, coo_matmul, dot_general, fft
from .control_flow import functions, jit_primitive
from .custom import checkpoint, custom_derivative_primitives
from .elementwise import arithmetic, bitwise, comparison, conversion
from .external import host_callback
from .keys import threefry
from .movement import index_functions, shape, sort
from .reduction import reduce, reduce_window
from .refs import state_primitives
from .special import cumulative
from .special import functions as special
from .spmd import collective

ALL: tuple[Primitive, ...] = (
    *arithmetic.PRIMITIVES,
    *special.PRIMITIVES,
    *comparison.PRIMITIVES,
    *bitwise.PRIMITIVES,
    *conversion.PRIMITIVES,
    *reduce.PRIMITIVES,
    *cumulative.PRIMITIVES,
    *dot_general.PRIMITIVES,
    *conv.PRIMITIVES,
    *reduce_window.PRIMITIVES,
    *shape.PRIMITIVES,
    *index_functions.PRIMITIVES,
    *sort.PRIMITIVES,
    *linalg.PRIMITIVES,
    *fft.PRIMITIVES,
    *coo_matmul.PRIMITIVES,
    *threefry.PRIMITIVES,
    *state_primitives.PRIMITIVES,
    *jit_primitive.PRIMITIVES,
    *functions.PRIMITIVES,
    *custom_derivative_primitives.PRIMITIVES,
    *checkpoint.PRIMITIVES,
    *host_callback.PRIMITIVES,
    *collective.PRIMITIVES,
)
