"""Kernels as Triton programs, for NVIDIA and AMD GPUs."""

if __name__ != "tilewright.triton_backend":
    raise ImportError("import tilewright.triton_backend, not triton_backend: the repository root is on sys.path")
