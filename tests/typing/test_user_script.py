"""A user's script under a type checker in strict mode, with the package where an installation has it."""

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.typing import user_script
from tests.typing.installed import installed_in

WRONG = """
import tilewright as tw
from tilewright import numpy as tnp

def f(x: tw.Array, n: int) -> tw.Array:
    return x * n

number: int = tnp.sin(1.0)
tnp.no_such_function
tw.jit(f)(tnp.ones(3), "three")
tw.vmap(f)(tnp.ones(3))
reveal_type(tw.jit(f))
reveal_type(tnp.ones(3).T @ tnp.ones(3))
"""


@pytest.fixture
def environment(tmp_path):
    """A folder with a virtual environment in which the package is installed, and a strict configuration."""
    installed_in(tmp_path, typeCheckingMode="strict")
    return tmp_path


def checked(folder):
    """What pyright says of the scripts of a folder: severity, rule and message of each diagnostic."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--project", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    return [(d["severity"], d.get("rule", ""), d["message"]) for d in report["generalDiagnostics"]]


def test_a_users_script_has_no_errors_in_strict_mode(environment):
    (environment / "script.py").write_text((ROOT / "tests" / "typing" / "user_script.py").read_text())
    assert checked(environment) == []


def test_what_is_wrong_is_an_error_and_signatures_are_kept(environment):
    (environment / "script.py").write_text(WRONG)
    found = checked(environment)
    errors = {rule for severity, rule, _ in found if severity == "error"}
    assert {"reportAssignmentType", "reportAttributeAccessIssue", "reportArgumentType", "reportCallIssue"} <= errors
    revealed = [message for severity, _, message in found if severity == "information"]
    assert "Wrapped[(x: Array, n: int), Array]" in revealed[0] and '"Array"' in revealed[1]


def test_the_script_runs():
    value, rows, doubled = user_script.main()
    assert value.shape == () and rows.shape == (8, 4) and doubled.shape == (4,)
