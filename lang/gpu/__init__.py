"""What GPU backends share besides loop nests: normalized kernels, launches, machine code and its resources.

Imports `core`, and `lang` up to `transforms` and `loopnest`.
Start with `normalize.py`, then `launch.py`.
"""
