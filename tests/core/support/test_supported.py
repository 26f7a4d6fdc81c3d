"""The table of supported versions: what each version of a package gets."""

import warnings

import pytest

from tilewright.core.support import supported
from tilewright.core.support.errors import UntestedVersionWarning, VersionError
from tilewright.core.support.supported import SUPPORTED, Support

PACKAGE = Support("thing", "1.2.3", "1.5", ("1.2.3", "1.4"), {"1.3.1": "its products are wrong"})


@pytest.mark.parametrize("version, status", [
    ("1.2.3", "tested"), ("1.2.3.4", "tested"), ("1.2.3+local", "tested"), ("1.4.7", "tested"), ("1.4", "tested"),
    ("1.3", "untested"), ("1.3.0", "untested"), ("1.4.0rc1", "untested"), ("1.2.30", "untested"),
    ("1.4.0.dev20260101", "untested"), ("1.3.1", "broken"),
    ("1.2.2", "unsupported"), ("1.2", "unsupported"), ("1.5", "unsupported"), ("1.5.0.dev0", "unsupported"),
    ("2", "unsupported"), ("1.10", "unsupported"), ("nonsense", "unsupported"), ("", "unsupported"),
])  # fmt: skip
def test_status(version, status):
    assert PACKAGE.status(version) == status


def test_an_unsupported_version_is_refused_with_the_range_and_the_pip_line():
    with pytest.raises(VersionError, match=r"thing 1.5 is installed; .* works with thing>=1.2.3,<1.5") as error:
        PACKAGE.check("1.5")
    assert error.value.remedy == "pip install 'thing==1.4.*'"
    with pytest.raises(VersionError) as error:
        PACKAGE.check("1.0", "pip install 'tilewright[thing]'")
    assert error.value.remedy == "pip install 'tilewright[thing]'"


def test_a_broken_version_is_refused_with_its_reason():
    with pytest.raises(VersionError, match="thing 1.3.1 is installed and does not work: its products are wrong"):
        PACKAGE.check("1.3.1")


def test_an_untested_version_warns_once_with_the_remedy():
    supported._warn_untested.cache_clear()
    with pytest.warns(UntestedVersionWarning, match=r"thing 1.3 is untested .* tested with 1.2.3, 1.4; .*pip install"):
        PACKAGE.check("1.3")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PACKAGE.check("1.3")
        PACKAGE.check("1.4.2")


@pytest.mark.parametrize("package", SUPPORTED)
def test_the_table_is_consistent(package):
    support = SUPPORTED[package]
    assert support.package == package
    assert {support.status(version) for version in support.tested} == {"tested"}
    assert {support.status(version) for version in support.broken} <= {"broken"}
    assert support.status(support.lowest) == "tested" and support.status(support.below) == "unsupported"
