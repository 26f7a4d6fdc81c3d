"""From a kernel to the functions of its machine code."""
