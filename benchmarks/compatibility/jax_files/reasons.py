"""Why tests of jax's own files fail here: a kind and a cause for what a regular expression finds.

It is looked for in the file, the name of the test and the first line of its message; the first that is found counts.
Kinds: `wording` (an error or a text of ours in other words), `insides` (jax's private names, jaxprs, caches),
`different` (on purpose), `absent` (what is not here).
"""

from __future__ import annotations

import re

REASONS: dict[str, tuple[str, str]] = {
    r"jax\._src\S* is (not here|of jax's own insides)": (
        "insides", "uses a private name of jax's that has no public one"),
    r"no attribute '(_params|_aval|_value|_npy_value|_to_xla_hlo_sharding|_logistic_taylor|mat|"
    r"check_compatible_aval)'": (
        "insides", "looks at a private attribute of jax's"),
    r"primitive_compilation_cache|compilation_caching|cache_hit|fwd_caching|linearize_caching|excessive_compil|fastpath|"
    r"grad_of_jit_compilation": ("insides", "counts the entries of jax's caches"),
    r"test_dslice_construction|test_array_impl_name|Absent": ("insides", "looks at a private class of jax's"),
    r"IntegerPower|lowering_constraint|remat_offload_dot|remat_custom_policy_save_cos|gather_with_vjp|test_basic_mul|"
    r"Regex didn't match|composite_with_non_default|not found in 'module|unexpectedly found in": (
        "insides", "reads the text or the equations of jax's own programs"),
    r"VisualizeSharding|test_mesh_repr|test_aval_str|test_spec_repr": (
        "wording", "looks at how jax prints a mesh, a type or a picture of a sharding"),
    r"PartitionedDebugCallback": (
        "different", "a callback with `partitioned=True` is called once with the whole value, not once for each part"),
    r"big_random_array": ("different", "an array of random bits has fewer than 2^32 blocks of them"),
    r"RaiseError|TypeError not raised|ValueError not raised|RuntimeError not raised|NotImplementedError not raised": (
        "different", "takes what jax refuses"),
    r"symbolic_zero_custom_vjp": ("different", "a derivative at a Python number is an array"),
    r"defvjp_with_logs": ("different", "logging in backward rules, which `hijax` has"),
    r"shape_mismatch_disable": ("different", "the types of cotangents are always checked"),
    r"test_committed|^multi_device_test\S* .*False is not true|test_sds_like": (
        "different", "an array that was put on the default device is not committed: it is brought to where others are"),
    r"'?softmax_custom_jvp": ("different", "softmax always has its stable derivative"),
    r"Abstract(Device|Mesh)": ("absent", "abstract meshes that say of what kind their devices are"),
    r"a Ref, and the loop|type Ref<any>|arrays_aliases|Ref within": (
        "different", "a Ref that a compiled function or a rule of its own closes over"),
    r"callback \S+ returned PyTreeDef": ("different", "a callback's result has the structure that was declared for it"),
    r"was given no rule|debug.print names|failed' not found in ''": (
        "wording", "looks for jax's class of an error, or for its text in a log"),
    r"_kept_var_idx|'(Pushforward|Primitive)' object has no|no attribute 'pretty_print'|isinstance\(\) arg 2": (
        "insides", "looks at a private class or attribute of jax's"),
    r"does not match|pattern did not match|Expected warning not| AssertionError: \"|not found in 'WARNING|no logs of": (
        "wording", "looks for jax's words in an error, a warning or a log"),
}  # fmt: skip
UNKNOWN = "unexplained"


def reason(file: str, test: str, message: str) -> tuple[str, str]:
    """The kind and the cause of a failure; of the kind `unexplained` where it is not known."""
    text = f"{file} {test} {message}"
    return next((why for pattern, why in REASONS.items() if re.search(pattern, text)),
                (UNKNOWN, f"`{message.replace('`', chr(39))[:110]}`"))  # fmt: skip
