"""What `tilewright clients` says of the libraries' own tests is what was recorded."""

import json

from tests.support.paths import ROOT
from tilewright.as_jax.clients import CLIENTS, TESTED


def test_the_command_tells_what_was_run():
    results = json.loads((ROOT / "benchmarks" / "clients.json").read_text())
    for name, found in results.items():
        counted = sum(f["counted"] for f in found["files"].values())
        failed = sum(len(f["failed"]) for f in found["files"].values())
        assert TESTED[name] == (counted, counted - failed) and CLIENTS[name].version == found["version"]
    assert TESTED.keys() == results.keys() and TESTED.keys() <= CLIENTS.keys()
