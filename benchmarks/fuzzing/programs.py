"""Random programs of nested transformations: eager, compiled, and by jax in a process of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.errors import TilewrightError

from .baseline import Baseline
from .expressions import Draw, Program, function, names_in, operands, smaller, source
from .finding import Finding, minimized

TOLERANCE = 1e-6
OUTSIDE = "outside of the catalogue: "
# What a drawn statement raises whose shapes do not fit: the catalogue's errors, and those of the statement's own text.
REFUSALS = (TilewrightError, ZeroDivisionError, IndexError)
LARGEST = 1e6  # results beyond it, and those that are no numbers, are not compared


def shape_of(program: Program) -> tuple[int, ...]:
    """The shape of a Program's result, by types alone."""
    types = [tw.ShapeDtypeStruct(s, "float64") for s in program.shapes]
    return tw.eval_shape(function(program, tw), *types).shape


def answers(program: Program, seed: int) -> dict[str, Any]:
    """What the Program gives here: as it is evaluated and compiled; errors as texts."""
    arrays = operands(program, seed)
    forms: dict[str, Callable[..., Any]] = {"eager": function(program, tw), "jit": tw.jit(function(program, tw))}
    return {name: _answer(form, arrays) for name, form in forms.items()}


def _answer(form: Callable[..., Any], arrays: list[np.ndarray]) -> Any:
    """An array, or the text of an error: `OUTSIDE` before one that is not of the catalogue."""
    try:
        return np.asarray(form(*map(tw.numpy.asarray, arrays)))
    except Exception as error:  # noqa: BLE001
        outside = "" if isinstance(error, TilewrightError) else OUTSIDE
        return outside + f"{type(error).__name__}: {error}".partition("\n")[0]


def difference(found: dict[str, Any], wanted: Any) -> str | None:
    """How results differ from the baseline's or, where it has none, from each other; None if they do not."""
    for name, value in found.items():
        if isinstance(value, str) and value.startswith(OUTSIDE):
            return f"{name} raises {value}"
    reference = wanted if not isinstance(wanted, str) else found["eager"]
    if isinstance(reference, str):  # neither can: no finding
        return None
    if not np.isfinite(reference).all() or np.abs(reference).max(initial=0) > LARGEST:
        return None
    for name, value in found.items():
        if isinstance(value, str):
            return f"{name} raises {value}"
        if value.shape != reference.shape:
            return f"{name} has shape {value.shape}, wanted {reference.shape}"
        error = np.abs(value - reference).max(initial=0) / (1 + np.abs(reference).max(initial=0))
        if not error <= TOLERANCE:
            return f"{name} differs by {error:.3g}"
    return None


def drawn(seed: int) -> Program:
    """The Program of a seed."""
    with tw.config(enable_x64=True):
        return Draw(seed, shape_of, REFUSALS).program(length=5, depth=2)


class Programs:
    """One Program per seed."""

    def __init__(self, python: str | None):
        self.baseline = Baseline(python) if python else None

    def differs(self, program: Program, seed: int) -> str | None:
        with warnings.catch_warnings(), tw.config(enable_x64=True):
            warnings.simplefilter("ignore")
            wanted = self.baseline.ask(program=program.data(), seed=seed) if self.baseline else "no baseline"
            return difference(answers(program, seed), wanted if isinstance(wanted, str) else wanted[0]["values"])

    def run(self, seed: int) -> Finding | None:
        try:
            program = drawn(seed)
        except Exception as error:  # noqa: BLE001
            return Finding(seed, f"tracing raises {OUTSIDE}{type(error).__name__}: {error}", drawing(seed))
        what = self.differs(program, seed)
        if what is None:
            return None
        least = minimized(program, smaller, lambda p: self.differs(p, seed) is not None)
        return Finding(seed, self.differs(least, seed) or what, script(least, seed))


def script(program: Program, seed: int) -> str:
    """A script that shows what a Program gives, eager and compiled; with `jax` as its argument, by jax."""
    lines = [
        "import sys", "", "import numpy", "", 'if sys.argv[1:] == ["jax"]:', "    import jax as lib", "",
        '    lib.config.update("jax_enable_x64", True)', "else:", "    import tilewright as lib", "",
        '    lib.config.update("enable_x64", True)', "np = lib.numpy", "", *source(program), "",
        f"draw = numpy.random.default_rng({seed})",
        f"arrays = [np.asarray(draw.standard_normal(shape)) for shape in {[tuple(s) for s in program.shapes]}]",
        "print(f(*arrays))", "print(lib.jit(f)(*arrays))",
    ]  # fmt: skip
    return "\n".join([*_imports(program), *lines]) + "\n"


def drawing(seed: int) -> str:
    """A script that draws a Program again."""
    return f"from benchmarks.fuzzing.programs import drawn\n\nprint(drawn({seed}))\n"


def _imports(program: Program) -> list[str]:
    """What a script imports of this package for a Program."""
    wanted = sorted({"custom_jvp", "custom_vjp"} & names_in(program))
    return [f"from benchmarks.fuzzing.expressions import {', '.join(wanted)}", ""] if wanted else []
