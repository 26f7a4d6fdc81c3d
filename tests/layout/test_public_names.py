"""Public namespaces list their names statically: what a checker reads is what the module has and `dir` shows."""

import ast
import pkgutil
from importlib import import_module
from types import ModuleType

import pytest

import tilewright as tw
from docs.public_names import DIR, MACHINERY, bound_by, outdated, path_of, public_names, statements, with_names
from tilewright import interop

INTERNAL = {f"tilewright.interop.{name}" for name in ("driver", "foreign", "launch", "onnx_operators")}


def namespaces() -> dict[str, ModuleType]:
    """The package, the modules among its public names, and theirs, and the bridges to other libraries."""
    bridges = [f"tilewright.interop.{m.name}" for m in pkgutil.iter_modules(interop.__path__)]
    found: dict[str, ModuleType] = {}
    ahead = [tw, *(import_module(name) for name in bridges if name not in INTERNAL)]
    while ahead:
        module = ahead.pop()
        if module.__name__ not in found:
            found[module.__name__] = module
            values = [getattr(module, name) for name in module.__all__]
            ahead += [v for v in values if isinstance(v, ModuleType) and v.__name__.startswith("tilewright.")]
    return found


NAMESPACES = namespaces()


def test_the_names_of_namespaces_are_up_to_date():
    assert [str(path) for path in outdated()] == [], "run `python -m docs.public_names`"


@pytest.mark.parametrize("name", sorted(NAMESPACES))
def test_a_namespace_lists_its_names_statically(name):
    module = NAMESPACES[name]
    body = list(statements(ast.parse(path_of(name).read_text()).body))
    lists = [n.value for n in body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"]
    assert [ast.literal_eval(value) for value in lists] == [module.__all__]
    assert len(set(module.__all__)) == len(module.__all__) and not {*module.__all__} & MACHINERY
    bound = {n for node in body for n in bound_by(node, name, imports=True)}
    assert {*module.__all__} - bound == set(), "import them under TYPE_CHECKING"
    assert dir(module) == sorted(module.__all__)


def test_the_walk_meets_the_namespaces_of_users():
    spaces = "numpy lax nn lang lang.tpu random scipy.stats.norm tree errors experimental.sparse interop.torch sharding"
    assert {f"tilewright.{name}" for name in spaces.split()} <= {*NAMESPACES}
    assert len(NAMESPACES) > 90


def test_star_imports_and_the_names_of_other_packages():
    assert "ExitStack" not in public_names("tilewright.numpy", imports=True)
    assert {"sin", "fft", "linspace", "__array_namespace_info__"} <= set(public_names("tilewright.numpy", imports=True))
    assert public_names("tilewright.flatten_util", imports=False) == ["ravel_pytree"]


def test_names_are_written_at_the_end_or_in_place():
    assert with_names("x = 1\n", ["x"]) == f'x = 1\n\n__all__ = ["x"]\n{DIR}\n'
    written = f'x = 1\n__all__ = ["x"]\n{DIR}\ny = 2\n'
    for own in ("", "__dir__ = __all__.copy\n", f"{DIR}\n"):  # absent, without its type, as it is written
        assert with_names(f'x = 1\n__all__ = ["y"]\n{own}y = 2\n', ["x"]) == written
    long = with_names("x = 1\n", [f"name{n}" for n in range(40)])
    assert max(map(len, long.splitlines())) <= 120 and "# fmt: skip" in long
