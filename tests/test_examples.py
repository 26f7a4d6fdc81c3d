"""The demo's parts: its kernel is right, its gradient too, and training goes down."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from examples import digits


def test_kernel_agrees_with_numpy():
    assert digits.forward_error() < 1e-5


def test_gradient_agrees_with_differences():
    assert digits.gradient_error() < 1e-6


def test_training_learns():
    losses, accuracies, _ = digits.train(seed=0, epochs=3)
    assert np.mean(losses[-10:]) < 0.75 * np.mean(losses[:2])
    assert accuracies[-1] > 0.6


def test_data_is_whole():
    images, labels, test_images, test_labels = digits.load(seed=0)
    assert images.shape == (1349, 64) and test_images.shape == (448, 64)
    counts = np.bincount(np.concatenate([labels, test_labels]))
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert 0 <= images.min() and images.max() == 1


def test_picture(tmp_path: Path):
    path = tmp_path / "deep" / "digits.png"
    digits.picture(path, [2.0, 1.0, 0.5, 0.4], [0.8, 0.9], {"a": 1.0, "b": 2.0})
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "target, package, words",
    [("tpu:v5e", "libtpu", ("VMEM",)), ("cuda:sm_90", "triton", ("shared memory", "registers"))],
)
def test_the_kernel_compiles_for_devices_that_are_not_here(target, package, words):
    found = digits.abroad(target, 256)
    if importlib.util.find_spec(package) is None:
        assert "pip install" in found
    else:
        assert all(word in found for word in words)
