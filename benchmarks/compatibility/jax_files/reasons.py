"""Why tests of jax's own files fail here: a kind and a cause for what a regular expression finds.

It is looked for in the file, the name of the test and the first line of its message; the first that is found counts.
Kinds: `wording` (an error or a text of ours in other words), `insides` (jax's private names, jaxprs, caches),
`different` (on purpose), `absent` (what is not here).
"""

from __future__ import annotations

import re

REASONS: dict[str, tuple[str, str]] = {
    r"jax\._src\S* is (not here|of jax's own insides)": (
        "insides", "uses a private name of jax's that has no public one"),
    r"_kept_var_idx|'(Pushforward|Primitive)' object has no|no attribute 'pretty_print'|isinstance\(\) arg 2": (
        "insides", "looks at a private class or attribute of jax's"),
    r"does not match|pattern did not match|Expected warning not| AssertionError: \"|not found in 'WARNING|no logs of": (
        "wording", "looks for jax's words in an error, a warning or a log"),
}  # fmt: skip
UNKNOWN = "unexplained"


def reason(file: str, test: str, message: str) -> tuple[str, str]:
    """The kind and the cause of a failure; of the kind `unexplained` where it is not known."""
    text = f"{file} {test} {message}"
    return next((why for pattern, why in REASONS.items() if re.search(pattern, text)),
                (UNKNOWN, f"`{message.replace('`', chr(39))[:110]}`"))  # fmt: skip
