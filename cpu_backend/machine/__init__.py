"""What this machine can do: features of the processor, caches and cores."""
