"""Networks read from ONNX: every operator on the cases that the package onnx has for it."""

from collections import Counter

import numpy as np
import pytest

import tilewright as tw
from tilewright.core.ir.binding import under
from tilewright.core.support.errors import ArgumentError, UnsupportedError
from tilewright.core.tracing.numpy_interpreter import NUMPY

onnx = pytest.importorskip("onnx")

from tilewright.interop.onnx import load  # noqa: E402
from tilewright.interop.onnx_operators import OPERATORS  # noqa: E402

# What a graph may compute from its inputs, and a compiled program must know: these cases have it as constants.
SIZES = {"axes", "axis", "delta", "depth", "ends", "k", "limit", "new_shape", "pads", "r", "repeats", "roi", "scales",
         "shape", "sizes", "split", "start", "starts", "steps", "t", "training_mode"}  # fmt: skip
REFUSED = ("older than", "is not here", "are not here", "training mode")


def cases():
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        if case.model is not None and "_expanded" not in case.name:
            if {n.op_type for n in case.model.graph.node} <= OPERATORS.keys():
                yield case


def with_constants(case, operands):
    """The model with its sizes as constants, and the rest of the operands."""
    model, kept = type(case.model)(), []
    model.CopyFrom(case.model)
    inputs = list(model.graph.input)
    del model.graph.input[:]
    for value, given in zip(inputs, operands, strict=True):
        size = value.name in SIZES or model.graph.node[0].op_type in ("ConstantOfShape", "Tile")
        if size and (value.name in SIZES or given.dtype.kind == "i"):
            model.graph.initializer.append(onnx.numpy_helper.from_array(given, value.name))
        else:
            model.graph.input.append(value)
            kept.append(given)
    if model.graph.node[0].op_type in ("And", "Not", "Or", "Xor"):  # which are since version 7 as they are
        model.opset_import[0].version = max(model.opset_import[0].version, 13)
    return model, kept


def array_of(x):
    return onnx.numpy_helper.to_array(x) if hasattr(x, "data_type") else np.asarray(x)


def check(case):
    """Compare what a case wants with what is found; gives why it is refused, or ""."""
    for operands, wanted in case.data_sets:
        operands = [array_of(x) for x in operands]
        model, kept = with_constants(case, operands)
        try:
            found = under(NUMPY, load(model), *kept)  # the network below is compiled
        except UnsupportedError as error:
            return str(error)
        for a, b in zip(found if isinstance(found, tuple) else (found,), map(array_of, wanted), strict=True):
            a = np.asarray(a)
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            loose = 2e-2 if b.dtype.itemsize < 4 and b.dtype.kind not in "iub" else 1e-3
            if b.dtype.kind in "iub":
                assert np.array_equal(a, b)
            else:
                assert np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=loose, atol=1e-6, equal_nan=True)
    return ""


@pytest.mark.filterwarnings("ignore")  # of NumPy, while onnx makes its cases
@pytest.mark.parametrize("most", [1, pytest.param(1000, marks=pytest.mark.targets)])
def test_every_operator_agrees_with_cases_of_onnx(most):
    wrong, refused, right, seen, counts = [], [], 0, set(), Counter()
    with tw.config(enable_x64=True):
        for case in cases():
            counts[case.model.graph.node[0].op_type] += 1
            if counts[case.model.graph.node[0].op_type] > most:
                continue
            types = [t for value in case.model.graph.input for t in (value.type.tensor_type.elem_type,)]
            outs = [value.type.tensor_type.elem_type for value in case.model.graph.output]
            if any(t not in (*range(1, 8), 9, 10, 11, 12, 13, 16) for t in [*types, *outs]):
                counts[case.model.graph.node[0].op_type] -= 1
                continue  # strings, and floats of 8 and integers of 4 bits, which ONNX rounds in its own ways
            try:
                why = check(case)
            except Exception as error:  # all of them are told
                wrong.append((case.name, repr(error)[:300]))
                continue
            right += not why
            counts[case.model.graph.node[0].op_type] -= bool(why)
            seen |= set() if why else {n.op_type for n in case.model.graph.node}
            refused += [(case.name, why)] if why else []
    assert not wrong
    assert not [pair for pair in refused if not any(word in pair[1] for word in REFUSED)]
    assert right > (100 if most < 10 else 500) and not OPERATORS.keys() - seen, OPERATORS.keys() - seen


def network():
    """A convolution, a batch norm, a pooling, a reshape by the input's own size, and a linear layer."""
    h, rng = onnx.helper, np.random.default_rng(0)
    tensors = {
        "w": rng.standard_normal((4, 1, 3, 3)).astype(np.float32), "scale": np.ones(4, np.float32),
        "bias": np.zeros(4, np.float32), "mean": np.zeros(4, np.float32), "variance": np.ones(4, np.float32),
        "last": rng.standard_normal((64, 10)).astype(np.float32), "zero": np.array([0]), "rest": np.array([-1]),
    }  # fmt: skip
    nodes = [
        h.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        h.make_node("BatchNormalization", ["a", "scale", "bias", "mean", "variance"], ["b"]),
        h.make_node("Relu", ["b"], ["c"]),
        h.make_node("MaxPool", ["c"], ["d"], kernel_shape=[2, 2], strides=[2, 2]),
        h.make_node("Shape", ["d"], ["shape"]), h.make_node("Gather", ["shape", "zero"], ["batch"]),
        h.make_node("Concat", ["batch", "rest"], ["to"], axis=0), h.make_node("Reshape", ["d", "to"], ["e"]),
        h.make_node("Gemm", ["e", "last"], ["y"]),
    ]  # fmt: skip
    value = lambda name, *shape: h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)  # noqa: E731
    graph = h.make_graph(nodes, "digits", [value("x", "n", 1, 8, 8)], [value("y", "n", 10)],
                         [onnx.numpy_helper.from_array(v, k) for k, v in tensors.items()])  # fmt: skip
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])


def test_a_network_is_a_function_like_any_other(tmp_path):
    from onnx.reference import ReferenceEvaluator

    onnx.save(network(), tmp_path / "digits.onnx")
    found = load(tmp_path / "digits.onnx")
    x = np.random.default_rng(1).standard_normal((5, 1, 8, 8)).astype(np.float32)
    (want,) = ReferenceEvaluator(network()).run(None, {"x": x})
    assert np.allclose(tw.jit(found)(x), want, rtol=1e-4, atol=1e-4) and np.allclose(found(x=x), want, atol=1e-4)
    assert "9 nodes" in repr(found) and sorted(found.parameters)[0] == "bias"
    loss = tw.jit(lambda p: (found.apply(p, x) ** 2).mean())
    slope = tw.grad(loss)(found.parameters)
    moved = {name: p - 1e-3 * slope[name] for name, p in found.parameters.items()}
    assert loss(moved) < loss(found.parameters)
    (again,) = ReferenceEvaluator(found.model(moved)).run(None, {"x": x})
    assert np.allclose(found.apply(moved, x), again, rtol=1e-4, atol=1e-4)
    each = tw.vmap(lambda x: found(x[None])[0])(x)
    assert np.allclose(each, want, rtol=1e-4, atol=1e-4)


def test_what_is_wrong_is_named(tmp_path):
    h = onnx.helper
    with pytest.raises(ArgumentError, match="no ONNX model"):
        load(b"\xff\xff")
    with pytest.raises(ArgumentError, match="cannot be read"):
        load(tmp_path / "none.onnx")
    with pytest.raises(ArgumentError, match=r"given 2 by position(.|\n)*its inputs are x"):
        load(network())(1, 2)
    with pytest.raises(ArgumentError, match="z by name"):
        load(network())(z=1)
    value = h.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2,))
    shape = h.make_tensor_value_info("s", onnx.TensorProto.INT64, (1,))
    made = lambda node, *inputs: h.make_model(h.make_graph([node], "g", inputs, [value]))  # noqa: E731
    with pytest.raises(UnsupportedError, match="GRU of ai.onnx"):
        load(made(h.make_node("GRU", ["x", "x", "x"], ["y"], hidden_size=1), value))
    reshape = load(made(h.make_node("Reshape", ["x", "s"], ["x2"]), value, shape))
    with pytest.raises(UnsupportedError, match="the shape is computed from the inputs"):
        reshape(np.ones(2, np.float32), np.array([2]))
