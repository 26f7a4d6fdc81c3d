"""What makes programs on XLA's CPU faster by knowing it. Each has a name in `options`, and can be switched off."""
