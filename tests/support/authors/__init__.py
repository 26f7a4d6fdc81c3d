"""Kernels as their authors write them, beside those of `tests/support/corpus`: one family a file, with its `CASES`.

`shared.cases()` are those of the corpus that stand in one table with these.
"""

from . import attention, norms, orders, products

EVERY = (*norms.CASES, *attention.CASES, *products.CASES, *orders.CASES)
