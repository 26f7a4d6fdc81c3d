"""`jax.experimental.checkify`'s names: checks of values that compiled functions return as errors."""

from collections.abc import Callable

from ..core.checkify.check_primitive import Error, check, check_error, debug_check
from ..core.checkify.transform import checkify, user_checks
from ..core.support.errors import (
    CheckError,
    DivisionByZeroError,
    FailedCheckError,
    NaNError,
    NotFunctionalizedError,
    OOBError,
    UnthrownErrorWarning,
)

JaxRuntimeError = CheckError
ErrorCategory = type[CheckError]
init_error: Error = Error(None, (), ())

nan_checks: frozenset[type[NaNError]] = frozenset({NaNError})
index_checks: frozenset[type[OOBError]] = frozenset({OOBError})
div_checks: frozenset[type[DivisionByZeroError]] = frozenset({DivisionByZeroError})
float_checks: frozenset[type[NaNError] | type[DivisionByZeroError]] = nan_checks | div_checks
automatic_checks: frozenset[type[NaNError] | type[DivisionByZeroError] | type[OOBError]] = float_checks | index_checks
all_checks: frozenset[type[NaNError] | type[DivisionByZeroError] | type[OOBError] | type[CheckError]]
all_checks = automatic_checks | user_checks

__all__ = [
    "DivisionByZeroError", "Error", "ErrorCategory", "FailedCheckError", "JaxRuntimeError", "NaNError",
    "NotFunctionalizedError", "OOBError", "UnthrownErrorWarning", "all_checks", "automatic_checks", "check",
    "check_error", "checkify", "debug_check", "div_checks", "float_checks", "index_checks", "init_error", "nan_checks",
    "user_checks",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
