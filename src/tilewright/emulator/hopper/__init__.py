"""Runs what Mosaic GPU emits for Hopper and Blackwell: `run_hopper`."""

from .machine import run_hopper

__all__ = ["run_hopper"]
