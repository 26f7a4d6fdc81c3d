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
    r"pretty_print|too many values to unpack|not enough values to unpack|KeyError: '(jaxpr|unconstrained_dims)'|"
    r"'(in_specs|reshard|psum)' not found|test_dce |shmap_close_over_partial|_input_constraint|"
    r"(scalar|operand_einsum|einsum_add_basic|identity_jit_out)_?unreduced|unreduced_einsum_add_basic": (
        "insides", "reads the text or the equations of jax's own programs"),
    r"_no_kwargs|'Private' object|jit\(\) takes from 0|std::bad_cast|`dims` should not be empty|AbstractToken|"
    r"'Array' object has no attribute '_|EMPTY_ENV|no attribute '(shard|invarying)'|test_is_subclass|"
    r"no random generator": ("insides", "looks at a private class or attribute of jax's"),
    r"(pjit|shard_map|multi_device)_test\S* \S*(fast_path|_cache|_cpp|recompilation|single_compile|trace_only_once|"
    r"devices_change|abstract_device|different_devices_and_sharding|axes_no_op|axis_type_in_pspec|on_output_with_vmap) "
    r"AssertionError: \d+ != \d": ("insides", "counts the entries of jax's caches"),
    r"custom_lin_pretty|multi_platform_nested|name_allowlist|saved_residuals_utility": (
        "insides", "reads the text or the equations of jax's own programs"),
    r"wrong_number_of_arguments|regular_kwarg_in_second_call|nondiff_arg_tracer_error": (
        "wording", "looks for jax's words in an error, a warning or a log"),
    r"keyword argument 'initial'": ("different", "softmax always has its stable derivative"),
    r"remat_while_loop_residuals": (
        "different", "the tangents of a loop with rules for reverse mode alone are not computed forwards"),
    r"test_mesh_str|test_pspec_unreduced|unreduced_printing|test_eager_repr": (
        "wording", "looks at how jax prints a mesh, a type or a picture of a sharding"),
    r"committed_array_different|different_devices_in_arrays|invalid memory kind|names the axis '\w+' twice|"
    r"without a mesh in force|empty_mesh_error|already_host_local|abstract_mesh_errors|empty_mesh_to_out|"
    r"make_array_from\w*_error|different_context_error|manual_to_auto_explicit": (
        "wording", "looks for jax's words in an error, a warning or a log"),
    r"unreduced_kind": ("absent", "unreduced extrema (`unreduced_kind`): parts are summed"),
    r"device_assignment|real_dev_compile|AbstractMesh\(.*has no devices|abstract_mesh_context|"
    r"use_abstract_mesh_override": (
        "absent", "programs lowered for an abstract mesh and compiled for devices that are named later"),
    r"abstract_mesh_changing|no_context_mesh |AbstractMesh\(\) !=|wsc_pspec_set_mesh|wsc_aval_diff|"
    r"AbstractMesh\(.*!= Named|test_eval_shape |_matches_in_sharding": (
        "different", "types over Auto axes have no sharding, which JAX's have: the mesh in force, and no axis"),
    r"auto_axes|auto_mode|auto_user|full_user|full_visible|explicit_axes|partial_user|mix_to_full|einsum_auto|"
    r"different_context |mix_axis_types|late_bind": (
        "different", "`auto_axes` and `explicit_axes` are of all axes: arrays are of one type of axes with their mesh"),
    r"shard_map_test\S* .*(unreduced|reduced|RefType|psum_reduced)|reduced_shmap|pcast_to|zero_unreduced": (
        "different", "types within `shard_map` do not tell reduced and unreduced values from others that vary"),
    r"test_(axis_index_eager|eager_control_flow|eager_shmap|pvary_eager|pvary_no_op)|"
    r"shard_map_test\S* \S*test_device_put ": (
        "different", "`shard_map` outside of `jit` traces its function; in JAX it runs it on each device's values"),
    r"pvary_errors|no_auto_pcast|replication_error_message|linearize_transpose_error|close_over_explicit": (
        "different", "values that differ between devices where others do not are cast; JAX asks for `pcast`"),
    r"one_sized_mesh_axis|size_one_mesh_axis|unit_dims|singleton_dim|remove_one_size": (
        "different", "axes of one device are axes like others, which JAX leaves out of specs and types"),
    r"single_device_sharding_preserved|wsc_eager_copy|vmap_spmd_axis_name_error|jit_with_mesh_context": (
        "different", "shardings of programs are of a mesh: one device is named by `device` and `device_put`"),
    r"test_(remat_basic|check_rep_false_grads|rewrite_binops|psum_with_implicit_fanout)|\w*_cpp_dispatch |"
    r"device_put_typeof|eval_shape_vma": ("insides", "reads the text or the equations of jax's own programs"),
    r"reshard_unreduced_bwd": ("different", "partial sums of a gradient are on other devices, of the same sum"),
    r"scatter_(add|max|mul) of .* needs a full axis": (
        "different", "sums of a scatter along a split axis are made: they are not left unreduced"),
    r"test_lax_full_sharding": ("different", "a result's spec has no entries past its dimensions"),
    r"test_lower_with_wrapper_error": ("different", "what `functools.wraps` a compiled function has its `lower`"),
    r"test_wsc_error|shmap_error|unconstrained(_error)? AssertionError|test_wsc_mix": (
        "different", "a constraint that contradicts a type, or leaves a dimension open, is refused when it is used"),
    r"global_shape_\w+ .*local_data of shape \(\)": (
        "different", "`global_shape` of a number that every process gives has no dimensions"),
    r"test_empty_mesh_creation": ("absent", "a `Mesh` of no devices: that of no mesh in force is an `AbstractMesh`"),
    r"test_custom_partitioning ": ("different", "a sharding rule has as many factors as the array has dimensions"),
    r"test_scatter_bool_index": ("different", "strict promotion refuses a Python bool among integers"),
    r"assertRaises\(\) arg 1|UnevenSharding|divisbility": (
        "different", "sizes that the axes of a mesh do not divide are padded, where JAX refuses them"),
    r"testBasic1D|ConstraintStablehlo": (
        "different", "`pjit` is `jit`: None leaves results to the compiler, also within a mesh"),
    r"donated_array_is_deleted|DonationDifferentIO|donate_pytree": (
        "different", "an array whose memory no result can take is kept"),
    r"device_put_grad|device_put_src": (
        "different", "`device_put` of a value that is traced or differentiated moves it within its mesh alone"),
    r"mismatch_error|mixed_inputs|lower_compile |reshard_error|assignment_mismatch|committed_array |kwargs_axis_res": (
        "different", "arguments that lie otherwise than `in_shardings` says are brought there, where JAX refuses them"),
    r"pjit_test\S* .*(ShardingTypeError not raised|!= None|P\(\S+.*!= P\(|spec=P)": (
        "different", "reshapes, slices and sums over Explicit axes whose result XLA can decide have no sharding in "
        "their type, where JAX has one or refuses them"),
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
    r"'?softmax_custom_jvp": ("different", "softmax always has its stable derivative"),
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
