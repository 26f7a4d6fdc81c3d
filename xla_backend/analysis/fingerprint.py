"""Fingerprints of compiled programs: equal fingerprints mean the same computation, compiled in the same way."""

from __future__ import annotations

import hashlib
import re

import numpy as np

from ..execution.executable import Executable

_META = re.compile(r", (?:metadata|frontend_attributes)=\{[^}]*\}|^HloModule [\w.\-]+", re.M)
_NAME = re.compile(r"%[\w.\-]+")
_ELIDED = "{...}"  # a long constant, which HLO is printed without


def canonical(text: str) -> str:
    """Optimised HLO without names and lines of its source.

    >>> canonical("HloModule jit_f, x=1\\n  ROOT %add.3 = f32[2]{0} add(%a, %a), metadata={op_name=\\"f\\"}")
    ', x=1\\n  ROOT %0 = f32[2]{0} add(%1, %1)'
    """
    numbers: dict[str, str] = {}
    return _NAME.sub(lambda found: numbers.setdefault(found[0], f"%{len(numbers)}"), _META.sub("", text))


def fingerprint(executable: Executable) -> str:
    """A digest of the optimised HLO without names, the constants passed to it, and the inputs it forwards.

    Where HLO elides constants, the digest takes the StableHLO text instead.
    """
    module, text = executable.module, executable.as_text()
    digest = hashlib.sha256((module.text if _ELIDED in text else canonical(text)).encode())
    digest.update(repr((module.kept, sorted(module.forwarded.items()), module.in_types, module.out_types)).encode())
    for x in module.constants:
        digest.update(np.asarray(x).tobytes())
    return digest.hexdigest()
