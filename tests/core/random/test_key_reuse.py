"""`debug_key_reuse`: what uses a key up, what does not, and where a second use is found."""

import pytest

import tilewright as tw
from tilewright import lax, random
from tilewright import numpy as tnp


def twice(key):
    return random.normal(key) + random.uniform(key)


def split_and_drawn(key):
    random.split(key)
    return random.normal(key)


def part_and_whole(keys):
    return random.normal(keys[0]) + tw.vmap(random.normal)(keys).sum()


def same_part(keys):
    return random.normal(keys[0]) + random.normal(keys[0])


def in_a_loop(key):
    return lax.fori_loop(0, 3, lambda i, x: x + random.normal(key), 0.0)


def in_a_scan(key):
    return lax.scan(lambda x, _: (x + random.normal(key), None), 0.0, None, length=3)[0]


def in_two_calls(key):
    draw = tw.jit(random.normal)
    return draw(key) + draw(key)


def in_a_branch(key):
    return lax.cond(random.uniform(key) > 0.5, lambda: random.normal(key), lambda: 0.0)


BAD = [twice, split_and_drawn, in_a_loop, in_a_scan, in_two_calls, in_a_branch, part_and_whole, same_part]


@pytest.mark.law
@pytest.mark.parametrize("f", BAD)
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_second_uses_are_found_in_programs(f, impl):
    key = random.key(0, impl=impl)
    key = random.split(key) if f in (part_and_whole, same_part) else key
    tw.jit(f)(key)
    with tw.debug_key_reuse(), pytest.raises(tw.errors.KeyReuseError, match="is used twice"):
        tw.jit(f)(key)


def one_part_twice(key):
    keys = random.split(key)
    return random.normal(keys[0]) + random.normal(keys[0])


def a_part_then_all(key):
    keys = random.split(key, 3)
    return random.normal(keys[1]) + tw.vmap(random.normal)(keys).sum()


def a_branch_then_again(key):
    return lax.cond(True, random.normal, lambda key: 0.0, key) + random.normal(key)


def a_derivative_then_again(key):
    return tw.grad(lambda x: x * random.normal(key))(1.0) + random.normal(key)


EAGER = [twice, split_and_drawn, in_two_calls, in_a_loop, in_a_scan, in_a_branch, one_part_twice, a_part_then_all,
         a_branch_then_again, a_derivative_then_again]  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("f", EAGER)
@pytest.mark.parametrize("impl", ["threefry2x32", "philox"])
def test_second_uses_are_found_between_operations(f, impl):
    with tw.debug_key_reuse(), pytest.raises(tw.errors.KeyReuseError, match="is used twice"):
        f(random.key(0, impl=impl))


def good(key):
    first, second, third = random.split(key, 3)
    x = random.normal(first) + random.uniform(random.clone(second)) + random.uniform(second)
    folded = [random.normal(random.fold_in(third, i)) for i in range(2)]
    return x + sum(folded) + random.normal(third) + random.key_data(third)[0]


def good_loop(key):
    def body(carry, _):
        key, x = carry
        key, sub = random.split(key)
        return (key, x + random.normal(sub)), None

    (key, x), _ = lax.scan(body, (key, 0.0), None, length=3)
    _, y = lax.while_loop(lambda c: c[1] < 1, lambda c: (random.split(c[0])[0], c[1] + 1), (key, 0))
    return x + y + tnp.sum(tw.vmap(random.normal)(random.split(random.key(1), 3)))


def good_branch(key):
    choose, draw = random.split(key)
    return lax.cond(random.uniform(choose) > 0.5, lambda: random.normal(draw), lambda: random.uniform(draw))


def good_parts(key):
    keys = random.split(key, 4)
    draw = tw.jit(lambda keys, i: random.normal(keys[i]))
    return random.normal(keys[0]) + tw.vmap(random.normal)(keys[2:]).sum() + draw(keys, 1)


@pytest.mark.law
@pytest.mark.parametrize("f", [good, good_loop, good_branch, good_parts])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "philox"])
def test_keys_that_are_used_once_are_let_be(f, impl):
    with tw.debug_key_reuse():
        tw.jit(f)(random.key(0, impl=impl))
        f(random.key(0, impl=impl))


def test_nothing_is_checked_unasked():
    key = random.key(0)
    assert twice(key) == twice(key)
