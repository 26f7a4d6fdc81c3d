"""The blocks of code of JAX's guides, and the page that is made of what becomes of them."""

from benchmarks.compatibility.pallas_guides import Block, binds, blocks, page

GUIDE = """# A guide

```{code-cell} ipython3
---
executionInfo: {elapsed: 1}
---
import numpy as np
```

- in a list:

  ```python id="x"
  def f(x):
    return x
  ```

```python
>>> y = f(2)
>>> for i in range(2):
...   print(y)
2
2
```

```
text
```
"""


def test_blocks_are_cells_fences_and_sessions():
    found = list(blocks(GUIDE))
    assert [line for line, _ in found] == [3, 12, 17]
    space = {}
    for _, code in found:
        exec(code, space)
    assert space["y"] == 2 and binds("\n".join(code for _, code in found)) == {"np", "f", "y", "i"}


def test_the_page_counts_blocks_and_names_reasons():
    made = page({"tpu/sparse": [Block(3, "runs"), Block(9, "interpreted"), Block(12, "no program"),
                                Block(17, "fails", "TimeoutError: "), Block(20, "fails", "ZeroDivisionError: x"),
                                Block(25, "follows", "NameError")]})  # fmt: skip
    assert "| tpu/sparse | 5 | 2 | 1 | 2 | 1 |" in made
    assert "line 17: products that the guide times" in made and "line 20: `ZeroDivisionError: x`" in made
