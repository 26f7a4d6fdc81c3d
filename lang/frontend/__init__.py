"""Front ends over `kernel_call`: automatic tiling, `core_map`, mutable arrays, drawings.

Imports all of `lang` but its public namespaces.
Start with `auto_tiling.py`.
"""
