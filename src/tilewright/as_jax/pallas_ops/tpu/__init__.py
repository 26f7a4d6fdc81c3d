"""Kernels for TPUs."""
