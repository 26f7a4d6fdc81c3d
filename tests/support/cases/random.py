"""Cases of the random primitives that are over plain arrays; `tests/frontend/test_random.py` has those over keys."""

from tests.support.cases import Case
from tilewright.core.ir.types import UINT32, ArrayType
from tilewright.core.primitives.keys.threefry import PRIMITIVES, threefry2x32_p

ELSEWHERE = {p.name: "over keys: tests/frontend/test_random.py" for p in PRIMITIVES if p is not threefry2x32_p}

_WORD, _WORDS = ArrayType((), UINT32), ArrayType((3, 4), UINT32)
CASES = [
    Case(threefry2x32_p, (_WORD, _WORD, _WORDS, _WORDS), low=0, high=2**32 - 2, note="one-key"),
    Case(threefry2x32_p, (_WORDS,) * 4, low=0, high=2**32 - 2, note="key-each"),
    Case(threefry2x32_p, (_WORD,) * 4, low=0, high=2**32 - 2, note="scalar"),
]
