"""Object files: loaded without LLVM, kept on disk with a header."""
