"""One dispatcher for `jit`, operators, composites and single primitives; threads in their own configurations."""

import gc
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.jit import dispatch_cache
from tilewright.core.support.config import current
from tilewright.core.support.errors import ArgumentError
from tilewright.xla_backend.arrays import transfer
from tilewright.xla_backend.execution import executable
from tilewright.xla_backend.execution.executable import Executable


def in_threads(count, act):
    """Run `act(number)` in threads at once; the errors they raised."""
    errors, barrier = [], threading.Barrier(count)

    def guarded(number):
        barrier.wait()
        try:
            act(number)
        except BaseException as error:  # noqa: BLE001
            errors.append(repr(error))

    threads = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads), "a thread hangs"
    return errors


@pytest.fixture
def fast_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


KINDS = {
    "operator": lambda x, f: x * 1.5,
    "operator with an array": lambda x, f: x * tnp.asarray(1.5),
    "jit": lambda x, f: f(x),
    "composite": lambda x, f: tnp.true_divide(x, 2.5),
    "reduction": lambda x, f: tnp.mean(x, dtype=float),
}


@pytest.mark.parametrize("kind", KINDS)
def test_threads_in_their_own_configurations_get_their_own_results(kind, fast_switches):
    x = tnp.ones((4,), dtype="int32")
    f = tw.jit(lambda x: x * 1.5 + 1)
    wrong = []

    def act(number):
        wanted = ("float32", "float64")[number % 2]
        with tw.config(enable_x64=bool(number % 2)):
            for _ in range(250):
                found = KINDS[kind](x, f).dtype
                if found != wanted:
                    wrong.append((number, found))

    assert not in_threads(4, act)
    assert not wrong


def test_equal_configurations_are_one_object():
    with tw.config(enable_x64=True, residual_bytes=12345):
        first = current()
    with tw.config(residual_bytes=12345), tw.config(enable_x64=True):
        assert current() is first
    assert current() is not first


def test_a_setting_that_there_is_not():
    assert not hasattr(tw.config, "x") and not hasattr(tw.config, "jax_x")
    assert hasattr(tw.config, "enable_x64") and hasattr(tw.config, "jax_enable_x64")


@pytest.fixture
def few(monkeypatch):
    """The tables of dispatch with room for 6."""
    for table in (dispatch_cache.RUNS, dispatch_cache.ENTRIES, dispatch_cache.BOUND):
        table.clear()
        monkeypatch.setattr(table, "limit", 6)


def test_eviction_under_threads(few, fast_switches):
    arrays = [tnp.ones(k + 1) for k in range(12)]

    def act(number):
        draw = random.Random(number)
        for _ in range(60):
            x = draw.choice(arrays)
            assert float(lax.cos(x)[0]) == pytest.approx(np.cos(1.0))
            assert float((x + x)[0]) == 2

    assert not in_threads(6, act)
    assert len(dispatch_cache.RUNS) <= 6


def test_runners_of_operators_are_bounded(few, monkeypatch):
    monkeypatch.setattr(executable._loaded, "limit", 6)
    tw.clear_caches()
    gc.freeze()  # what was made before is neither collected nor listed
    try:
        for k in range(12):
            x = tnp.asarray(np.ones(k + 1, np.float32))
            -x, x + x, tnp.sum(x)
        gc.collect()
        # Each of three tables may hold 6, and what a loop is at.
        assert 0 < sum(type(o) is Executable for o in gc.get_objects()) <= 24
    finally:
        gc.unfreeze()


def test_tracing_holds_no_lock():
    """A thread that holds what another one's trace waits for may call the same function."""
    lock, started, held = threading.RLock(), threading.Event(), threading.Event()
    found = []

    @tw.jit
    def f(x):
        started.set()
        held.wait(30)
        with lock:
            return x + 1

    def act(number):
        if number == 0:
            found.append(float(f(np.float32(1))))
            return
        started.wait(30)
        with lock:
            held.set()
            found.append(float(f(np.float32(2))))

    assert not in_threads(2, act)
    assert sorted(found) == [2, 3]


def test_traces_that_call_each_others_function():
    barrier = threading.Barrier(2)
    x = np.float32(3)

    def meet():
        try:
            barrier.wait(10)
        except threading.BrokenBarrierError:
            pass  # a trace that starts when the other is over meets nobody

    def make(other):
        def fun(x, depth):
            if depth == 1:
                meet()
                with tw.ensure_compile_time_eval():
                    y = functions[other](np.float32(1), 0)
                return x + y
            return x * 2

        return tw.jit(fun, static_argnums=1)

    functions = [make(1), make(0)]
    found = {}

    def act(number):
        found[number] = float(functions[number](x, 1))

    assert not in_threads(2, act)
    assert found == {0: 5, 1: 5}


def test_numbers_that_are_equal_and_differ():
    x = tnp.zeros(2) + 1
    for zero, sign in ((0.0, False), (-0.0, True), (0.0, False)):
        assert np.signbit(np.asarray(x * zero)).tolist() == [sign, sign]
    z = tnp.asarray(np.array([0, 0], np.complex64))
    for number, sign in ((complex(1, 0.0), False), (complex(1, -0.0), True), (complex(1, 0.0), False)):
        assert np.signbit(np.asarray(tnp.imag(z - 0 + number))).tolist()[0] in (sign, False)
        assert np.signbit(np.asarray(tnp.copysign(tnp.ones(1), tw.jit(tnp.imag)(tnp.asarray(number)))))[0] == sign
    assert (x + True).dtype == x.dtype and (x + 1).tolist() == [2, 2] and (x + 1.0).tolist() == [2, 2]
    assert np.isnan(np.asarray(x + float("nan"))).all()
    i = tnp.arange(3)
    assert (i * 1).dtype == "int32" and (i * 1.0).dtype == "float32" and (i * True).dtype == "int32"


def test_composites_by_position_by_name_and_by_many_numbers():
    x = tnp.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    for _ in range(3):  # the general path, what it remembers, and the generated code
        assert tnp.sum(x).tolist() == 15
        assert tnp.sum(x, 0).tolist() == [3, 5, 7] == tnp.sum(x, axis=0).tolist()
        assert tnp.sum(x, 1).tolist() == [3, 12]
        assert tnp.sum(x, (0, 1)).tolist() == 15
        assert tnp.clip(x, 1, 4).tolist() == [[1, 1, 2], [3, 4, 4]]
        assert tnp.clip(x, 2.5, None).tolist() == [[2.5, 2.5, 2.5], [3, 4, 5]]
        assert tnp.logaddexp(x, x).shape == (2, 3)
        assert tnp.concatenate([x, x]).shape == (4, 3)
        assert tw.vmap(lambda r: tnp.sum(r, 0))(x).tolist() == [3, 12]
        assert tw.grad(lambda x: tnp.sum(tnp.clip(x, 1, 4)))(x).shape == (2, 3)
    with pytest.raises(TypeError):
        tnp.sum(x, 0, axis=0)


def test_calls_after_the_caches_are_cleared():
    x = tnp.ones(3)
    with ThreadPoolExecutor(4) as pool:

        def act(number):
            if number % 10 == 0:
                tw.clear_caches()
            return float((x + x)[0]) + float(tnp.sum(x)) + float(tw.jit(lambda x: x * number)(x)[0])

        assert list(pool.map(act, range(60))) == [5.0 + n for n in range(60)]


def test_an_operator_leaves_what_has_no_truth_value_to_its_own():
    class Near:
        def __bool__(self):
            raise AssertionError("no truth value")

        def __eq__(self, other):
            return "near"

        __array_ufunc__ = None

    for x in (tnp.ones(2), tnp.ones(2)[0]):
        assert (x == Near()) == "near"
    assert tnp.ones(2)[0] == pytest.approx(1.0)


def test_device_get_leaves_traced_values():
    assert tw.jit(lambda x: tw.device_get({"x": x})["x"] + 1)(1.0) == 2.0


# ------------------------------------------------------------ NumPy arguments


@pytest.mark.parametrize("x64", [False, True])
def test_numpy_arguments_are_told_apart_by_dtype_shape_and_configuration(x64):
    f = tw.jit(lambda x, y: (x + 1, y))
    rng = np.random.default_rng(0)
    dtypes = ["float32", "float64", "int64", "int8", "bool", "complex64"]
    with tw.config(enable_x64=x64):
        for _ in range(3):
            for dtype in dtypes:
                for shape in [(), (3,), (2, 3), (0,)]:
                    x = np.array(rng.integers(0, 2, shape)).astype(dtype)
                    wanted = tnp.asarray(x) + 1
                    got, same = f(x, tnp.asarray(x))
                    assert got.dtype == wanted.dtype and got.shape == wanted.shape
                    assert np.array_equal(got, wanted) and np.array_equal(same, x)


def test_later_writes_to_a_numpy_argument_do_not_reach_its_buffer():
    memory = np.zeros(4096 * 4 + 64, np.uint8)
    x = memory[-memory.ctypes.data % 64 :][: 4096 * 4].view(np.float32)  # aligned, so that it could be shared
    x[:] = 1
    buffer = transfer.copy(x, tw.typeof(x))
    x[:] = 7
    assert np.all(transfer.as_numpy(buffer, tw.typeof(x)) == 1)


def test_numpy_arguments_may_be_donated_and_mixed_with_others():
    f = tw.jit(lambda x, y: x + y, donate_argnums=0)
    a, x = tnp.ones(4), np.ones(4, np.float32)
    for _ in range(3):
        assert f(x, a).tolist() == f(x, x).tolist() == f(x, 1.0).tolist() == [2.0] * 4
    assert f(y=a, x=x).tolist() == [2.0] * 4
    assert x.tolist() == [1.0] * 4


def test_subclasses_of_numpy_arrays_take_the_general_path():
    class Mine(np.ndarray):
        pass

    f = tw.jit(lambda x: x * 2)
    x = np.ones(3, np.float32)
    for _ in range(3):
        assert f(x).tolist() == f(x.view(Mine)).tolist() == [2.0] * 3
    with pytest.raises(ArgumentError, match="masked"):
        f(np.ma.masked_array(x, [True, False, False]))
