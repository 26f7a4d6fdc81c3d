"""The kernel language: Ref, BlockSpec, grid, memory spaces, kernel_call."""

if __name__ != "tilewright.lang":
    raise ImportError("import tilewright.lang, not lang: the repository root is on sys.path")
