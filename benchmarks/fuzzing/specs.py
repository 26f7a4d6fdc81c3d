"""Wrong arguments of `kernel_call`: each is refused by an error of the catalogue, or the kernel runs."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.errors import TilewrightError

from .finding import Finding, minimized

# Arguments of a call by name, as expressions, and what may take the place of each.
RIGHT = {
    "grid": "(2, 3)", "in_block": "(4, 8)", "in_map": "lambda i, j: (i, j)", "out_block": "(4, 8)",
    "out_map": "lambda i, j: (i, j)", "out_shape": "tw.ShapeDtypeStruct((8, 24), 'float32')", "scratch": "[]",
    "operand": "np.ones((8, 24), 'float32')", "body": "lambda x, o, *s: o.__setitem__(..., x[...] * 2)", "extra": "{}",
}  # fmt: skip
SCALARS = (
    "None", "0", "-1", "1.5", "'x'", "2**31", "2**70", "True", "np.int64(2)", "float('nan')", "object()", "[]", "()",
)  # fmt: skip
WRONG = {
    "grid": (*SCALARS, "(2,)", "(2, 3, 4)", "(0, 3)", "(-1, 3)", "(2, 3.0)", "(2, None)", "[2, 3]", "(2, 2**40)",
             "np.array([2, 3])", "('a', 2)", "((2,), 3)", "(tnp.int32(2), 3)"),
    "in_block": (*SCALARS, "(4,)", "(4, 8, 1)", "(0, 8)", "(-4, 8)", "(3, 7)", "(4, None)", "(16, 64)", "(4.0, 8)",
                 "('a', 8)", "((4,), 8)", "(4, 2**40)", "(tl.Element(4), 8)", "(tl.Squeezed(), 8)", "(None, None)"),
    "in_map": (*SCALARS, "lambda i: (i, 0)", "lambda i, j, k: (i, j)", "lambda i, j: i", "lambda i, j: (i, j, 0)",
               "lambda i, j: (i + 1, j)", "lambda i, j: (-i, j)", "lambda i, j: (1.5, j)", "lambda i, j: ('a', j)",
               "lambda i, j: (i, None)", "lambda i, j: 1 / 0", "lambda i, j: (i // 0, j)", "lambda *ids: ids",
               "lambda i, j: (tnp.sin(i), j)", "lambda i, j: (i if i > 0 else 0, j)", "lambda i, j: (tnp.ones(2), j)",
               "lambda i, j: (i * j % 2, j)", "lambda i, j: (2**40, j)", "tnp.sin"),
    "out_shape": (*(s for s in SCALARS if s not in ("[]", "()")), "tw.ShapeDtypeStruct((8,), 'float32')",
             "tw.ShapeDtypeStruct((8, 24), 'int8')",
                  "(8, 24)", "[tw.ShapeDtypeStruct((8, 24), 'float32')] * 2", "np.ones((8, 24), 'float32')",
                  "tw.ShapeDtypeStruct((0, 24), 'float32')", "tw.ShapeDtypeStruct((9, 25), 'float32')",
                  "{'a': tw.ShapeDtypeStruct((8, 24), 'float32')}", "np.float32"),
    "scratch": (*SCALARS, "[tl.VMEM((4, 8), 'float32')]", "[tl.VMEM((-1,), 'float32')]", "[tl.VMEM((4,), 'x')]",
                "['a']", "tl.VMEM((4, 8), 'float32')", "[tl.VMEM(4, 'float32')]", "[np.ones(3)]", "{'a': 1}"),
    "operand": (*(s for s in SCALARS if s not in ("None", "[]", "()")), "np.ones((8,), 'float32')",
             "np.ones((8, 24), 'complex64')", "np.ones((8, 24), 'S3')",
                "np.ones((0, 24), 'float32')", "np.ones((9, 25), 'float32')", "[[1.0] * 24] * 8", "tw.random.key(0)",
                "np.ones((8, 24), object)", "np.ones((8, 24), bool)", "{'a': np.ones(3)}"),
    "body": (*SCALARS, "lambda x: None", "lambda *refs: 1", "lambda x, o, *s: o", "lambda x, o, *s: x[9, 9]",
             "lambda x, o, *s: o.__setitem__(..., 'a')", "lambda x, o, *s: o.__setitem__((5, 0), 1.0)",
             "lambda x, o, *s: o.__setitem__(..., x[...].sum(7))", "lambda x, o, *s: o.__setitem__(..., x[:3])",
             "lambda x, o, *s: x.__setitem__(..., 0.0)", "lambda x, o, *s: o.__setitem__(..., o[...])",
             "lambda x, o, *s: float(x[0, 0])", "lambda x, o, *s: o.__setitem__(..., 1 / 0)",
             "lambda x, o, *s: o.__setitem__(tl.program_id(5), 1.0)", "lambda x, o, *s: o.__setitem__(..., 1j)",
             "lambda x, o, *s: o.__setitem__(tl.ds(2, 9), x[0])", "lambda x, o, *s: tw.jit(lambda: x[...])()"),
    "extra": ("{'interpret': 3}", "{'name': 5}", "{'input_output_aliases': {0: 0}}", "{'input_output_aliases': {5: 0}}",
              "{'input_output_aliases': 3}", "{'compiler_params': 7}", "{'compiler_params': {'x': 1}}",
              "{'cost_estimate': 'a'}", "{'grid_spec': 1}", "{'debug': 'x'}", "{'backend': 'x'}", "{'metadata': 1}"),
}  # fmt: skip
WRONG |= {"out_block": WRONG["in_block"], "out_map": WRONG["in_map"]}
CALL = """tl.kernel_call({body}, out_shape={out_shape}, grid={grid}, scratch_shapes={scratch},
    in_specs=[tl.BlockSpec({in_block}, {in_map})], out_specs=tl.BlockSpec({out_block}, {out_map}),
    **{extra})({operand})"""
IMPORTS = """import numpy as np

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
"""

Changes = dict[str, str]


def draw(seed: int) -> Changes:
    """One to three wrong arguments."""
    of = random.Random(seed)
    names = of.sample([*WRONG], of.randint(1, 3))
    return {name: of.choice(WRONG[name]) for name in names}


def smaller(changes: Changes) -> Iterator[Changes]:
    """The changes without one of them."""
    yield from ({k: v for k, v in changes.items() if k != name} for name in changes if len(changes) > 1)


def wrong(changes: Changes, differentiate: bool) -> str | None:
    """The error outside of the catalogue that a call raises; None if there is none."""
    text = CALL.format(**RIGHT | changes)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if differentiate:
                text = text.rpartition(")(")[0] + ")"
                f, x = _evaluated(text), _evaluated((RIGHT | changes)["operand"])
                tw.grad(lambda x: tw.tree.leaves(f(x))[0].sum())(x)
            else:
                tw.block_until_ready(_evaluated(text))
    except TilewrightError:
        return None
    except ZeroDivisionError:  # the author's own
        return None if "/ 0" in text or "// 0" in text else "ZeroDivisionError"
    except KeyError as error:  # the author's own, too: a body that takes a dictionary of outputs for a Ref
        return None if "{'a':" in text and error.args == (...,) else f"KeyError: {error}"
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}".partition("\n")[0][:300]
    return None


def _evaluated(text: str) -> Any:
    return eval(text, {"tw": tw, "tl": tl, "tnp": tnp, "np": np})


class Specs:
    """One wrong call per seed, every second one differentiated."""

    def run(self, seed: int) -> Finding | None:
        differentiate = seed % 2 == 1
        changes = draw(seed)
        if wrong(changes, differentiate) is None:
            return None
        least = minimized(changes, smaller, lambda c: wrong(c, differentiate) is not None)
        return Finding(seed, str(wrong(least, differentiate)), script(least, differentiate))


def script(changes: Changes, differentiate: bool) -> str:
    """A script that makes the call."""
    text = CALL.format(**RIGHT | changes)
    if not differentiate:
        return f"{IMPORTS}\nprint({text})\n"
    call, _, operand = text.rpartition(")(")
    return f"{IMPORTS}\nf = {call})\nprint(tw.grad(lambda x: tw.tree.leaves(f(x))[0].sum())({operand})\n"
