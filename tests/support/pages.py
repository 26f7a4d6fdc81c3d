"""The code on the pages of docs/."""

import re


def examples(page):
    """The blocks of Python on a page, each padded so that errors name the page's lines."""
    text = page.read_text()
    for found in re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M):
        yield text.count("\n", 0, found.start(1)), found.group(1)
