"""Kernels over several devices: sharding rules from index maps, per-device kernels, users' rules.

Imports `core`, and `lang` up to `interpret`.
Start with `sharding_rule.py`.
"""
