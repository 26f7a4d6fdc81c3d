"""Templates: the kernel that each standard operation becomes, as a function of tile sizes and target."""

if __name__ != "tilewright.kernels":
    raise ImportError("import tilewright.kernels, not kernels: the repository root is on sys.path")

from .catalogue import GLUE, TEMPLATES, check_complete
from .cost import Cost
from .generate.loops import Cut, Loops
from .template import Parts, Template

__all__ = ["Cost", "Cut", "GLUE", "Loops", "Parts", "TEMPLATES", "Template", "check_complete"]
