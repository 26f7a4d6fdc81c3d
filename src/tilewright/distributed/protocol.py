"""Messages between a process and the coordinator: their form, and what is refused of what arrives.

A message is an object of JSON on a line of its own:

    process to coordinator           coordinator to process
    {"join": 1, "count": 4, ...}     {"start": true} or {"refused": text, "kind": "absent"}
    {"stalled": "call 3 of step"}    {"where": 7}, which asks for
    {"here": 7, "calls": 2, ...}     {"end": text}
    {"marks": [...]}                 {"mismatch": text}
    {"at": ..., "steps": 2, ...}
    {"preempted": true}              {"preempted": true}, which asks for
    {"step": 12}                     {"save": 14}, when all have said theirs
    {"failed": "ValueError: ..."}
    {"bye": true}                    {"done": true}, when all have said so

Anyone may connect to the port. A line that is too long or too deep, that is no JSON, or whose fields are missing or of
another type is refused before anything is done with it. Fields that are not known are ignored.
"""

from __future__ import annotations

import hmac
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 1 << 20  # bytes of a message
LONGEST_JOIN = 1 << 14  # of the first message of a connection
DEEPEST = 8  # objects and lists within each other
MOST_MARKS = 4096
TEXT = 8192  # characters of a description
TOKEN = "TILEWRIGHT_COORDINATOR_TOKEN"  # the environment variable

Message = dict[str, Any]
Check = Callable[[Any], bool]
_SURROGATES = re.compile("[\ud800-\udfff]")  # which JSON can name and nothing can encode
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


class MalformedError(Exception):
    """A line that is no message of this protocol; says why."""


def _text(most: int) -> Check:
    return lambda x: isinstance(x, str) and len(x) <= most and _SURROGATES.search(x) is None


def _integer(low: int, high: int) -> Check:
    return lambda x: type(x) is int and low <= x <= high


def _number(high: float) -> Check:
    return lambda x: type(x) in (int, float) and math.isfinite(x) and 0 <= x <= high


def _optional(check: Check) -> Check:
    return lambda x: x is None or check(x)


def _versions(x: Any) -> bool:
    short = _text(200)
    return isinstance(x, dict) and len(x) <= 16 and all(short(k) and short(v) for k, v in x.items())


def _marks(x: Any) -> bool:
    name, number, mark = _text(TEXT), _integer(0, 1 << 62), _text(200)
    return isinstance(x, list) and len(x) <= MOST_MARKS and all(
        isinstance(m, list) and len(m) == 3 and name(m[0]) and number(m[1]) and mark(m[2]) for m in x)  # fmt: skip


_PROCESS, _COUNT, _LINE = _integer(0, 1 << 20), _integer(0, 1 << 62), _optional(_text(TEXT))
_SECONDS = _number(1e9)

# The first field of a message says what it is.
FROM_PROCESS: Mapping[str, Mapping[str, Check]] = {
    "join": {"join": _PROCESS, "count": _PROCESS, "versions": _versions, "timeout": _SECONDS,
             "alive": _integer(1, 10**6), "pid": _integer(0, 1 << 32), "host": _text(255), "token": _text(512)},
    "stalled": {"stalled": _text(TEXT), "seconds": _SECONDS, "last": lambda x: isinstance(x, bool)},
    "here": {"here": _COUNT, "calls": _COUNT, "last": _LINE, "waits": _LINE, "seconds": _SECONDS, "line": _LINE},
    "at": {"at": _text(TEXT), "steps": _COUNT, "calls": _COUNT, "what": _text(TEXT), "line": _LINE},
    "marks": {"marks": _marks},
    "failed": {"failed": _text(TEXT)},
    "preempted": {"preempted": lambda x: x is True},
    "step": {"step": _integer(-(1 << 62), 1 << 62)},
    "bye": {"bye": lambda x: x is True},
}  # fmt: skip
FROM_COORDINATOR: Mapping[str, Mapping[str, Check]] = {
    "start": {"start": lambda x: x is True},
    "refused": {"refused": _text(LONGEST), "kind": _text(200)},
    "where": {"where": _COUNT},
    "end": {"end": _text(LONGEST)},
    "mismatch": {"mismatch": _text(LONGEST)},
    "preempted": {"preempted": lambda x: x is True},
    "save": {"save": _integer(-(1 << 62), 1 << 63)},
    "done": {"done": lambda x: x is True},
}


def parsed(line: bytes, kinds: Mapping[str, Mapping[str, Check]]) -> Message:
    """The message on a line.

    Raises:
      MalformedError: it is none of these kinds.
    """
    if _depth(line) > DEEPEST:
        raise MalformedError("its values are nested too deeply")
    try:
        message = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise MalformedError("it is no JSON") from None
    if not isinstance(message, dict):
        raise MalformedError("it is no object")
    kind = next((k for k in kinds if k in message), None)
    if kind is None:
        raise MalformedError("it is of no known kind")
    for field, check in kinds[kind].items():
        if field not in message:
            raise MalformedError(f"{kind!r} without {field!r}")
        if not check(message[field]):
            raise MalformedError(f"{field!r} of {kind!r} has a wrong type or is out of bounds")
    return message


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _depth(line: bytes) -> int:
    """How deeply values are nested, found without recursion."""
    depth = deepest = 0
    for byte in re.findall(rb"[][{}]", _STRINGS.sub(b"", line)):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def same_token(given: str, expected: str) -> bool:
    """Whether a token is the expected one, in a time that does not depend on how much of it is right."""
    return hmac.compare_digest(given.encode(), expected.encode())
