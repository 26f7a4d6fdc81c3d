"""Reports of libtpu's cost model, as its releases write them."""

import pytest

from tilewright.xla_backend.analysis.tpu_cost_model import Estimate, _read

PROFILE = """hlo_op_estimate {
  hlo_op_name: "body.2"
  estimated_cycles: 3680
  num_equivalent_hlos: 1
}
"""
WORDS = """== CAPACITY:
MXU, VSTORE, VSTORE:SPILL, SALU
    4     1     1     2
== UTILIZATION:
0 1 0 1
2 0 1 0
"""


@pytest.mark.parametrize("file", ["body.2", "body.2_TPU v5 lite"], ids=["0.0.48", "0.0.52"])
def test_the_profile_and_the_words_of_one_instruction_are_one_estimate(tmp_path, file):
    (tmp_path / f"{file}_static_llo_profile.textproto").write_text(PROFILE)
    (tmp_path / "17-body.2-00-final_hlo-static-per-bundle-utilization.txt").write_text(WORDS)
    assert _read(tmp_path) == {"body.2": Estimate(cycles=3680, bundles=2, spills=4096)}
