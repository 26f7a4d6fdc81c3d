"""Random generators beside threefry: Philox, and the stateful generator of the device.

Imports what is below `core.primitives`, `keys`, `custom` and `external`.
Start with `philox.py`.
"""
