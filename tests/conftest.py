"""Settings of every test run: programs are verified after each pass, draws are the same each time."""

import argparse
import gc
import linecache
import os
import shutil
import tempfile
from pathlib import Path

import pytest

# Before the first import of the package, and inherited by the processes that tests start.
os.environ["TILEWRIGHT_DEBUG_CHECKS"] = "1"
_FIRST = "TILEWRIGHT_TESTS" not in os.environ
_RUN = os.environ.setdefault("TILEWRIGHT_TESTS", str(os.getpid()))  # the process that started all others of this run
_CACHE = Path(tempfile.gettempdir()) / f"tilewright-tests-{_RUN}"
if _FIRST:
    shutil.rmtree(_CACHE, ignore_errors=True)  # what a run of the same number left that was killed
os.environ["TILEWRIGHT_CACHE_DIR"] = str(_CACHE)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # processes that tests start would compile every module again
_SKIPPED = "tilewright/skipped"
_DRAW = ("law_share", "law_seed", "law_rest")
_SOURCE = str(Path(__file__).resolve().parent.parent / "src")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_SOURCE, os.environ.get("PYTHONPATH")]))

from hypothesis import HealthCheck, settings  # noqa: E402

from tests.support.draw_laws import drawn  # noqa: E402

settings.register_profile(
    "tilewright",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=10,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tilewright")


def pytest_collection() -> None:
    gc.disable()  # what is collected stays: looking through it again and again would take a third of the time


def pytest_collection_finish() -> None:
    linecache.clearcache()  # each doctest asks whether any file of it has changed
    gc.collect()
    gc.freeze()  # what the tests are made of stays: collections leave it out
    gc.enable()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and any(map(session.config.getoption, ("skipped", "law_rest"))):
        session.exitstatus = pytest.ExitCode.OK  # nothing was skipped, or all was drawn
    # Workers, and runs that tests start, share the folder; the last process to end is the one that started them.
    if str(os.getpid()) == _RUN:
        shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's top folder."""
    return Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts instead of comparing")
    parser.addoption("--skipped", action="store_true", help="only tests that were skipped when they last ran")
    parser.addoption("--law-share", type=_share, default=1.0, help="draw this share of each per-operation law")
    parser.addoption("--law-seed", type=int, default=0, help="the seed of that draw")
    parser.addoption("--law-rest", action="store_true", help="only the cases of laws that this draw leaves out")


def _share(text: str) -> float:
    if not 0 < (share := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"a share is above 0 and at most 1, not {text}")
    return share


def pytest_report_header(config: pytest.Config) -> str | None:
    share, seed, rest = map(config.getoption, _DRAW)
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


@pytest.hookimpl(trylast=True)  # after -m: each operation is to be among the tests that run
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share, seed, rest = map(config.getoption, _DRAW)
    kept = {item.nodeid for item in items}
    if share < 1 or rest:
        laws = {item.nodeid for item in items if item.get_closest_marker("law")}
        left = laws - drawn(laws, share, seed)
        kept = left if rest else kept - left
    if config.getoption("skipped"):
        kept &= set(config.cache.get(_SKIPPED, []))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


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
