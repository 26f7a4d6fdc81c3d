"""A search whose trials and decision are kept, each as soon as it is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from ..core.jit.jit import jit
from ..core.support import pytree
from ..core.support.errors import TuningError
from ..devices import devices
from .report import Report, Trial
from .search import Tuning
from .space import Configuration
from .store import Problem, Store
from .trial_runner import Here, Isolated, isolable

TRIAL_SECONDS = 60.0  # after which a configuration counts as too slow to compile or run


def searched(
    name: str, problem: Problem, store: Store, space: Sequence[Configuration],
    function: Callable[[Configuration], Callable[..., Any]], arrays: Sequence[Any], wanted: Any, *,
    default: Configuration, known: Sequence[Configuration] = (), tolerance: float | None = None,
    memory: int | None = None, timeout: float = TRIAL_SECONDS, isolate: bool | None = None,
    budget: float | None = None, progress: bool = True,
) -> tuple[Report, bool]:  # fmt: skip
    """Search a space for the fastest function of some arrays that gives what is wanted; was all of it kept?

    Raises:
      TuningError: no configuration works.
    """
    kept, start = [], time.time()

    def keep(t: Trial) -> None:
        kept.append(store.record(problem, [(t.configuration, t.seconds, t.spread, t.why)], start))

    leaves = [jit(lambda x: x)(x) for x in arrays]
    on_cpu = devices()[0].platform == "cpu"
    trials: Here | Isolated
    if isolable(leaves) and on_cpu if isolate is None else isolate:
        trials = Isolated(leaves, pytree.leaves(wanted), tolerance, timeout)
    else:
        trials = Here(arrays, wanted, tolerance)
    search = Tuning(name, space, function, arrays, default=default, trials=trials, known=known, memory=memory,
                    target="cpu" if on_cpu else None, keep=keep)  # fmt: skip
    report = search.run(budget, progress)
    if not report.trials or report.best.seconds is None:
        why = "; ".join(f"{t.configuration}: {t.why}" for t in report.trials[:4]) or "it was stopped"
        raise TuningError(f"no configuration of {name} works: {why}", "widen the space, or check the reference")
    if report.kept is not None:
        kept.append(store.decide(problem, report.kept))
    return report, all(kept)
