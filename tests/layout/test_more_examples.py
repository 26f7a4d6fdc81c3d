"""The smaller examples: each learns something in a few steps, and what it says of itself is right."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
from examples import cnn, diffusion, gaussian_process, machine_code, reinforcement
from tests.support.paths import ROOT
from tilewright import random


def test_the_convolutional_network_learns():
    params, losses = cnn.train(seed=0, epochs=2)
    counts = cnn.confusion(params, *cnn.load(0)[2:])
    assert losses[-1] < 0.5 * losses[0] and counts.sum() == 448 and np.trace(counts) > 0.8 * 448


def test_the_gaussian_process_agrees_with_its_formula():
    with tw.config(enable_x64=True):
        x, y = gaussian_process.data(12)
        params, places = np.log([1.2, 0.7, 0.3]), np.linspace(-3, 3, 5)
        mean, deviation = map(np.asarray, gaussian_process.predict(params, x, y, places))
        kernel = lambda a, b: 1.44 * np.exp(-0.5 * ((a[:, None] - b) / 0.7) ** 2)  # noqa: E731
        inverse = np.linalg.inv(kernel(x, x) + (0.09 + 1e-6) * np.eye(12))
        across = kernel(places, x)
        assert np.allclose(mean, across @ inverse @ y)
        assert np.allclose(deviation**2, 1.44 - np.einsum("ij,jk,ik->i", across, inverse, across))
        likely = -0.5 * (y @ inverse @ y - np.linalg.slogdet(inverse)[1] + 12 * np.log(2 * np.pi)) / 12
        assert np.allclose(-gaussian_process.surprise(params, x, y), likely)
        found, value = gaussian_process.fit(x, y)
        assert value < -likely and np.all(np.isfinite(found))


def test_the_cart_is_balanced_longer_after_some_steps():
    lengths = reinforcement.train(seed=0, steps=12)
    assert np.mean(lengths[-3:]) > 2 * lengths[0]


def test_advantages_are_sums_of_what_was_better_than_expected():
    values, over, last = np.float32([[1.0], [2.0], [3.0]]), np.array([[False], [True], [False]]), np.float32([4.0])
    better = 1 + 0.99 * np.float32([2, 0, 4]) - np.float32([1, 2, 3])
    want = [better[0] + 0.99 * 0.95 * better[1], better[1], better[2]]
    assert np.allclose(np.asarray(reinforcement.advantages(values, over, last))[:, 0], want)


def test_the_diffusion_model_learns_and_draws(tmp_path):
    params, losses = diffusion.train(seed=0, steps=200)
    assert np.mean(losses[-20:]) < 0.6 * np.mean(losses[:5])
    images = np.asarray(diffusion.drawn(params, random.key(0), np.arange(10)))
    assert images.shape == (10, 64) and images.min() >= 0 and images.max() <= 1
    diffusion.picture(tmp_path / "new" / "digits.png", images, 5)
    assert (tmp_path / "new" / "digits.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name, library, options", [
    ("onnx_digits", "onnx", ["--epochs", "1"]), ("torch_autograd", "torch", ["--steps", "5"]),
    ("transformer", "optax", ["--steps", "60"]), ("hamiltonian", "blackjax", ["--samples", "200"]),
    ("neural_ode", "diffrax", ["--steps", "5"]),
])  # fmt: skip
def test_examples_with_other_libraries(root, name, library, options):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    command = [sys.executable, str(root / "examples" / f"{name}.py"), *options]
    environment = {"PYTHONPATH": f"{root / 'src'}:{root}", "PATH": "/usr/bin:/bin", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_kernels_as_machine_code_equal_the_expressions(monkeypatch):
    monkeypatch.setattr(machine_code, "ROWS", 256)
    monkeypatch.setattr(machine_code, "QUERIES", (1, 128, 2, 64))
    pairs = machine_code.pairs()
    assert len(pairs) == 4
    for kernel, expression, operands in pairs.values():
        ours, xla = machine_code.measure(kernel, expression, operands, 0.01)
        assert 0 < ours < np.inf and 0 < xla < np.inf


def test_examples_start_from_any_folder(tmp_path):
    for example in ("cnn", "diffusion", "machine_code", "onnx_digits"):
        script = ROOT / "examples" / f"{example}.py"
        command = [sys.executable, script, "--help"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and "usage: " in done.stdout, done.stderr
