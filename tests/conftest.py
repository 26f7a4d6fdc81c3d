"""Settings of every test run: programs are verified after each pass, draws are the same each time."""

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
# Kernels take the same route on every machine.
os.environ.setdefault(
    "TILEWRIGHT_CPU_RATES",
    "read=2e10,copy=1.4e10,in_place=4e10,streamed=2.5e10,near=6e10,fma=8e10,bytes=3.2e11",
)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # processes that tests start would compile every module again
_SOURCE = str(Path(__file__).resolve().parent.parent / "src")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_SOURCE, os.environ.get("PYTHONPATH")]))

from hypothesis import HealthCheck, settings  # noqa: E402

pytest_plugins = ["tests.support.selection"]

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


def pytest_sessionfinish() -> None:
    # Workers, and runs that tests start, share the folder; the last process to end is the one that started them.
    if str(os.getpid()) == _RUN:
        shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's top folder."""
    return Path(__file__).resolve().parent.parent
