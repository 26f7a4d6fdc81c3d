"""The one value that holds the process's state: its caches, parts and facts."""

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tilewright as tw
from tilewright.core.ir.types import ArrayType, VaryingType
from tilewright.core.support.memo import cached, once
from tilewright.core.support.runtime import CacheSize, Runtime, runtime


def test_cached_is_registered_cleared_and_counted():
    @cached(2)
    def double(x):
        return [x]

    name = f"{__name__}.{test_cached_is_registered_cleared_and_counted.__name__}.<locals>.double"
    first = double(1)
    assert double(1) is first
    double(2), double(3)
    assert runtime.cache_sizes()[name] == CacheSize(2, 2)
    tw.clear_caches()
    assert runtime.cache_sizes()[name] == CacheSize(0, 2)
    assert double(3) == [3]


def test_caches_do_not_outlive_their_function():
    def make():
        @cached()
        def short_lived(x):
            return x

        short_lived(1)
        return [name for name in runtime.cache_sizes() if name.endswith("short_lived")]

    assert make()
    gc.collect()
    assert not [name for name in runtime.cache_sizes() if name.endswith("short_lived")]


def test_a_fact_is_found_once_by_many_threads_and_stays():
    calls = []
    barrier = threading.Barrier(8)

    @once
    def fact():
        calls.append(1)
        return object()

    def ask(found):
        barrier.wait()
        found.append(fact())

    found = []
    threads = [threading.Thread(target=ask, args=(found,)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(calls) == 1 and len(set(map(id, found))) == 1
    tw.clear_caches()
    assert fact() is found[0]
    fact.cache_clear()
    assert fact() is not found[0]


def test_a_table_keeps_its_bound_under_threads():
    own = Runtime()
    table = own.cache("table", 16)
    errors = []

    def fill(seed):
        rng = np.random.default_rng(seed)
        try:
            for k in rng.integers(0, 64, 3000).tolist():
                assert table.keep(k, str(k)) == str(k)
                table.touch(k)
                assert len(table) <= 16
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=fill, args=(seed,)) for seed in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert own.cache_sizes() == {"table": CacheSize(16, 16)}
    own.clear_caches()
    assert own.cache_sizes() == {"table": CacheSize(0, 16)}


def test_a_table_forgets_what_was_used_longest_ago():
    table = Runtime().cache("table", 2)
    table.keep("a", 1)
    table.keep("b", 2)
    assert table.touch("a") == 1
    table.keep("c", 3)
    assert list(table) == ["a", "c"]
    assert table.keep("a", 9) == 1, "the first value entered stays"


def test_clear_caches_leaves_results_right():
    f = tw.jit(lambda x: x * 2)
    x = tw.numpy.ones(3)
    np.testing.assert_array_equal(f(x) + x, [3, 3, 3])
    tw.clear_caches()
    np.testing.assert_array_equal(f(x) + x, [3, 3, 3])


def test_a_static_argument_whose_equality_calls_the_function():
    """The user's code may run in the middle of a look-up; it may use what is looked up in."""

    class Awkward:
        def __hash__(self):
            return 7

        def __eq__(self, other):
            return float(f(np.float32(1), 3)) == 3 and self is other

    f = tw.jit(lambda x, k: x * (k if type(k) is int else 2), static_argnums=1)
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(lambda: float(f(np.float32(4), Awkward()))) for _ in range(4)]
        assert [r.result(60) for r in results] == [8.0] * 4


def test_types_go_with_their_last_user_and_stay_one_object_until_then():
    before = runtime.cache_sizes()["types.interned"].entries
    kept = ArrayType((17, 5), "float32")
    varying = VaryingType(kept, frozenset("x"))
    for n in range(2000):
        ArrayType((n, 17, 5), "float32")
    gc.collect()
    assert runtime.cache_sizes()["types.interned"].entries <= before + 2
    tw.clear_caches()
    assert ArrayType([17, 5], np.float32) is kept and VaryingType(kept, frozenset("x")) is varying


def test_threads_that_make_and_drop_one_type_never_see_two_at_once():
    barrier = threading.Barrier(4)

    def make(_):
        for n in range(3000):
            if n % 100 == 0:
                barrier.wait()
            first = ArrayType((n % 3, 11, 13), "int32")
            assert ArrayType((n % 3, 11, 13), "int32") is first

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(make, range(4)))
    finally:
        sys.setswitchinterval(before)
