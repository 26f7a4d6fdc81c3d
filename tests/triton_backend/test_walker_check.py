"""The check of emitted modules notices what is wrong: modules with one thing changed are refused, or differ."""

import dataclasses
import functools
import re
from typing import Any

import numpy as np
import pytest

from tests.support.corpus import embedding, layer_norm, matmul_grid, reduction, saxpy
from tests.support.gpu import walker
from tests.support.gpu.walker import check_all, check_mosaic, check_triton, compare, kernels_of
from tilewright.core.support.errors import KernelError
from tilewright.core.tracing.numpy_interpreter import evaluate

CHECKS = {"triton": check_triton, "mosaic": check_mosaic}
KERNELS = {k.__name__.split(".")[-1]: k for k in (saxpy, layer_norm, matmul_grid, reduction, embedding)}
PLACES = {"triton": (walker, "triton_module"), "mosaic": (walker, "mosaic_module")}

# What is changed: a pattern, what it becomes, and in which backend's text there must be at least one.
CHANGES = [
    ("addition", r"arith\.addf", "arith.subf", ("triton", "mosaic")),
    ("product", r"arith\.mulf", "arith.addf", ("triton", "mosaic")),
    ("offset", r"arith\.muli", "arith.addi", ("triton",)),
    ("mask", r"arith\.cmpi slt,", "arith.cmpi sle,", ("triton",)),
    ("no mask", r"arith\.cmpi slt,", "arith.cmpi sge,", ("triton",)),
    ("program id", r"tt\.get_program_id x", "tt.get_program_id z", ("triton",)),
    ("grid", r"iteration_bounds = array<i64: (\d+)", r"iteration_bounds = array<i64: 1\1", ("mosaic",)),
]


def case(name: str) -> tuple[Any, list[np.ndarray]]:
    kernel = KERNELS[name]
    size = kernel.SIZES[1]
    arrays = kernel.make(np.random.default_rng(0), *size.dims)
    ((found, operands),) = kernels_of(functools.partial(kernel.call, **size.blocks), *arrays)
    return found, operands


@pytest.mark.parametrize("backend", CHECKS)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_equal_their_meaning_in_any_order(name, backend):
    kernel, arrays = case(name)
    for order in (None, np.random.default_rng(1)):
        CHECKS[backend](kernel, *arrays, order=order)


@pytest.mark.parametrize("backend", CHECKS)
def test_every_change_is_noticed(backend, monkeypatch):
    place, attribute = PLACES[backend]
    emit = getattr(place, attribute)
    changed = set()
    for name in KERNELS:
        kernel, arrays = case(name)
        for what, pattern, replacement, where in CHANGES:
            if backend not in where:
                continue

            def altered(*args: Any, p: str = pattern, r: str = replacement, **options: Any) -> Any:
                module = emit(*args, **options)
                return dataclasses.replace(module, text=re.sub(p, r, module.text))

            if altered(kernel, _target(backend)).text == emit(kernel, _target(backend)).text:
                continue
            changed.add(what)
            with monkeypatch.context() as patch:
                patch.setattr(place, attribute, altered)
                with pytest.raises((AssertionError, KernelError)):
                    CHECKS[backend](kernel, *arrays)
    assert changed == {what for what, _, _, where in CHANGES if backend in where}


def _target(backend: str) -> Any:
    from tilewright.lang.targets.target import target_of

    return target_of({"triton": "cuda:sm_90", "mosaic": "tpu:v5e"}[backend])


def test_comparison_allows_rounding_and_nothing_more():
    x = np.array([1.0, 2.0, np.nan], np.float32)
    compare([x * np.float32(1 + 1e-6)], [x], "k")
    for wrong in (x * np.float32(1.001), np.nan_to_num(x), x.astype(np.float64), x[:2]):
        with pytest.raises(AssertionError):
            compare([wrong], [x], "k")
    with pytest.raises(AssertionError):
        compare([np.array([1, 2])], [np.array([1, 3])], "k")


def test_kernels_of_a_function_and_of_its_gradient():
    import tilewright as tw

    x, y = saxpy.make(np.random.default_rng(0), 12)
    assert [k.name for k, _ in kernels_of(saxpy.call, x, y)] == ["saxpy"]
    gradient = tw.grad(lambda x, y: (saxpy.call(x, y) ** 2).sum(), (0, 1))
    found = kernels_of(gradient, x, y)
    assert len(found) >= 2
    assert check_all(check_mosaic, gradient, x, y) == check_all(check_triton, gradient, x, y) == len(found)
    for kernel, arrays in found:
        assert [a.shape for a in arrays] == [t.shape for t in kernel.in_types]


def test_what_surrounds_the_call_is_part_of_it():
    kernel, arrays = case("matmul_grid")
    module = walker.mosaic_module(kernel, _target("mosaic"))
    assert module.prepare is not None  # 7 x 11 x 5: odd shapes are padded
    taken = evaluate(module.prepare, *arrays)
    assert [np.shape(t) for t in taken] == [t.shape for t in module.in_types]
