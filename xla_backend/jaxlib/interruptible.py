"""Long calls of compiled code that Ctrl-C ends the wait for.

Python handles a signal between two steps of the main thread, so a call of XLA's compiler would have to return first. It
runs in a thread of its own where the main thread asks for it. XLA cannot be told to stop: the compilation goes on until
it is done, and what it gives is dropped.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any


def interruptible[T](what: str, call: Callable[[], T]) -> T:
    """The result of a call, or its error; `KeyboardInterrupt` as soon as it comes.

    >>> interruptible("the sum", lambda: 1 + 2)
    3
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    found: dict[str, Any] = {}
    done, context = threading.Event(), contextvars.copy_context()

    def run() -> None:
        try:
            found["result"] = context.run(call)
        except BaseException as error:
            found["error"] = error
        finally:
            done.set()

    try:
        threading.Thread(target=run, name=f"tilewright {what}", daemon=True).start()
        done.wait()
    except KeyboardInterrupt as error:
        error.add_note(f"{what} goes on in a thread of its own until it is done; its result is dropped")
        raise
    error = found.pop("error", None)
    if error is not None:
        try:
            raise error
        finally:
            del error  # whose traceback has this frame
    return found["result"]
