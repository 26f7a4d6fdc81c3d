"""Why tests of libraries fail on this package: a cause in plain words for what a regular expression finds.

It is looked for in the file, the name of the test and the first line of its message; the first that is found counts.
"""

from __future__ import annotations

import re

_ERRORS = "looks for jax's words in an error; the error is raised, in words of our own"
REASONS = {
    # what is not adapted
    r"test_logical_rules0": "`zeros_like` of a variable of flax's `hijax` kind does not take its sharding over",
    r"mutable_array_test.*(a Ref|grad by a Ref)|Ref is returned from a function under": (
        "hands a Ref itself on: out of a compiled function, into a `hijax` value, or to `grad`"
    ),
    r"hk_callback": "a client's primitive without a lowering: what `checkpoint` stores is computed compiled here",
    r"extend\.random\.PRNGImpl": "a random generator that a client makes from jax's own class, which has no adapter",
    # what looks into jax's own texts and numbers
    r"not found in .*dot|LinearTest::test_precision": "reads jax's precision in XLA's text of a product",
    r"make_jaxpr.*defaultdict": "counts the equations that jax records; here a function is recorded in other ones",
    r"jaxpr_info": "reads the text or the equations of jax's own jaxprs",
    r"IsTraceableTest": "looks for the class name `PjitFunction` of jax's compiled functions",
    r"all_finite.*does not match": "looks for how jax prints an array within a message; ours prints NumPy's scalars",
    r"test_devices|failed to initialize|set_n_cpu|test_rank_promotion_exception": _ERRORS,
    r"TracebackTest": "looks at which frames jax's own filter leaves in the traceback of an error",
    r"change wrappers ordering|incorrect_ordering": "looks at which of jax's own functions are on the stack",
    r"does not match|pattern did not match": _ERRORS,
    # differences of ours
    r"renderer_test.*named_array": "arrays have `_repr_html_` here, which treescope shows beside its text",
    r"renderer_test.*layer_annotations": "the dtype of random keys is shown by the name of its module here",
    r"base_test.*checkpoint": "`checkpoint` outside of a derivative runs its function as it is; jax always traces it",
    r"test_compat.*allclose|test_compat.*assert Array": (
        "BFGS comes to the same minimum by other steps, so that its estimate of the Hessian is another, by two percent"
    ),
    r"FunctionLinearOperator": "compares a type's weakness: what is derived by a Python number's kind stays weak here",
    r"takes longer than|Failed: Timeout|time of its file is over": (
        "was not done when the time for the file was over, on a machine that others were using"
    ),
    r"no_copy": "a `custom_jvp` function under `vmap` is one compiled call, so that its result is a new array",
    r"custom_jvp_(no_)?kwargs|nondiff_back": "derivatives at Python numbers are arrays; jax may give Python numbers",
    r"test_callback.*Callback did not": "what a callback raises arrives as it is; jax makes a RuntimeError of it",
    r"finalise.*custom_jvp": "takes the function and the rule out of jax's equation of a `custom_jvp` call",
    r"KeyError: 'jaxpr'": "copies an equation's parameters, which a plain dictionary has by this package's names",
    r"preferred_element_type": "compares the parameters of equations with those of jax's own",
    r"test_with_kwargs_fake": "asks a compiled function for its signature without following `__wrapped__`",
}


def cause(file: str, test: str, message: str) -> str | None:
    """Why a test fails, where it is known."""
    return next((why for pattern, why in REASONS.items() if re.search(pattern, f"{file} {test} {message}")), None)
