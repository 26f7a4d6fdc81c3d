"""Random generators beside threefry: Philox, and the stateful generator of the device.

Imports `core.primitives` up to `external`, and what is below.
Start with `philox.py`.
"""
