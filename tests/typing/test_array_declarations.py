"""The declarations of `Array` for type checkers agree with the class that runs."""

import ast
import inspect
import pkgutil
from importlib import import_module

import pytest

import tilewright as tw
from tests.support.paths import ROOT
from tilewright import lax
from tilewright.core.ir.array import ArrayLike
from tilewright.core.ir.typeof import Value
from tilewright.core.tracing.trace import Tracer
from tilewright.numpy.protocols.array_methods import ArrayMethods
from tilewright.scipy import stats
from tilewright.scipy.stats import signatures

TREE = ast.parse((ROOT / "core" / "ir" / "array.py").read_text())
DECLARED = {
    node.name: node
    for cls in ast.walk(TREE)
    if isinstance(cls, ast.ClassDef)
    for node in cls.body
    if isinstance(node, ast.FunctionDef)
}
LINALG = (ROOT / "src" / "tilewright" / "lax" / "linalg.py").read_text()
PROTOCOLS = {"__array_ufunc__", "__array_function__"}  # which NumPy calls
OWN = {"__array_priority__", "__annotations__", "__doc__", "__module__", "__slots__", "__hash__"}


def defaults(function):
    return [p.name for p in inspect.signature(function).parameters.values() if p.default is not p.empty]


def names(cls):
    return {name for base in cls.__mro__[:-1] for name in vars(base)} - OWN


def test_every_operator_and_method_is_declared():
    assert names(Value) - {*DECLARED} - PROTOCOLS == set()


def test_tracers_look_up_what_arrays_inherit():
    late = {name for name, method in vars(Value.__base__).items() if hasattr(method, "home")}
    assert late == names(ArrayMethods) and len(late) > 80
    tw.jit(lambda x: [getattr(x, name) for name in late if name not in ("mT", "__iter__")] and x)(1.0)


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_a_declaration_is_what_arrays_have(name):
    node, real = DECLARED[name], inspect.getattr_static(tw.Array, name)
    is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)
    assert isinstance(real, property) == is_property
    if not is_property and inspect.isfunction(real) and not name.startswith("__"):
        declared = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        parameters = inspect.signature(real).parameters.values()
        named = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        assert declared[1:] == named[1:]
        assert len(node.args.defaults) + sum(d is not None for d in node.args.kw_defaults) == len(defaults(real)) - (
            list(parameters)[0].default is not inspect.Parameter.empty
        )


def test_functions_of_distributions_have_the_signatures_declared():
    """Those that a checker reads from the annotation are those of the function that runs."""
    checked = 0
    for found in pkgutil.iter_modules(stats.__path__):
        module = import_module(f"{stats.__name__}.{found.name}")
        for name, declared in getattr(module, "__annotations__", {}).items():
            if hasattr(signatures, declared):
                _, *parameters = inspect.signature(getattr(signatures, declared).__call__).parameters.values()
                running = inspect.signature(getattr(module, name)).parameters.values()
                assert [(p.name, p.default) for p in parameters] == [(p.name, p.default) for p in running], name
                checked += 1
    assert checked > 100


def test_functions_of_matrices_are_those_that_a_checker_reads():
    declared = [line for line in LINALG.splitlines() if line.startswith("    from ..core")]
    names = [name for line in declared for name in line.partition(" import ")[2].split(", ")]
    assert len(names) == 17 and {*names} <= {*lax.linalg.__all__}
    for line in declared:
        module = import_module("tilewright" + line.split()[1].removeprefix("."))
        for name in line.partition(" import ")[2].split(", "):
            assert inspect.signature(getattr(lax.linalg, name)) == inspect.signature(getattr(module, name))


def test_tracers_have_what_is_declared_of_values():
    device_only = {*vars(tw.Array)} - names(Value)
    assert {name for name in DECLARED if not hasattr(Tracer, name)} <= device_only


def test_numbers_arrays_and_tracers_are_array_like():
    assert isinstance(1.0, ArrayLike) and isinstance(tw.numpy.ones(3), ArrayLike)
    tw.jit(lambda x: [isinstance(x, ArrayLike)] and x)(1.0)
    assert not isinstance([1.0], ArrayLike) and not isinstance("x", ArrayLike)
