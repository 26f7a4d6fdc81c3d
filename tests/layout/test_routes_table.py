"""The table of docs/gpu.md on routes is what the compilers give."""

import pytest

from docs import routes
from tilewright.mosaic_gpu import compiler


@pytest.mark.targets
@pytest.mark.skipif(not compiler.installed(), reason="needs tilewright[cuda]")
def test_the_table_is_up_to_date_and_nothing_spills():
    text = routes.made()
    assert routes.PAGE.read_text() == text, "run `python -m docs.routes`"
    rows = [line.split(" | ") for line in text.partition(routes.MARK)[2].partition(routes.END)[0].splitlines()[2:]]
    taken = [row for row in rows if row[1] == "Mosaic GPU" and row[2]]
    assert len(taken) >= 10 and all(row[3] == "0" for row in taken)
