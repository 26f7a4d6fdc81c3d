"""What the benchmark of libraries' suites keeps of a message."""

from benchmarks.clients import _first


def test_files_are_told_without_the_folders_of_a_machine():
    assert _first("\nAssertionError: made at /some/where-else/lib-1.2/a_test.py:3 (f)\nmore") == (
        "AssertionError: made at a_test.py:3 (f)"
    )
    assert _first("1/2 is no place, nor is a/b/c") == "1/2 is no place, nor is a/b/c"
