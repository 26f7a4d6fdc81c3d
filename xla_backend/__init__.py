"""The glue: StableHLO lowering, CPU lowering of kernels, client, arrays, executables, memory."""

if __name__ != "tilewright.xla_backend":
    raise ImportError("import tilewright.xla_backend, not xla_backend: the repository root is on sys.path")
