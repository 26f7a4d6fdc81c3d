"""The version of this package, and the one jaxlib that it works with."""

import os

# XLA's start-up chatter can only be turned down before its library is loaded, and this is imported first.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

__version__ = "0.1.0"
__version_info__ = tuple(map(int, __version__.split(".")))
JAXLIB = "0.11.2"


def check_jaxlib() -> None:
    """Refuse a jaxlib of another version: its Python surface changes from one patch to the next.

    Raises:
      VersionError: jaxlib is missing or of another version; the message holds the pip line.
    """
    try:
        from jaxlib.version import __version__ as found
    except ImportError as error:
        problem = f"jaxlib {JAXLIB} is needed and cannot be imported ({error})"
    else:
        if found == JAXLIB:
            return
        problem = f"jaxlib {found} is installed; this version of tilewright works with jaxlib {JAXLIB} only"
    # Not at the top: nothing may be imported before this check.
    from .errors import VersionError

    raise VersionError(problem, f"pip install 'jaxlib=={JAXLIB}'")
