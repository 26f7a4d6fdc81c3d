"""LLVM IR as text, and its compilation."""
