"""The generator: a group of equations as one kernel, by their relations.

    group (loops that shared values make equal) -> nest (parallel, carried, whole) -> tiles -> blocks and body

A single operation is the group of one. What relations cannot express has loops of its own (`kernels/template.py`),
whose tiles are chosen here too.
"""
