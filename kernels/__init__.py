"""Templates: the kernel that each standard operation becomes, as a function of tile sizes and target."""

if __name__ != "tilewright.kernels":
    raise ImportError("import tilewright.kernels, not kernels: the repository root is on sys.path")

from . import contract, cumulative, elementwise, index, reduce, shape, sort

TEMPLATES = {**elementwise.TEMPLATES, **reduce.TEMPLATES, **contract.TEMPLATES, **cumulative.TEMPLATES, **shape.TEMPLATES, **index.TEMPLATES, **sort.TEMPLATES}
GLUE = {}
def check_complete(): pass
