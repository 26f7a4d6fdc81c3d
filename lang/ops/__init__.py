"""Operations of kernel bodies: loads and stores, atomics, DMA, semaphores, random numbers, pipelines.

Imports `core` and `lang.kernel`.
Start with `basic.py`.
"""
