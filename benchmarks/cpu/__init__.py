"""Kernels as machine code of this CPU: the speed of their code, and the time to compile them."""
