"""Changes of a text, to see that what is left out of it is found."""

import re


def without(pattern, which=0, put="", count=1):
    """The text with one line that matches replaced."""

    def edit(text):
        found = [m for m in re.finditer(pattern, text)]
        assert found, pattern
        at = found[which]
        return text[: at.start()] + at.expand(put) + text[at.end() :]

    return edit


def every(pattern, put):
    def edit(text):
        assert re.search(pattern, text), pattern
        return re.sub(pattern, put, text)

    return edit
