"""StableHLO of calls: of functions, host callbacks, foreign functions, exported programs, device kernels.

Imports `stablehlo.emit` and what is below `xla_backend.stablehlo`.
Start with `jit.py`.
"""
