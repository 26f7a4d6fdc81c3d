"""Draws a share of each law: of the cases of a test marked `law`, which is parametrised over a table of operations."""

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable

_NESTED = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")


def words(test: str) -> set[str]:
    """The names in the id of a test's case: primitives, functions, dtypes, backends; no shapes, no numbers."""
    case = test.partition("[")[2].removesuffix("]")
    while case != (case := _NESTED.sub("", case)):
        pass
    return {word for word in case.split("-") if word[:1].isalpha()}


def drawn(tests: Iterable[str], share: float, seed: int) -> set[str]:
    """The ids that are drawn: `share` of each test function, one at least, and each word of a file once at least.

    The draw is the same in every process that collects the same tests.
    """
    laws: dict[str, list[str]] = defaultdict(list)
    named: dict[str, set[str]] = defaultdict(set)
    chosen: set[str] = set()
    for test in sorted(tests, key=lambda test: hashlib.sha256(f"{seed} {test}".encode()).digest()):
        laws[test.partition("[")[0]].append(test)
        seen = named[test.partition("::")[0]]
        if not words(test) <= seen:
            chosen.add(test)
            seen |= words(test)
    for cases in laws.values():
        missing = math.ceil(share * len(cases)) - len(chosen.intersection(cases))
        chosen.update([case for case in cases if case not in chosen][: max(missing, 0)])
    return chosen
