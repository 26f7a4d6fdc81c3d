"""Templates: the kernel that each standard operation becomes, as a function of tile sizes and target."""

if __name__ != "tilewright.kernels":
    raise ImportError("import tilewright.kernels, not kernels: the repository root is on sys.path")
