"""Networks in ONNX files as functions of this package: compiled, differentiated, batched like any other.

    from tilewright.interop import onnx
    network = onnx.load("network.onnx")
    scores = tilewright.jit(network)(images)
    tilewright.grad(lambda p: loss(network.apply(p, images)))(network.parameters)

The format is that of https://onnx.ai/onnx/repo-docs/IR.html, the operators those of its default domain (see
`onnx_operators`), versions 13 and later. Integers among a file's constants are known while a program is traced, as
sizes and axes must be; other constants are the parameters.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.support.errors import ArgumentError, UnsupportedError, VersionError
from ..numpy import asarray
from .onnx_operators import KNOWN, OPERATORS, Node

if TYPE_CHECKING:
    from ..core.ir.array import Array


__all__ = ["Network", "load"]
__dir__: Callable[[], list[str]] = __all__.copy

OLDEST = 13  # of the operators' versions: since then axes are operands


def _onnx() -> Any:
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise VersionError("onnx is not installed", "pip install 'tilewright[onnx]'") from None


class Network:
    """A function read from an ONNX model: of its inputs, in their order or by their names.

    Attributes:
      inputs: the names of the inputs.
      outputs: the names of the outputs; a call gives an array if there is one, else a tuple.
      parameters: the arrays of the file by their names, but for integers and what says a size.
    """

    proto: Any
    name: Any
    version: Any

    def __init__(self, model: Any):
        onnx = _onnx()
        self.proto, graph = model, model.graph
        version = max([o.version for o in model.opset_import if o.domain in ("", "ai.onnx")], default=0)
        if version < OLDEST:
            raise UnsupportedError(f"the model has version {version} of ONNX's operators, older than {OLDEST}",
                                   f"use `onnx.version_converter.convert_version(model, {OLDEST})`")  # fmt: skip
        self.name, self.version = graph.name, version
        values = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
        places = {node.input[i] for node in graph.node for i in KNOWN.get(node.op_type, ()) if i < len(node.input)}
        self.known: dict[Any, Any] = {name: v for name, v in values.items() if v.dtype.kind in "iub" or name in places}
        self.parameters: dict[Any, Array] = {name: asarray(v) for name, v in values.items() if name not in self.known}
        self.inputs: tuple[Any, ...] = tuple(v.name for v in graph.input if v.name not in values)
        self.outputs: tuple[Any, ...] = tuple(v.name for v in graph.output)
        self.nodes: list[Node] = [self._node(node) for node in graph.node]

    def _node(self, proto: Any) -> Node:
        """A node as its operator takes it.

        Raises:
          UnsupportedError: the operator is not known here.
        """
        onnx = _onnx()
        domain = proto.domain or "ai.onnx"
        operator = OPERATORS.get(proto.op_type) if domain == "ai.onnx" else None
        if operator is None:
            raise UnsupportedError(f"the model uses {proto.op_type} of {domain} (node {proto.name!r}), not known here",
                                   "replace it in the model, or add a rule to onnx_operators.OPERATORS")  # fmt: skip
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
        given = {k: onnx.numpy_helper.to_array(v) if hasattr(v, "raw_data") else v for k, v in attributes.items()}
        given = {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}
        return Node(proto.op_type, operator, tuple(proto.input), tuple(proto.output), given, self.version)

    def apply(self, parameters: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The outputs for inputs and for other parameters than the file's.

        Raises:
          ArgumentError: an input is missing, or unknown. UnsupportedError: a size depends on the inputs' values.
        """
        given = {**dict(zip(self.inputs, args)), **kwargs}
        if len(args) + len(kwargs) != len(self.inputs) or given.keys() != set(self.inputs):
            told = [f"{len(args)} by position", *(f"{name} by name" for name in kwargs)]
            raise ArgumentError(f"the network {self.name!r} was given {', '.join(told)}",
                                f"its inputs are {', '.join(self.inputs)}")  # fmt: skip
        values: dict[str, Any] = {"": None, **self.known, **parameters, **{n: asarray(v) for n, v in given.items()}}
        for node in self.nodes:
            values.update(zip(node.outputs, node(*(values[name] for name in node.inputs))))
        results = tuple(asarray(values[name]) for name in self.outputs)
        return results[0] if len(results) == 1 else results

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply(self.parameters, *args, **kwargs)

    def model(self, parameters: Mapping[str, Any]) -> Any:
        """The `onnx.ModelProto` with other parameters, trained ones say."""
        onnx, found = _onnx(), type(self.proto)()
        found.CopyFrom(self.proto)
        for tensor in found.graph.initializer:
            if tensor.name in parameters:
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(parameters[tensor.name]), tensor.name))
        return found

    def __repr__(self) -> str:
        operators = sorted({node.name for node in self.nodes})
        size = sum(np.prod(p.shape, dtype=int) for p in self.parameters.values())
        return (f"Network({self.name!r}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}; "
                f"{len(self.nodes)} nodes of {', '.join(operators)}; {size:,} parameters)")  # fmt: skip


def load(model: str | os.PathLike[str] | bytes | Any) -> Network:
    """A network from an ONNX file, its bytes, or an `onnx.ModelProto`.

    Raises:
      VersionError: the package onnx is not installed. UnsupportedError: an operator is not known here, or too old.
      ArgumentError: it is no ONNX model.
    """
    onnx = _onnx()
    protobuf = importlib.import_module("google.protobuf.message")
    if not isinstance(model, onnx.ModelProto):
        try:
            model = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
            onnx.checker.check_model(model)
        except (OSError, onnx.checker.ValidationError) as error:
            raise ArgumentError(f"the ONNX model cannot be read: {error}", "give what `onnx.load` reads") from None
        except protobuf.DecodeError:
            raise ArgumentError("the bytes are no ONNX model", "give what `onnx.load` reads") from None
    return Network(model)
