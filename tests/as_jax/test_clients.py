"""What is told of the libraries' own tests, by `tilewright clients` and by the pages, is what was recorded."""

import json

from benchmarks.compatibility.client_pages import RESULTS, Counts, made
from tilewright.as_jax.clients import CLIENTS, recorded_counts


def test_the_pages_and_the_counts_are_made_of_the_results():
    for place, text in made().items():
        assert place.read_text() == text, f"{place.name}: run `python -m benchmarks.compatibility.client_pages`"


def test_the_command_tells_what_was_run():
    results = json.loads(RESULTS.read_text())
    assert recorded_counts() == {name: Counts.of(found)[-2:] for name, found in results.items()}
    assert {name: CLIENTS[name].version for name in results} == {n: found["version"] for n, found in results.items()}
