"""What every GPU backend makes of a kernel before it prints it: programs and loops, launches, machine code."""
