"""The compilation pipeline: passes over programs and kernels, backend selection, absent targets.

Imports the layers and the public namespaces.
Start with `pipeline.py`, then `pass_manager.py`.
"""
