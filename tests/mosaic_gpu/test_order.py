"""Two warpgroups in turns at the tensor cores: which kernels they are in, and that a turn that is left out is found."""

from dataclasses import replace

import pytest

from tests.support.edits import every, without
from tests.support.gpu.hopper_cases import attention, attention_told, operands, product
from tests.support.gpu.walker import check_hopper
from tilewright import errors
from tilewright.core.support.errors import KernelError
from tilewright.lang.targets.target import target_of
from tilewright.mosaic_gpu import mosaic_gpu_module

SM_90 = target_of("cuda:sm_90")


@pytest.mark.parametrize("stages, eager", [(None, True), (1, False)])
def test_attention_in_turns(stages, eager):
    kernel = attention_told(ping_pong=True, num_stages=stages)
    assert "bar.arrive" in mosaic_gpu_module(kernel, SM_90).text
    check_hopper(kernel, *operands(kernel), eager=eager)


def test_products_in_turns_of_blocks_that_make_many_tiles():
    kernel = product(n=320, k=192, columns=64, before=lambda a, b: (a * 2, b), num_stages=1, ping_pong=True)
    assert "bar.arrive" in mosaic_gpu_module(kernel, replace(SM_90, units=2)).text
    check_hopper(kernel, *operands(kernel), units=2)


def test_turns_are_taken_where_the_estimate_says_so():
    assert all("bar.arrive" in mosaic_gpu_module(k, SM_90).text for k in attention(t=256, d=128))
    assert "bar.arrive" not in mosaic_gpu_module(product(), SM_90).text  # nothing is computed beside its products
    assert "bar.arrive" not in mosaic_gpu_module(attention_told(ping_pong=False), SM_90).text
    assert "bar.arrive" not in mosaic_gpu_module(attention_told(), target_of("cuda:sm_100")).text


@pytest.mark.parametrize("make, target, said", [
    (lambda: product(rows=64, m=64, ping_pong=True), "cuda:sm_90", "in it 1 compute"),
    (lambda: product(before=lambda a, b: (a * 2, b), ping_pong=True), "cuda:sm_90", "needs no turns"),
    (lambda: product(before=lambda a, b: (a, b * 2), ping_pong=True), "cuda:sm_90", "wait for each other in a turn"),
    (lambda: product(ping_pong=True), "cuda:sm_100", "on Hopper"),
])  # fmt: skip
def test_why_there_are_no_turns(make, target, said):
    with pytest.raises(errors.UnsupportedError, match=said):
        mosaic_gpu_module(make(), target_of(target))


WAIT, TELL, LAST = r".*bar\.sync \$0, 256.*\n", r".*bar\.arrive \$0, 256.*\n", r".*bar\.sync 4, 256.*\n"
FAULTS = {
    "no wait for the turn": (without(WAIT, 1), "comes once more before all have come|all wait|none waits"),
    "no wait for any turn": (every(WAIT, ""), "comes once more before all have come|all wait|none waits"),
    "the first turn is no one's": (without(TELL, 0), "all wait: .*bar.sync 4"),
    "the turn is not passed": (without(TELL, 1), "all wait: .*bar.sync"),
    "the last turn is not taken": (without(LAST), "come to a barrier where none waits"),
    "both wait at one barrier": (every(r"bar\.sync \$0, 256;", "bar.sync 4, 256;"), "all wait|threads come|once more"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_walker_finds_in_turns(name):
    edit, said = FAULTS[name]
    kernel = attention_told(ping_pong=True)
    with pytest.raises(KernelError, match=said):
        check_hopper(kernel, *operands(kernel), edit=edit)
