"""Options of pytest that select tests: a drawn share of each law, what such a draw leaves out, what was skipped."""

import argparse
from typing import Any

import pytest

from tests.support.draw_laws import drawn

_SKIPPED = "tilewright/skipped"


def _share(text: str) -> float:
    if not 0 < (share := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"a share is above 0 and at most 1, not {text}")
    return share


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts instead of comparing")
    parser.addoption("--skipped", action="store_true", help="only tests that were skipped when they last ran")
    parser.addoption("--law-share", type=_share, default=1.0, help="draw this share of each per-operation law")
    parser.addoption("--law-seed", type=int, default=0, help="the seed of that draw")
    parser.addoption("--law-rest", action="store_true", help="only the cases of laws that this draw leaves out")


def _draw(config: pytest.Config) -> tuple[Any, Any, Any]:
    return config.getoption("law_share"), config.getoption("law_seed"), config.getoption("law_rest")


@pytest.fixture(scope="session")
def law_options(pytestconfig: pytest.Config) -> list[str]:
    """This run's draw as options, for a test that runs laws in a process of its own: it is in the rest as well."""
    share, seed, rest = _draw(pytestconfig)
    return [f"--law-share={share}", f"--law-seed={seed}", *["--law-rest"] * rest]


def pytest_report_header(config: pytest.Config) -> str | None:
    share, seed, rest = _draw(config)
    if share == 1 and not rest:
        return None
    return f"laws: {'all but ' if rest else ''}a share of {share:g} of each, drawn with --law-seed {seed}"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "cache"):
        return
    if config.getoption("skipped") and config.cache.get(_SKIPPED, None) is None:
        raise pytest.UsageError("--skipped: no run of the tests is recorded here")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Skips(config))


@pytest.hookimpl(trylast=True)  # after -m: every operation is to be among the tests that run
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share, seed, rest = _draw(config)
    kept = {item.nodeid for item in items}
    if share < 1 or rest:
        laws = {item.nodeid for item in items if item.get_closest_marker("law")}
        left = laws - drawn(laws, share, seed)
        both = {item.nodeid for item in items if "law_options" in getattr(item, "fixturenames", ())}
        kept = left | both if rest else kept - left
    if config.getoption("skipped"):
        kept &= set(config.cache.get(_SKIPPED, []))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and any(map(session.config.getoption, ("skipped", "law_rest"))):
        session.exitstatus = pytest.ExitCode.OK  # nothing was skipped, or everything was drawn


class _Skips:
    """Records the tests that were skipped when they last ran; a run with `--skipped` leaves the record as it is."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.ran, self.skipped = config, set(), set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran.add(report.nodeid)
        if report.skipped:
            self.skipped.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if not self.config.getoption("skipped"):
            before = set(self.config.cache.get(_SKIPPED, []))
            self.config.cache.set(_SKIPPED, sorted(before - self.ran | self.skipped))
