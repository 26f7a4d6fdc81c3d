"""Array manipulation by index: padding, repetition and rolling, insertion and deletion.

Imports the function modules of `tilewright.numpy` and `numpy.statistics`.
Start with `pad.py`.
"""
