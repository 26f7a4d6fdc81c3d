"""Estimated CPU time of a kernel as machine code and as XLA computes it, from the rates of the machine.

Start at `estimate.py`.
"""
