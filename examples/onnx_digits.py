"""Read a network from an ONNX file, train it here on the handwritten digits, and write it back for others.

    python examples/onnx_digits.py                    (needs onnx: pip install 'tilewright[onnx]')

The file is a small residual network as other frameworks export one: convolutions, batch norms, a pooling, a reshape by
the batch's own size, a linear layer. What is written back is compared with ONNX's own interpreter in NumPy.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import tilewright as tw
from digits import load as load_digits
from tilewright import nn
from tilewright.example_libraries import optimizers
from tilewright.interop import onnx as interop
from tilewright.numpy import take_along_axis

CHANNELS, BATCH, RATE = 16, 64, 2e-3


def untrained(seed: int = 0) -> onnx.ModelProto:
    """The network with random weights, for images (batch, 1, 8, 8)."""
    h, rng, weights, nodes = onnx.helper, np.random.default_rng(seed), {}, []

    def weight(name, *shape):
        fan = int(np.prod(shape[1:]))
        weights[name] = (rng.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32)

    def convolution(x, y, given):
        weight(f"{y}.weight", CHANNELS, given, 3, 3)
        for part, value in (("scale", 1.0), ("bias", 0.0), ("mean", 0.0), ("variance", 1.0)):
            weights[f"{y}.{part}"] = np.full(CHANNELS, value, np.float32)
        nodes.append(h.make_node("Conv", [x, f"{y}.weight"], [f"{y}.plain"], pads=[1, 1, 1, 1]))
        norm = [f"{y}.plain", *(f"{y}.{part}" for part in ("scale", "bias", "mean", "variance"))]
        nodes.append(h.make_node("BatchNormalization", norm, [y]))

    convolution("image", "first", 1)
    nodes.append(h.make_node("Relu", ["first"], ["a"]))
    convolution("a", "second", CHANNELS)
    nodes.append(h.make_node("Add", ["a", "second"], ["sum"]))
    nodes.append(h.make_node("Relu", ["sum"], ["b"]))
    nodes.append(h.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]))
    weights.update(zero=np.array([0]), rest=np.array([-1]), bias=np.zeros(10, np.float32))
    weight("last", 10, CHANNELS * 16)
    nodes += [
        h.make_node("Shape", ["c"], ["shape"]), h.make_node("Gather", ["shape", "zero"], ["batch"]),
        h.make_node("Concat", ["batch", "rest"], ["flat"], axis=0), h.make_node("Reshape", ["c", "flat"], ["d"]),
        h.make_node("Gemm", ["d", "last", "bias"], ["scores"], transB=1),
    ]  # fmt: skip
    value = lambda name, *shape: h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)  # noqa: E731
    tensors = [onnx.numpy_helper.from_array(v, name) for name, v in weights.items()]
    graph = h.make_graph(nodes, "digits", [value("image", "n", 1, 8, 8)], [value("scores", "n", 10)], tensors)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


def train(network, seed: int, epochs: int):
    """The parameters of a network after some epochs, and the loss of every step."""
    images, labels, _, _ = load_digits(seed)
    opt = optimizers.adam(RATE)

    def loss(params, x, y):
        scores = nn.log_softmax(network.apply(params, x.reshape(-1, 1, 8, 8)))
        return -take_along_axis(scores, y[:, None], axis=1).mean()

    @tw.jit
    def step(i, state, x, y):
        params = opt.params_fn(state)
        value, grads = tw.value_and_grad(loss)(params, x, y)
        fixed = {name: 0 * g if name.endswith((".mean", ".variance")) else g for name, g in grads.items()}
        return opt.update_fn(i, fixed, state), value

    state, losses, rng = opt.init_fn(network.parameters), [], np.random.default_rng(seed)
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for start in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            state, value = step(len(losses), state, images[chosen], labels[chosen])
            losses.append(value)
    return opt.params_fn(state), [float(v) for v in losses]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.onnx"
        onnx.save(untrained(), path)
        network = interop.load(path)
        print(network)
        params, losses = train(network, 0, options.epochs)
        onnx.save(network.model(params), path)
        _, _, images, labels = load_digits(0)
        (scores,) = ReferenceEvaluator(str(path)).run(None, {"image": images.reshape(-1, 1, 8, 8)})
    ours = np.asarray(tw.jit(network.apply)(params, images.reshape(-1, 1, 8, 8)))
    right = (scores.argmax(1) == labels).mean()
    print(f"loss {losses[0]:.2f} to {losses[-1]:.3f}; {right:.1%} of the test images are right")
    print(f"what was written back gives the same to within {np.abs(ours - scores).max():.1e} in ONNX's own interpreter")
    return 0 if np.allclose(ours, scores, atol=1e-3) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
