"""Kernels as machine code of this CPU.

    Kernel -> loops (lowering) -> LLVM IR (llvm, functions) -> object (objects) -> handler of XLA's FFI (runtime)

Imports `core` and `lang` alone. What XLA has to know of a handler, and where objects are kept, the package's front end
hands down (`runtime/library.py`). Start at `lowering/kernel.py`.
"""
