"""Random testing: programs, kernels, calls and block specs drawn from a seed (`python -m benchmarks fuzz`)."""
