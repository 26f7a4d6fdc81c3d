"""An audit of the walker: it finds and names each fault in each kind of kernel that is divided among warps."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.support.edits import every, without
from tests.support.gpu import cluster_kernels as clusters
from tests.support.gpu import warpgroup_kernels as warpgroups
from tests.support.gpu.hopper_cases import (
    HALF,
    PRODUCTS,
    attention_told,
    linear_cross_entropy,
    operands,
    paged,
    product,
    swiglu_kernels,
)
from tests.support.gpu.mosaic_gpu import floats, printed
from tests.support.gpu.walker import check_hopper
from tilewright.core.support.errors import KernelError
from tilewright.emulator.calls import run_mosaic_gpu

pytestmark = pytest.mark.targets
HOPPER, BLACKWELL = "cuda:sm_90", "cuda:sm_100"
TWO_BLOCKS = dict(m=256, n=128, k=384, columns=128, num_stages=2, cluster=2)
KINDS = {
    "a product on Hopper": (lambda: product(k=512, num_stages=2), HOPPER),
    "a product on Blackwell": (lambda: product(k=512, num_stages=2), BLACKWELL),
    "a product of two blocks": (lambda: product(**TWO_BLOCKS), BLACKWELL),
    **{f"{name} on {'Hopper' if target == HOPPER else 'Blackwell'}":
       (lambda which=which: attention_told(which, num_stages=1), target)
       for which, name in enumerate(("attention", "queries' gradient", "keys' gradient"))
       for target in (HOPPER, BLACKWELL)},
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """What is wrong: a pattern of the text, what becomes of a place that it finds, and how the walker names it.

    `at`: which of the places found, on Hopper and on Blackwell.
    """

    pattern: str
    put: Callable[[re.Match[str]], str]
    said: str
    at: tuple[int, int] = (0, 0)


def gone(found: re.Match[str]) -> str:
    return ""


def told_at_once(found: re.Match[str]) -> str:
    """Products that are told of before they are made, or one group of them that is not waited for."""
    if found["left"] is not None:
        return f"wgmma.wait_group.sync.aligned {int(found['left']) + 1};"
    return '"mbarrier.arrive.release.cta.shared::cta.b64 _, [$0];", "r" ' + found["barrier"] + " : (i32)"


def other_phase(found: re.Match[str]) -> str:
    one = "%one_of_phase = arith.constant 1 : i32\n%wrong = arith.xori " + f"{found['parity']}, %one_of_phase : i32\n"
    return one + found[0].replace(f"{found['parity']} :", "%wrong :")


WAIT = r"(?m)^.*L_\$.*\"r,r\" %\w+, (?P<parity>%\w+) : .*\n"
EARLY = (r"wgmma\.wait_group\.sync\.aligned (?P<left>\d+);|"
         r'"tcgen05\.commit[^"]*", "r(,h)?" (?P<barrier>%\w+)(, %\w+)? : \(i32(, i16)?\)')  # fmt: skip
FAULTS = {
    "a wrong count of bytes": Fault(
        r"expect_tx(\S*) _, \[\$0\], (\d+);", lambda found: f"expect_tx{found[1]} _, [$0], {int(found[2]) // 2};",
        "bytes more are copied than expected|race: a product reads"),
    "no fence": Fault(r"(?m)^.*(wgmma|tcgen05)\.fence.*\n", gone, "without (wgmma.fence|tcgen05.fence::after)"),
    "a stage is freed early": Fault(EARLY, told_at_once, "race: a copy writes|before wgmma.wait_group|race: a load"),
    "no wait": Fault(WAIT, gone, "race: a product reads", (1, 1)),
    "no barrier within a warpgroup": Fault(
        r"(?m)^.*bar\.sync (\$0|2), 128.*\n", gone, "race: a (store of the copy engine|store writes)", (-1, -1)),
    "the wrong phase": Fault(WAIT, other_phase, "race: a product reads", (1, 1)),
    "no commit": Fault(
        r"(?m)^.*(wgmma\.commit_group|tcgen05\.commit).*\n", gone,
        "race: a copy writes|before wgmma.wait_group|all wait: .*mbarrier"),
    "no commit of a store": Fault(r"(?m)^.*bulk\.commit_group.*\n", gone, "without cp.async.bulk.commit", (-1, -1)),
    "no wait for a store": Fault(r"(?m)^.*bulk\.wait_group.*\n", gone, "bulk.wait_group is missing", (-1, -1)),
    "no fence of a store": Fault(r"(?m)^.*fence\.proxy\.async.*\n", gone, "without fence.proxy.async", (-1, -1)),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_walker_names(kind, fault):
    (make, target), wrong = KINDS[kind], FAULTS[fault]
    kernel = make()

    def edit(text: str) -> str:
        found = list(re.finditer(wrong.pattern, text))[wrong.at[target == BLACKWELL]]
        return text[: found.start()] + wrong.put(found) + text[found.end() :]

    with pytest.raises(KernelError, match=wrong.said):
        check_hopper(kernel, *operands(kernel, 1), target=target, edit=edit)


# ---------------------------------------------------------------------------- faults of one kind of kernel


def given(kernel):
    return kernel, operands(kernel, 1)


def cross_entropy(m):
    kernel, rng = linear_cross_entropy(m), np.random.default_rng(0)
    x, w = (rng.standard_normal(t.shape).astype(HALF) for t in kernel.in_types[:2])
    return kernel, [x, w, rng.integers(0, w.shape[1], m).astype(np.int32)]


def many(columns, k):
    return given(product(m=256, n=6 * columns, k=k, columns=columns, num_stages=2, cluster=2, persistent=True))


WEIGHTS = {**PRODUCTS["int8 weights"], "k": 384, "num_stages": 2}
MADE = {
    "a product on Hopper": (lambda: given(product(k=512, num_stages=2)), HOPPER),
    "pages on Hopper": (paged, HOPPER),
    "pages on Blackwell": (functools.partial(paged, page=128, group=128), BLACKWELL),
    "attention in turns on Hopper": (lambda: given(attention_told(ping_pong=True)), HOPPER),
    "many tiles of pairs on Hopper": (lambda: many(64, 192), HOPPER),
    "many tiles of pairs on Blackwell": (lambda: many(128, 128), BLACKWELL),
    "computed operands on Hopper": (lambda: given(product(**WEIGHTS)), HOPPER),
    "computed operands on Blackwell": (lambda: given(product(**WEIGHTS)), BLACKWELL),
    "cross entropy on Hopper": (lambda: cross_entropy(256), HOPPER),
    "cross entropy on Blackwell": (lambda: cross_entropy(128), BLACKWELL),
    "a gated MLP's gradient on Hopper": (lambda: given(swiglu_kernels()[1]), HOPPER),
    "a gated MLP's gradient on Blackwell": (lambda: given(swiglu_kernels()[1]), BLACKWELL),
}
OTHER_PHASE = r'(.*L_\$.*"r,r" %v\d+, )%v\d+( : .*\n)', r"%wrong = arith.constant 1 : i32\n\1%wrong\2"
BYTES, ANY_WAIT = r"(expect_tx\S* _, \[\$0\], )(\d+);", r".*L_\$.*\n"
UNFENCED, MADE_EARLY = every(r".*fence\.mbarrier_init.*\n", ""), "was made without fence.mbarrier_init"
# The kind, what is wrong with it, how it becomes so, and how the walker names it.
MORE_FAULTS = [
    ("a product on Hopper", "registers that none gave up", without(r".*setmaxnreg\.dec.*\n"), "no warpgroup gives"),
    ("a product on Hopper", "a descriptor without its rank",
     without(r"tensormap\.replace\.tile\.rank", 0, "tensormap.replace.tile.fill_mode"), "nothing has told its rank"),
    ("pages on Hopper", "no wait for a page", without(ANY_WAIT, 1), "race: a product reads"),
    ("pages on Hopper", "a part of a page's bytes", without(BYTES, 1, r"\g<1>64;"), "8128 bytes more are copied"),
    ("pages on Hopper", "pages copied without a swizzle", without(r"(swizzle_mode\S* \[\$0\], )3;", 1, r"\g<1>0;"),
     "reads rows as swizzled that were copied without"),
    ("pages on Hopper", "barriers that the copy engine does not see", UNFENCED, MADE_EARLY),
    ("pages on Blackwell", "shares that are not stored yet", every(r".*tcgen05\.wait::st.*\n", ""), "tcgen05.wait::st"),
    ("pages on Blackwell", "scores that are not loaded yet", every(r".*tcgen05\.wait::ld.*\n", ""), "tcgen05.wait::ld"),
    ("pages on Blackwell", "tensor memory given back twice", without(r"(.*tcgen05\.dealloc.*\n)", 0, r"\1\1"),
     "256 columns of tensor memory are given back, of 0"),
    ("attention in turns on Hopper", "no first turn", without(r".*bar\.arrive.*\n"), "all wait: bar.sync 4"),
    ("attention in turns on Hopper", "a turn not passed on", without(r".*bar\.arrive.*\n", 1), "all wait: bar.sync 4"),
    ("attention in turns on Hopper", "a turn not waited for", without(r".*bar\.sync \$0, 256.*\n"),
     "a warp comes once more"),
    ("many tiles of pairs on Hopper", "freed for one block", every(r".*arrive\.shared::cluster.*\n", ""),
     "1 arrivals and 0 bytes short"),
    ("many tiles of pairs on Hopper", "results written over", every(r".*bulk\.wait_group\.read.*\n", ""),
     "race: stmatrix writes"),
    ("many tiles of pairs on Hopper", "the wrong phase", without(OTHER_PHASE[0], 1, OTHER_PHASE[1]),
     "race: a product reads"),
    ("many tiles of pairs on Hopper", "copies to one block", every("constant 3 : i16", "constant 2 : i16"),
     "16384 bytes short"),
    ("many tiles of pairs on Blackwell", "sums made before they are free", without(ANY_WAIT, 1),
     "race: a product writes tensor memory"),
    ("many tiles of pairs on Blackwell", "loads that are not fenced", every(r".*fence::before.*\n", ""),
     "without tcgen05.fence::before_thread_sync"),
    ("many tiles of pairs on Blackwell", "too few columns",
     every(r"(tcgen05\.(alloc|dealloc)\S* \S+ )(256|512);", r"\g<1>64;"), "of which 64 are taken"),
    ("many tiles of pairs on Blackwell", "barriers that the other block does not see", UNFENCED, MADE_EARLY),
    *((f"computed operands on {target}", "not fenced", without(r".*fence\.proxy\.async\.shared.*\n"),
       "reads what threads wrote, without fence") for target in ("Hopper", "Blackwell")),
    ("computed operands on Hopper", "no barrier", without(r".*bar\.sync 1, 256.*\n"), "race: a product reads"),
    ("cross entropy on Hopper", "logits that are not made yet", every("wait_group.sync.aligned 0;",
     "wait_group.sync.aligned 1;"), "before wgmma.wait_group"),
    ("cross entropy on Blackwell", "products that nothing tells of", without(r".*tcgen05\.commit.*\n", -1), "all wait"),
    ("cross entropy on Blackwell", "the wrong phase", without(OTHER_PHASE[0], -1, OTHER_PHASE[1]),
     "race: a load reads tensor memory"),
    ("a gated MLP's gradient on Hopper", "no fence of registers", without(r".*wgmma\.fence.*\n", 1), "wgmma.fence"),
    ("a gated MLP's gradient on Hopper", "a part of the bytes", without(BYTES, -1, r"\g<1>64;"), "bytes more"),
    ("a gated MLP's gradient on Blackwell", "the wrong phase", without(OTHER_PHASE[0], -1, OTHER_PHASE[1]),
     "race: a product writes tensor memory"),
]  # fmt: skip


@pytest.mark.parametrize("kind", MADE)
def test_without_a_fault_each_kind_gives_what_the_interpreter_does(kind):
    make, target = MADE[kind]
    kernel, arrays = make()
    check_hopper(kernel, *arrays, target=target, units=2 if kind.startswith("many") else None)


@pytest.mark.parametrize("kind, name, edit, said", MORE_FAULTS, ids=[": ".join(fault[:2]) for fault in MORE_FAULTS])
def test_the_walker_names_of_one_kind(kind, name, edit, said):
    make, target = MADE[kind]
    kernel, arrays = make()
    with pytest.raises(KernelError, match=said):
        check_hopper(kernel, *arrays, target=target, edit=edit, units=2 if kind.startswith("many") else None)


# Of kernels that are written for warpgroups.
PAIR, BLOCK = (floats(256, 192), floats(192, 128)), (floats(128, 64), floats(64, 64), floats(64, 64))
TOLD_AT_ONCE = without(r'"tcgen05\.commit[^"]*", "r" (%v\d+) : \(i32\)', 0,
                       r'"mbarrier.arrive.release.cta.shared::cta.b64 _, [$0];", "r" \1 : (i32)')  # fmt: skip
WRITTEN = [
    ("registers that none gave up", warpgroups.specialised, HOPPER, without(r".*setmaxnreg\.dec.*\n"), "no warpgroup"),
    ("a stage that is never freed", warpgroups.specialised, HOPPER, without(r".*mbarrier\.arrive\.release.*\n"),
     "2 arrivals and 0 bytes short"),
    ("an arrival too few", warpgroups.specialised, HOPPER, without(r"(mbarrier\.init\S* \[\$0\], )2;", -1, r"\g<1>1;"),
     "more arrivals than its count 1"),
    ("a stage that is freed early", warpgroups.by_warps, BLACKWELL, TOLD_AT_ONCE, "race: a copy writes"),
    ("no fence after a barrier", warpgroups.by_warps, BLACKWELL, every(r".*fence::after_thread_sync.*\n", ""),
     "without tcgen05.fence::after_thread_sync"),
    ("a store that is not waited for", warpgroups.persistent, HOPPER, every(r".*bulk\.wait_group\.read.*\n", ""),
     "race: a thread writes shared memory"),
    ("probabilities that are not stored yet", warpgroups.probabilities, BLACKWELL,
     every(r".*tcgen05\.wait::st.*\n", ""), "without tcgen05.wait::st"),
    ("probabilities that other warps have not stored", warpgroups.probabilities, BLACKWELL,
     every(r".*bar\.sync \$0, 128.*\n", ""), "2 phases have ended"),
    ("barriers that the other block does not see", clusters.paired, BLACKWELL, UNFENCED, MADE_EARLY),
    ("copies to other blocks", clusters.shared, HOPPER, every("remui", "divui"), "copy to the blocks 0b101000"),
]  # fmt: skip


@pytest.mark.parametrize("name, kernel, target, edit, said", WRITTEN, ids=[name for name, *_ in WRITTEN])
def test_the_walker_names_of_what_is_written_for_warpgroups(name, kernel, target, edit, said):
    arrays = BLOCK if kernel is warpgroups.probabilities else PAIR
    module = printed(kernel, *arrays, target=target)
    with pytest.raises(KernelError, match=said):
        run_mosaic_gpu(replace(module, text=edit(module.text)), list(arrays))
