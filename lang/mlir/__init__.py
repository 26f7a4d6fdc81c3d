"""What printers of MLIR text share: the walk over a Program, scalar operations, regions and loops.

Imports `core`, `lang.ops` and `lang.legalize`.
Start with `program_printer.py`.
"""
