"""Runs emitted MLIR modules in NumPy and asserts what compilers do not check.

`ttir.run_ttir` runs Triton's dialect, `mosaic.run_mosaic` the Mosaic TPU dialect. Both check the bounds of every
access, the sizes of memory against those of values, divisions by zero and hints; memory that nothing wrote reads as
poison (NaN, or the least integer).
"""
