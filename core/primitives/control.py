"""Control flow: branches, loops, and the functions made of them."""

from .associative import associative_scan, map
from .cond import cond, cond_p, switch
from .loops import fori_loop, while_loop, while_p
from .scan import scan, scan_p

PRIMITIVES = (cond_p, while_p, scan_p)

__all__ = ["PRIMITIVES", "associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]
