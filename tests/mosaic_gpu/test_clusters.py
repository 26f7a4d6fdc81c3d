"""Blocks in pairs: copies to both, and products of both; the walker finds what is left out."""

import re

import pytest

from tests.support.edits import every, without
from tests.support.gpu.hopper_cases import EIGHT, attention_told, operands, product
from tests.support.gpu.walker import check_hopper
from tilewright import errors
from tilewright.core.support.errors import KernelError
from tilewright.lang.targets.target import target_of
from tilewright.mosaic_gpu import mosaic_gpu_module

PAIRS = dict(m=256, n=128, k=256, columns=128, num_stages=2, cluster=2)
FORMS = {
    "one tile": (dict(PAIRS), None), "many tiles": (dict(PAIRS, n=384, k=128, columns=128), 2),
    "right turned": (dict(PAIRS, turned=(False, True)), None), "left turned": (dict(PAIRS, turned=(True, False)), 2),
    "float8": (dict(PAIRS, dtype=EIGHT, depth=128, turned=(False, True)), None),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_100"])
@pytest.mark.parametrize("name", FORMS)
def test_pairs_of_blocks(name, target):
    options, units = FORMS[name]
    kernel = product(**options)
    text = mosaic_gpu_module(kernel, target_of(target)).text
    assert "clusters(" in text and ("cta_group::2" if target.endswith("100") else "multicast::cluster") in text
    check_hopper(kernel, *operands(kernel), target=target, units=units, eager=name == "one tile")


FOUR = dict(PAIRS, n=128, k=192, columns=64, cluster=4)


@pytest.mark.parametrize("options, units", [
    (FOUR, None), (dict(FOUR, n=256, k=128), 4), (dict(FOUR, turned=(True, True)), None),
])  # fmt: skip
def test_clusters_of_four_blocks(options, units):
    kernel = product(**options)
    assert "constant 4 : index" in mosaic_gpu_module(kernel, target_of("cuda:sm_90")).text
    check_hopper(kernel, *operands(kernel), units=units, eager=units is None)


def test_heads_that_share_keys_are_pairs():
    kernel = attention_told(cluster=2)
    assert "multicast::cluster" in mosaic_gpu_module(kernel, target_of("cuda:sm_90")).text
    check_hopper(kernel, *operands(kernel))


@pytest.mark.parametrize("make, target, said", [
    (lambda: product(cluster=2), "cuda:sm_90", "no blocks beside each other"),
    (lambda: product(n=192, columns=64, cluster=2), "cuda:sm_90", "make no pairs"),
    (lambda: product(**dict(PAIRS, columns=64)), "cuda:sm_100", "have no halves"),
    (lambda: product(**FOUR), "cuda:sm_100", "on Hopper also for 4"),
    (lambda: product(**dict(PAIRS, cluster=3)), "cuda:sm_90", "a cluster of 3 blocks"),
    (lambda: product(**dict(PAIRS, cluster=4)), "cuda:sm_90", "its grid has one axis"),
])  # fmt: skip
def test_why_blocks_are_no_pairs(make, target, said):
    with pytest.raises(errors.UnsupportedError, match=said):
        mosaic_gpu_module(make(), target_of(target))


OTHERS = r".*arrive\.shared::cluster.*\n"
FAULTS = {
    "a copy to one block of two": (
        "cuda:sm_90", every(r"constant 3 : i16", "constant 1 : i16"), "all wait: .*bytes short"),
    "a copy to a block that is not there": (
        "cuda:sm_90", every(r"constant 3 : i16", "constant 7 : i16"), "copy to the blocks 0b111"),
    "too few bytes are expected": (
        "cuda:sm_90", every(r"(expect_tx\S* _, \[\$0\], )16384;", r"\g<1>8192;"), "bytes more are copied|race"),
    "blocks begin before barriers are made": (
        "cuda:sm_90", without(r"barrier\.cluster\.\S* barrier\.cluster\.wait\.acquire;", 0, "bar.sync 0, 384;"),
        "race: an mbarrier of another block|no mbarrier was made"),
    "a block ends while the other reaches it": (
        "cuda:sm_90", without(r".*barrier\.cluster\.arrive.*\n", -1), "has ended is reached by another"),
    "a stage is freed for this block alone": (
        "cuda:sm_90", every(OTHERS, ""), "all wait"),
    "a stage is copied to before the other block frees it": (
        "cuda:sm_90", lambda text: re.sub(OTHERS, "", text).replace("[$0], 16;", "[$0], 8;"),
        "race: a copy writes"),
    "bytes that are counted elsewhere": (
        "cuda:sm_100", every(r"tx::bytes\.cta_group::2", "tx::bytes"), "counted in another block"),
    "the end of products is told to one block": (
        "cuda:sm_100", every(r"constant 3 : i16", "constant 1 : i16"), "all wait"),
    "products of two blocks in one": (
        "cuda:sm_100", every(r"tcgen05\.mma\.cta_group::2", "tcgen05.mma.cta_group::1"), "a product of the form"),
    "sums are freed by one block": (
        "cuda:sm_100", every(r"(mbarrier\.init\S* \[\$0\], )8;", r"\g<1>4;"), "race|more arrivals|tensor memory that"),
}  # fmt: skip


FOUR_FAULTS = {
    "a copy to the wrong pair": (every(r"constant 5 : i32", "constant 3 : i32"), "all wait|race|copy to the blocks"),
    "a stage is freed for one pair alone": (without(OTHERS, 1), "all wait"),
    "a stage is copied to before one pair frees it": (
        lambda text: without(OTHERS, 1)(text).replace("[$0], 24;", "[$0], 16;"), "race: a copy writes"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUR_FAULTS)
def test_the_walker_finds_in_clusters_of_four(name):
    edit, said = FOUR_FAULTS[name]
    kernel = product(**dict(FOUR, k=384))
    with pytest.raises(KernelError, match=said):
        check_hopper(kernel, *operands(kernel), edit=edit)


@pytest.mark.parametrize("name", FAULTS)
def test_the_walker_finds_in_pairs(name):
    target, edit, said = FAULTS[name]
    kernel = product(**dict(PAIRS, n=768 if "sums" in name else 128, k=128 if "sums" in name else 384))
    with pytest.raises(KernelError, match=said):
        check_hopper(kernel, *operands(kernel), target=target, edit=edit, units=2 if "sums" in name else None)
