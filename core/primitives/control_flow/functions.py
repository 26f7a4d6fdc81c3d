"""Control flow: branches, loops, and the functions made of them."""

from .cond import cond, cond_p, switch
from .scan import scan, scan_p
from .while_loop import fori_loop, while_lin_p, while_loop, while_p, while_vjp_p

PRIMITIVES = (cond_p, while_p, while_vjp_p, while_lin_p, scan_p)

__all__ = ["PRIMITIVES", "cond", "fori_loop", "scan", "switch", "while_loop"]
