"""What this machine can do: features of the processor, caches, cores, and rates that are measured once and kept."""
