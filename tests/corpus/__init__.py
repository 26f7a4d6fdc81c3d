"""Kernels to test with."""
