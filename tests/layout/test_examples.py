"""The examples' parts: the digits' kernel is right, its gradient too, and what trains learns."""

import argparse
import importlib.util
import runpy
import signal
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from examples import digits, gpt
from tilewright import random
from tilewright.tuning import Trial


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
    trials = [Trial({"tile": (64, 64, 64)}, 1e-3, 0.0, None), Trial(digits.DEFAULT, 2e-3, 0.0, None),
              Trial({"tile": (1, 1, 1)}, None, None, "too slow")]  # fmt: skip
    digits.picture(path, [2.0, 1.0, 0.5, 0.4], [0.8, 0.9], {"a": 1.0, "b": 2.0}, trials)
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


@pytest.mark.parametrize("path", sorted(Path(gpt.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_ctrl_c_ends_an_example_with_one_line(path, monkeypatch):
    source = path.read_text()
    if any(library in source for library in ("as_jax", "import onnx", "import torch")):
        assert 'sys.exit("interrupted")' in source
        return

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", interrupted)
    with pytest.raises(SystemExit, match="^interrupted$"):
        runpy.run_path(str(path), run_name="__main__")


def test_what_to_install_is_shown_whole():
    console = Console(width=120, record=True)
    console.print(digits.devices_table({"tpu:v5e": "not compiled: pip install 'tilewright[tpu]'"}))
    assert "pip install 'tilewright[tpu]'" in console.export_text()


# ------------------------------------------------------------------------------------------------------- the GPT


@pytest.fixture
def small(monkeypatch):
    sizes = dict(LAYERS=1, HEADS=2, WIDTH=32, CONTEXT=32, BATCH=8, WARM_UP=5, EVERY=20, WRITTEN=20)
    for name, size in sizes.items():
        monkeypatch.setattr(gpt, name, size)


def test_book_is_whole():
    text = gpt.Text()
    assert len(text.letters) == 77 and len(text.train) + len(text.test) == 561456
    assert text.show(text.train[:21]) == "A SCANDAL IN BOHEMIA\n" and text.show(text.test[-13:]) == "ble success.\n"
    assert 2.3 < gpt.bigram_loss(text) < 2.4


def test_gpt_learns_and_writes(small, tmp_path: Path):
    text = gpt.Text()
    params, losses, tested, _ = gpt.train(text, seed=0, steps=40)
    assert losses[0] > 4.2 and np.mean(losses[-5:]) < 3.2 and list(tested) == [20, 40] and tested[40] < 3.2
    again = gpt.train(text, seed=0, steps=3)[1]
    assert gpt.train(text, seed=0, steps=3)[1] == again and again[0] == losses[0]
    written = np.asarray(gpt.write(params, random.key(0), text.test[: gpt.CONTEXT]))
    assert written.shape == (20,) and 0 <= written.min() and written.max() < 77
    gpt.picture(tmp_path / "deep" / "gpt.png", losses, tested, 2.3, text.show(written))
    assert (tmp_path / "deep" / "gpt.png").read_bytes().startswith(b"\x89PNG")


def test_gpt_that_is_stopped_goes_on_as_if_nothing_had_happened(small, tmp_path: Path, monkeypatch):
    text, step = gpt.Text(), gpt.make_step

    def interrupted(steps):
        run, count = step(steps), 0

        def counted(*args):
            nonlocal count
            count += 1
            if count == 3:
                signal.raise_signal(signal.SIGINT)
            return run(*args)

        return counted

    wanted = gpt.train(text, seed=0, steps=6)[1]
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(gpt, "make_step", interrupted)
    assert len(gpt.train(text, seed=0, steps=6, kept=tmp_path / "kept")[1]) == 3
    assert signal.getsignal(signal.SIGINT) is before
    monkeypatch.setattr(gpt, "make_step", step)
    assert gpt.train(text, seed=0, steps=6, kept=tmp_path / "kept", resume=True)[1] == wanted
    with pytest.raises(SystemExit, match="no checkpoint"):
        gpt.train(text, seed=0, steps=6, kept=tmp_path / "none", resume=True)


def test_gpt_sees_only_letters_before(small):
    params = gpt.initial(random.key(0), 77)
    codes = np.arange(64, dtype=np.int32).reshape(2, 32)
    changed = codes.copy()
    changed[:, 20:] = 5
    before, after = (np.asarray(gpt.hidden(params, c)) for c in (codes, changed))
    np.testing.assert_allclose(before[:, :20], after[:, :20], rtol=1e-5, atol=1e-5)
    assert not np.allclose(before[:, 20:], after[:, 20:], atol=1e-2)
