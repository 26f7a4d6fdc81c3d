"""Runs emitted MLIR modules in NumPy, and finds what compilers do not check: see `emulate`.

`ttir.run_ttir` runs Triton's dialect, `mosaic.run_mosaic` the Mosaic TPU dialect, `hopper.run_hopper` what Mosaic GPU
emits. They check the bounds of every access, the sizes of memory against those of values, races, waits, divisions by
zero and hints; memory that nothing wrote reads as poison (NaN, or the least integer).
"""
