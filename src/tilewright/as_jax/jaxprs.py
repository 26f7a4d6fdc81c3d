"""jaxprs as clients read and build them: Programs, whose equations also answer by jax's names of parameters.

There is one class of programs here: open and closed jaxprs are both Programs. `view` gives a Program's equations
parameters that are read under either name (`params["jaxpr"]`), while `**params` gives those that `bind` takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.api.transformations import make_jaxpr as core_make_jaxpr
from ..core.ir import program as ir
from ..core.ir.passes import eliminate_dead
from ..core.primitives.control_flow.jit_primitive import jit_p
from ..core.primitives.control_flow.scan import scan_p
from ..core.primitives.control_flow.while_loop import while_p
from ..core.primitives.custom.checkpoint import checkpoint_p
from ..core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p
from ..core.support.errors import ArgumentTypeError
from ..core.tracing.trace import eval_program
from .jaxpr_printer import show_jaxpr

# jax's names of parameters that hold programs, where ours are others.
NAMES = {
    **dict.fromkeys((jit_p, checkpoint_p, scan_p), {"jaxpr": "program"}),
    **dict.fromkeys((custom_jvp_call_p, custom_vjp_call_p), {"call_jaxpr": "program"}),
    while_p: {"cond_jaxpr": "cond_program", "body_jaxpr": "body_program"},
}
_RENAMED = {"invars": "inputs", "outvars": "outputs", "constvars": "constants", "consts": "values"}
_OF_EQUATIONS = {"invars": "inputs", "outvars": "outputs", "source_info": "source"}


class Params(dict[str, Any]):
    """The parameters of an equation, which also answer by jax's names."""

    __slots__ = ("names",)

    def __init__(self, params: dict[str, Any], names: dict[str, str]):
        super().__init__(params)
        self.names: dict[str, str] = names

    def __missing__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return view(self[self.names[name]])

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(self.names.get(name, name), value)

    def pop(self, name: str, *default: Any) -> Any:
        return view(super().pop(self.names.get(name, name), *default))

    def copy(self) -> Params:
        return Params(self, self.names)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.names

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default


def view(program: Any) -> Any:
    """A Program as clients see it; anything else as it is."""
    if not isinstance(program, ir.Program) or type(program) is Jaxpr:
        return program
    eqns = [eqn.replace(params=Params(eqn.params, NAMES.get(eqn.primitive, {}))) for eqn in program.eqns]
    return Jaxpr._of(program, eqns)


def make_jaxpr(fun: Callable[..., Any], *args: Any, **options: Any) -> Callable[..., Any]:
    """`jax.make_jaxpr`: as that of this package, with jaxprs as clients see them."""
    made = core_make_jaxpr(fun, *args, **options)

    @functools.wraps(made)
    def traced(*args: Any, **kwargs: Any) -> Any:
        found = made(*args, **kwargs)
        return (view(found[0]), *found[1:]) if isinstance(found, tuple) else view(found)

    return traced


class _Closed(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, ir.Program)


class Jaxpr(ir.Program, metaclass=_Closed):
    """`jax.extend.core.Jaxpr`: a Program whose constants may lack their values."""

    __slots__ = ()

    def __init__(self, constvars: Sequence[Any] = (), invars: Sequence[Any] = (), outvars: Sequence[Any] = (),
                 eqns: Sequence[Any] = (), effects: Any = None, debug_info: Any = None, is_high: bool = False,
                 values: Sequence[Any] = (), name: str = "program"):  # fmt: skip
        super().__init__(invars, eqns, outvars, constvars, values, name)

    @classmethod
    def _of(cls, program: ir.Program, eqns: Sequence[Any]) -> Jaxpr:
        return cls(program.constants, program.inputs, program.outputs, eqns, values=program.values, name=program.name)

    def replace(self, **changes: Any) -> Jaxpr:
        """A copy with parts of it changed, under jax's names or ours."""
        inner = changes.pop("jaxpr", self)
        fields = {_RENAMED.get(name, name): value for name, value in changes.items()}
        found = {name: fields.get(name, getattr(inner, name)) for name in (*_RENAMED.values(), "eqns", "name")}
        return Jaxpr(found["constants"], found["inputs"], found["outputs"], found["eqns"], values=found["values"],
                     name=found["name"])  # fmt: skip

    @property
    def debug_info(self) -> None:
        return None

    def __repr__(self) -> str:
        return show_jaxpr(self, NAMES)

    def __str__(self) -> str:
        return repr(self)

    def pretty_print(self, **options: Any) -> str:
        """The text, of which the options change nothing."""
        return repr(self)


class ClosedJaxpr(metaclass=_Closed):
    """`jax.extend.core.ClosedJaxpr`: a jaxpr with the values of its constants."""

    def __new__(cls, jaxpr: Any, consts: Sequence[Any] = ()) -> Any:
        return Jaxpr._of(jaxpr, jaxpr.eqns).replace(values=tuple(consts))


def eval_jaxpr(jaxpr: Any, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True) -> list[Any]:
    """The results of a jaxpr, with values for its constants and inputs."""
    return eval_program(jaxpr.replace(values=tuple(consts)), *args)


def jaxpr_as_fun(closed: Any) -> Callable[..., list[Any]]:
    """The function that a closed jaxpr is."""

    def jaxpr_function(*args: Any) -> list[Any]:
        return eval_program(closed, *args)

    return jaxpr_function


def replaced_eqn(eqn: ir.Eqn, changes: dict[str, Any]) -> ir.Eqn:
    """A copy of an equation with parts of it changed, under jax's names or ours.

    Parameters that only jax has (`sharding` of `broadcast_in_dim`) are left out where they are None.
    """
    fields = {_OF_EQUATIONS.get(name, name): value for name, value in changes.items()}
    kept = {name: fields.pop(name, getattr(eqn, name)) for name in ir.Eqn.__slots__}
    if fields:
        raise ArgumentTypeError(f"an equation has no {', '.join(map(repr, fields))}", "jax's names are `invars`, "
                                "`outvars`, `primitive`, `params`, `effects` and `source_info`")  # fmt: skip
    if "params" in changes and isinstance(eqn.params, Params):
        known = {name: value for name, value in kept["params"].items() if value is not None or name in eqn.params}
        kept["params"] = Params({}, NAMES.get(kept["primitive"], {}))
        for name, value in known.items():
            kept["params"][name] = value
    return ir.Eqn(**kept)


def jaxprs_in_params(params: dict[str, Any]) -> list[Any]:
    """The jaxprs among an equation's parameters."""
    found: list[Any] = []
    for value in params.values():
        found += [view(x) for x in (value if isinstance(value, (tuple, list)) else (value,)) if isinstance(x, Jaxpr)]
    return found


def subjaxprs(jaxpr: Any) -> list[Any]:
    """The jaxprs among the parameters of a jaxpr's equations."""
    return [inner for eqn in jaxpr.eqns for inner in jaxprs_in_params(eqn.params)]


def dce_jaxpr(jaxpr: Any, used_outputs: Sequence[bool], instantiate: Any = False) -> tuple[Any, list[bool]]:
    """A jaxpr without the outputs that are not used, and which of its inputs it then uses."""
    program, used = eliminate_dead(jaxpr, list(used_outputs), keep_inputs=True)
    keep = [u or i for u, i in zip(used, [instantiate] * len(used) if isinstance(instantiate, bool) else instantiate)]
    inputs = [v for v, k in zip(program.inputs, keep, strict=True) if k]
    # A caller passes the constants that it has, used or not.
    return view(program.replace(inputs=inputs, constants=jaxpr.constants, values=jaxpr.values)), keep


def new_jaxpr_eqn(invars: Any, outvars: Any, primitive: Any, params: Any, effects: Any = None, source_info: Any = None,
                  ctx: Any = None) -> ir.Eqn:  # fmt: skip
    """An equation."""
    return ir.Eqn(primitive, invars, outvars, Params(params, NAMES.get(primitive, {})),
                  ir.NO_EFFECTS if effects is None else effects, source_info)  # fmt: skip
