"""Checks of exports that may be left out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DisabledSafetyCheck:
    """A check that an export is made without: made by `platform()` and `custom_call(name)`.

    >>> str(DisabledSafetyCheck.custom_call("my_function"))
    'custom_call:my_function'
    """

    kind: str
    target: str = ""

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """The export may be called on a platform that it was not made for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """The export may call a function that is registered in this process, and has to be where it is called."""
        return cls("custom_call", target_name)

    def is_custom_call(self) -> str | None:
        """The name of the function that may be called."""
        return self.target or None

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}" if self.target else self.kind
