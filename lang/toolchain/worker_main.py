"""The process of a compiler: run as a script with the compiler's own script, and nothing of this package, imported.

    worker_main.py SCRIPT

It answers lines of JSON on standard input with lines of JSON on standard output, by `Compiler().answer(request)` of
SCRIPT; an exception is reported as {"error": ...}. What a compiler itself prints goes to standard error.
"""

import json
import os
import runpy
import sys


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    made, compiler = runpy.run_path(sys.argv[1])["Compiler"], None
    for line in sys.stdin:
        try:
            compiler = compiler or made()
            found = compiler.answer(json.loads(line))
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
