"""The laws of primitives on cases that are drawn: shapes from a pool, axes, orders and dtypes at random.

Where nothing is compiled many are drawn; what is compiled is drawn from few shapes, and rarely.
"""

from hypothesis import assume, given, settings

from tests.support import drawn, laws

often = settings(max_examples=150)


@often
@given(drawn.ANY)
def test_jvp_is_the_finite_difference(case):
    assume(laws.differentiable(case))
    with laws.numpy_meaning():
        laws.jvp_is_the_finite_difference(case)


@often
@given(drawn.ANY)
def test_vjp_is_the_transpose_of_jvp(case):
    assume(laws.differentiable(case))
    with laws.numpy_meaning():
        laws.vjp_is_the_transpose_of_jvp(case)


@often
@given(drawn.ANY)
def test_vmap_is_a_loop(case):
    with laws.numpy_meaning():
        laws.vmap_is_a_loop(case)


@often
@given(drawn.ANY)
def test_vmap_of_jvp_is_jvp_of_vmap(case):
    assume(laws.differentiable(case))
    with laws.numpy_meaning():
        laws.vmap_of_jvp_is_jvp_of_vmap(case)


@settings(max_examples=25)
@given(drawn.STRUCTURED)
def test_compiled_is_the_numpy_meaning(case):
    laws.compiled_is_the_numpy_meaning(case)
