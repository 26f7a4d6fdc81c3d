"""An audit of the walker: it finds and names each fault in each kind of kernel that is divided among warps."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.hopper_cases import attention_told, operands, product
from tests.support.walker import check_hopper
from tilewright.core.errors import KernelError

pytestmark = pytest.mark.targets
HOPPER, BLACKWELL = "cuda:sm_90", "cuda:sm_100"
PAIR = dict(m=256, n=128, k=384, columns=128, num_stages=2, cluster=2)
KINDS = {
    "a product on Hopper": (lambda: product(k=512, num_stages=2), HOPPER),
    "a product on Blackwell": (lambda: product(k=512, num_stages=2), BLACKWELL),
    "a product of two blocks": (lambda: product(**PAIR), BLACKWELL),
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
        "bytes more are copied than expect_tx tells|race: a product reads"),
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
