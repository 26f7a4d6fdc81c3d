"""StableHLO lowering: one table from primitives' names to rules, family by family."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

RULES: dict[str, Any] = {}
for _name in ("jit", "elementwise", "reduce", "shape", "index", "sort", "contract", "conv", "window", "random", "control",
              "custom", "callback", "collective", "kernel"):
    if importlib.util.find_spec(f"{__name__}.{_name}"):
        try:
            RULES |= importlib.import_module(f".{_name}", __name__).RULES
        except (ImportError, AttributeError) as error:
            print("lower:", _name, error)
