"""What calls generated code: XLA's foreign function interface, and the work of its threads."""
