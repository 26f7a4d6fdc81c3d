"""What `benchmarks/split_operations.py` draws from."""
