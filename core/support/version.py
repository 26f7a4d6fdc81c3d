"""The version of this package, and that of the installed jaxlib."""

import os

# XLA's start-up chatter can only be turned down before its library is loaded, and this is imported first.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

__version__ = "0.2.0"
__version_info__: tuple[int, ...] = tuple(map(int, __version__.split(".")))
JAX_API = "0.11.2"  # the release of jax whose names and semantics the array API follows


def _installed() -> tuple[str, str]:
    """The version of jaxlib, or "" and why it cannot be imported."""
    try:
        from jaxlib.version import __version__ as found
    except ImportError as error:
        return "", str(error)
    return found, ""


JAXLIB, _failure = _installed()


def check_jaxlib() -> None:
    """Refuse an unsupported jaxlib, and warn of an untested one: its Python surface is internal and changes.

    Raises:
      VersionError: jaxlib is missing or unsupported; the message holds the pip line.
    """
    # Not at the top: nothing may be imported before the version is known.
    from .errors import VersionError
    from .supported import SUPPORTED

    support = SUPPORTED["jaxlib"]
    if not JAXLIB:
        raise VersionError(f"{support.requirement} is needed and cannot be imported ({_failure})", support.remedy)
    support.check(JAXLIB)
