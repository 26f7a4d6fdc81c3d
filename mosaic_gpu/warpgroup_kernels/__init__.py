"""Kernels written for warpgroups (`lang.mosaic_gpu.kernel`): their operations are printed one by one, as they stand."""
