"""The body language: the closed list of what a kernel's body may hold, with the meaning of each.

A body is a Program over Refs. What may stand in it are the primitives of `core` and those of the kernel language, by
family. Every backend has a rule or a reason for each of them (`legalize.Backend`), or leaves it to be rewritten into
others; what a user's own Primitive means is what its `expand` makes of it. The precise meaning of an entry is its
`numpy` rule, which `interpret` runs.
"""

from __future__ import annotations

from ...core.ir.primitive import Primitive
from ...core.primitives.contraction.conv import conv_general_dilated_p
from ...core.primitives.contraction.coo_matmul import coo_matmul_p
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.contraction.fft import fft_p
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_lin_p, while_p, while_vjp_p
from ...core.primitives.custom.checkpoint import checkpoint_p, name_p, optimization_barrier_p
from ...core.primitives.custom.custom_derivative_primitives import (
    custom_jvp_call_p,
    custom_lin_p,
    custom_vjp_call_p,
    linear_call_p,
)
from ...core.primitives.elementwise import arithmetic as ew
from ...core.primitives.elementwise import bitwise
from ...core.primitives.elementwise import comparison as cmp
from ...core.primitives.elementwise import conversion as conv
from ...core.primitives.external.host_callback import debug_callback_p, io_callback_p, pure_callback_p
from ...core.primitives.keys import threefry as rnd
from ...core.primitives.linalg.cholesky import cholesky_p, cholesky_update_p, symmetric_product_p
from ...core.primitives.linalg.eig import eig_p, hessenberg_p, schur_p, tridiagonal_p
from ...core.primitives.linalg.eigh import eigh_p
from ...core.primitives.linalg.lu import lu_p, lu_pivots_to_permutation_p, lu_solve_p
from ...core.primitives.linalg.qr import geqp3_p, geqrf_p, householder_product_p, ormqr_p, qr_p
from ...core.primitives.linalg.svd import svd_p
from ...core.primitives.linalg.triangular import triangular_solve_p
from ...core.primitives.linalg.tridiagonal import tridiagonal_solve_p
from ...core.primitives.movement import gather_scatter as idx
from ...core.primitives.movement import shape as shp
from ...core.primitives.movement.dynamic_slice import dynamic_slice_p, dynamic_update_slice_p
from ...core.primitives.movement.sort import sort_p, top_k_p
from ...core.primitives.reduction import reduce as red
from ...core.primitives.reduction import reduce_window as win
from ...core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p
from ...core.primitives.special import cumulative as cum
from ...core.primitives.special import functions as spc
from ...core.primitives.spmd import collective as col
from ..ops.atomics import atomic_cas_p, atomic_rmw_p
from ..ops.basic import multiple_of_p
from ..ops.dma import dma_start_p, dma_wait_p, semaphore_read_p, semaphore_signal_p, semaphore_wait_p
from ..ops.inline_asm import inline_asm_p, staged_p
from ..ops.machine_integers import bits_down_p, bits_up_p, quotient_p, remainder_p, sign_down_p
from ..ops.mesh_axes import device_index_p
from ..ops.remote_dma import barrier_p, remote_signal_p, remote_start_p, remote_wait_p
from ..ops.run_scoped import undefine_p
from ..ops.scaled_exp2 import scaled_exp2_p
from ..tpu import approx_reciprocal_p
from ..warpgroups import barriers as bar
from ..warpgroups import products as pro
from ..warpgroups import transfers as tra
from ..warpgroups.warps import warp_map_p

FAMILIES: dict[str, dict[Primitive, str]] = {
    "arithmetic": {
        ew.add_p: "x + y; integers wrap around",
        ew.add_any_p: "x + y, of cotangents",
        ew.sub_p: "x - y; integers wrap around",
        ew.mul_p: "x * y; integers wrap around",
        ew.mulhi_p: "the upper half of the product of integers",
        ew.div_p: "x / y; integers truncate; x / 0 has all bits set; the minimum / -1 wraps",
        ew.rem_p: "remainder of truncating division, with the sign of x; integers: x where y is 0",
        ew.max_p: "the greater; NaN where either is",
        ew.min_p: "the lesser; NaN where either is",
        ew.pow_p: "x ** y; negative integer powers truncate",
        ew.integer_pow_p: "x ** y for a static integer y",
        ew.neg_p: "-x; of zeros the sign changes, integers wrap around",
        ew.sign_p: "-1, 0 or 1; NaN and the sign of zeros stay",
        ew.abs_p: "the magnitude; the least integer stays",
        ew.square_p: "x * x",
        ew.floor_p: "the greatest integer not above x",
        ew.ceil_p: "the least integer not below x",
        ew.round_p: "the nearest integer; halves away from 0, or to even",
    },
    "functions": {
        ew.sqrt_p: "the square root",
        ew.rsqrt_p: "1 / sqrt(x)",
        ew.one_minus_square_p: "1 - x * x, exact near 1; the derivative of asin and atanh has it",
        ew.cbrt_p: "the cube root",
        ew.exp_p: "e ** x",
        ew.exp2_p: "2 ** x",
        scaled_exp2_p: "2 ** (x * scale + shift), the product not rounded where the target has such an instruction",
        ew.expm1_p: "e ** x - 1, exact near 0",
        ew.log_p: "the natural logarithm",
        ew.log1p_p: "log(1 + x), exact near 0",
        ew.logistic_p: "1 / (1 + e ** -x)",
        multiple_of_p: "an integer, with a hint that it is a multiple of another",
        approx_reciprocal_p: "1 / x, on some targets with fewer digits",
        ew.sin_p: "sine",
        ew.cos_p: "cosine",
        ew.tan_p: "tangent",
        ew.asin_p: "inverse sine",
        ew.acos_p: "inverse cosine",
        ew.atan_p: "inverse tangent",
        ew.atan2_p: "the angle of the point (y, x)",
        ew.sinh_p: "hyperbolic sine",
        ew.cosh_p: "hyperbolic cosine",
        ew.tanh_p: "hyperbolic tangent",
        ew.asinh_p: "inverse hyperbolic sine",
        ew.acosh_p: "inverse hyperbolic cosine",
        ew.atanh_p: "inverse hyperbolic tangent",
        spc.erf_p: "the error function",
        spc.erfc_p: "1 - erf(x), exact where erf is near 1",
        spc.erf_inv_p: "the inverse of erf",
        spc.lgamma_p: "the logarithm of the magnitude of the gamma function",
        spc.digamma_p: "the derivative of lgamma",
        spc.polygamma_p: "the m-th derivative of digamma",
        spc.zeta_p: "Hurwitz's zeta function",
        spc.igamma_p: "the regularized lower incomplete gamma function",
        spc.igammac_p: "the regularized upper incomplete gamma function",
        spc.igamma_grad_a_p: "the derivative of igamma by its first argument",
        spc.regularized_incomplete_beta_p: "the regularized incomplete beta function",
        spc.bessel_i0e_p: "e ** -|x| times the modified Bessel function of order 0",
        spc.bessel_i1e_p: "e ** -|x| times the modified Bessel function of order 1",
        ew.nextafter_p: "the neighbour of x towards y among the numbers of the dtype",
    },
    "comparison and selection": {
        cmp.eq_p: "x == y",
        cmp.ne_p: "x != y; true where either is NaN",
        cmp.lt_p: "x < y",
        cmp.le_p: "x <= y",
        cmp.gt_p: "x > y",
        cmp.ge_p: "x >= y",
        cmp.is_finite_p: "neither infinite nor NaN",
        cmp.select_n_p: "one of several cases, selected by an integer or boolean",
        cmp.clamp_p: "x clamped to two bounds",
    },
    "bits": {
        bitwise.not_p: "bitwise complement",
        bitwise.and_p: "bitwise and",
        bitwise.or_p: "bitwise or",
        bitwise.xor_p: "bitwise exclusive or",
        bitwise.shift_left_p: "left shift; 0 from the width on",
        bitwise.shift_right_logical_p: "logical right shift; 0 from the width on",
        bitwise.shift_right_arithmetic_p: "arithmetic right shift",
        bitwise.population_count_p: "the number of set bits",
        bitwise.clz_p: "the number of leading zero bits",
    },
    "integers as hardware has them": {
        quotient_p: "truncating division, for y that is neither 0 nor -1",
        remainder_p: "remainder of truncating division, for y that is neither 0 nor -1",
        bits_up_p: "left shift by less than the width",
        bits_down_p: "logical right shift by less than the width",
        sign_down_p: "arithmetic right shift by less than the width",
    },
    "conversion": {
        conv.convert_element_type_p: "the same number in another dtype",
        conv.bitcast_convert_type_p: "the same bits as another dtype; a wider one adds or removes a last axis",
        conv.reduce_precision_p: "rounded to fewer bits of exponent and mantissa",
        conv.stop_gradient_p: "x, a constant to derivatives",
    },
    "complex numbers": {
        conv.real_p: "the real part",
        conv.imag_p: "the imaginary part",
        conv.complex_p: "x + iy",
        conv.conj_p: "the conjugate",
    },
    "reductions": {
        red.reduce_sum_p: "the sum along axes",
        red.reduce_prod_p: "the product along axes",
        red.reduce_max_p: "the greatest along axes; NaN where one is",
        red.reduce_min_p: "the least along axes; NaN where one is",
        red.reduce_and_p: "bitwise and along axes",
        red.reduce_or_p: "bitwise or along axes",
        red.reduce_xor_p: "bitwise exclusive or along axes",
        red.argmax_p: "the first index of the greatest, or of NaN, along an axis",
        red.argmin_p: "the first index of the least, or of NaN, along an axis",
        red.reduce_p: "elements along axes combined by a Program of scalars",
        cum.cumsum_p: "sums of all prefixes along an axis",
        cum.cumprod_p: "products of all prefixes along an axis",
        cum.cummax_p: "the greatest of each prefix along an axis",
        cum.cummin_p: "the least of each prefix along an axis",
        cum.cumlogsumexp_p: "log of the summed exponentials of each prefix along an axis",
    },
    "products and windows": {
        dot_general_p: "matrix products: contracted axes, batch axes, and free axes",
        conv_general_dilated_p: "convolution, with strides, padding, dilation and groups",
        win.reduce_window_sum_p: "the sum in every window",
        win.reduce_window_max_p: "the greatest in every window",
        win.reduce_window_min_p: "the least in every window",
        win.reduce_window_p: "every window combined by a Program of scalars",
        win.select_and_scatter_add_p: "each window's value added at the window's greatest (least)",
        win.select_and_gather_add_p: "of each window the element where another array's is greatest (least)",
    },
    "shape": {
        shp.broadcast_in_dim_p: "repeated along new axes and along axes of size 1",
        shp.reshape_p: "the same elements in row-major order in another shape",
        shp.squeeze_p: "without some axes of size 1",
        shp.transpose_p: "axes in another order",
        shp.rev_p: "reversed along axes",
        shp.copy_p: "x in memory of its own",
        shp.slice_p: "a part between static bounds, with strides",
        shp.iota_p: "each element's index along an axis",
        shp.pad_p: "padded before, after and between the elements; negative: cropped",
        shp.concatenate_p: "arrays one after the other along an axis",
        shp.split_p: "parts one after the other along an axis",
    },
    "indexing": {
        dynamic_slice_p: "a slice at computed starts, clamped to bounds",
        dynamic_update_slice_p: "x with a slice at computed starts, clamped to bounds, replaced",
        idx.gather_p: "windows at computed indices",
        idx.scatter_p: "windows at computed indices replaced",
        idx.scatter_add_p: "windows at computed indices added to",
        idx.scatter_sub_p: "windows at computed indices subtracted from",
        idx.scatter_mul_p: "windows at computed indices multiplied",
        idx.scatter_min_p: "minimum with windows at computed indices",
        idx.scatter_max_p: "maximum with windows at computed indices",
        idx.scatter_apply_p: "a scalar Program applied to elements at computed indices",
        sort_p: "arrays in the order of the first ones along an axis, stable",
        top_k_p: "the k greatest along an axis, and their indices",
    },
    "linear algebra": {
        cholesky_p: "the triangular factor of a positive matrix",
        cholesky_update_p: "the triangular factor after a product of a vector is added",
        symmetric_product_p: "a matrix times its transpose, added to another",
        triangular_solve_p: "the solution of a triangular system",
        lu_p: "triangular factors, with rows exchanged",
        lu_pivots_to_permutation_p: "exchanges of rows as one permutation",
        lu_solve_p: "the solution of a system whose factors are known",
        geqrf_p: "the reflectors and triangular factor of a matrix",
        geqp3_p: "the same, with columns exchanged",
        householder_product_p: "a product of reflectors as a matrix",
        ormqr_p: "a product of reflectors applied to a matrix",
        qr_p: "an orthogonal and a triangular factor",
        eigh_p: "eigenvalues and eigenvectors of a symmetric matrix",
        eig_p: "eigenvalues and eigenvectors",
        svd_p: "singular values and vectors",
        schur_p: "the Schur form of a matrix",
        hessenberg_p: "the Hessenberg form of a matrix",
        tridiagonal_p: "the tridiagonal form of a symmetric matrix",
        tridiagonal_solve_p: "the solution of a tridiagonal system",
    },
    "sparse matrices": {
        coo_matmul_p: "the product of a sparse matrix, by its elements' rows and columns, with a dense one",
    },
    "transforms": {
        fft_p: "the discrete Fourier transform of the last axes",
    },
    "random numbers": {
        rnd.threefry2x32_p: "two words of the Threefry-2x32 hash of two words under a key",
        rnd.random_wrap_p: "words as keys",
        rnd.random_unwrap_p: "the words of keys",
        rnd.random_seed_p: "keys from integers",
        rnd.random_split_p: "several keys from one",
        rnd.random_fold_in_p: "a key with an integer mixed in",
        rnd.random_bits_p: "words of random bits under a key",
        rnd.random_clone_p: "the same key, to be used again",
    },
    "memory": {
        get_p: "a slice of a Ref; where a mask is false, another value",
        swap_p: "a slice of a Ref replaced where a mask is true; returns the previous value",
        addupdate_p: "a slice of a Ref added to where a mask is true, repeated indices repeatedly",
        atomic_rmw_p: "a slice of a Ref combined atomically with a value; returns the previous value",
        atomic_cas_p: "atomic compare and swap; returns the previous value",
        undefine_p: "the contents of a Ref become undefined, or zero",
        dma_start_p: "starts a copy from Ref to Ref; a semaphore counts its completion",
        dma_wait_p: "waits for a copy",
        semaphore_signal_p: "increments a semaphore",
        semaphore_wait_p: "waits until a semaphore reaches a value, and subtracts it",
        semaphore_read_p: "the value of a semaphore",
    },
    "other devices": {
        device_index_p: "the index of the body's device along a mesh axis",
        remote_start_p: "starts a copy to a Ref of another device; local and remote semaphores count its completion",
        remote_wait_p: "waits until a copy to another device is sent, or one from another has arrived",
        remote_signal_p: "increments a semaphore of another device",
        barrier_p: "the semaphore that the kernels of a mesh share",
    },
    "warpgroups": {
        bar.barrier_init_p: "initialises a barrier with its number of arrivals per phase",
        bar.barrier_arrive_p: "one arrival at a barrier, by a warpgroup",
        bar.barrier_wait_p: "waits for the next phase of a barrier",
        warp_map_p: "a Program on each warp of a warpgroup",
        bar.set_max_registers_p: "releases or acquires registers of a warpgroup",
        tra.copy_gmem_to_smem_p: "starts a copy to shared memory; its completion arrives at a barrier",
        tra.copy_smem_to_gmem_p: "starts a copy from shared memory",
        tra.commit_group_p: "commits the copies from shared memory so far as a group",
        tra.wait_group_p: "waits until at most n of these groups are in flight",
        tra.commit_smem_p: "makes stores to shared memory visible to copies and products",
        pro.wgmma_p: "starts a matrix product from shared memory, added to an accumulator",
        pro.wait_products_p: "waits until at most n of these products are in flight",
        pro.tcgen05_mma_p: "starts a matrix product from shared memory, added to tensor memory",
        pro.tcgen05_commit_p: "arrives at a barrier when these products complete",
        pro.load_tmem_p: "loads from tensor memory",
        pro.store_tmem_p: "stores to tensor memory",
        pro.wait_loads_p: "waits for loads from tensor memory",
        pro.commit_tmem_p: "makes stores to tensor memory visible to loads and products",
    },
    "control": {
        cond_p: "one of several Programs, selected by an integer or boolean",
        while_p: "a Program repeated while another is true",
        while_vjp_p: "cotangents of what such a loop takes, from those of what it gives",
        while_lin_p: "tangents of such a loop whose Program has a reverse derivative only",
        scan_p: "a Program for each slice of arrays, with a carry",
        jit_p: "a Program",
        custom_jvp_call_p: "a Program with a forward derivative of its own",
        custom_vjp_call_p: "a Program with a reverse derivative of its own",
        custom_lin_p: "a derivative with a reverse-mode rule only",
        linear_call_p: "a linear Program with a transpose of its own",
        checkpoint_p: "a Program that is recomputed in the backward pass",
        optimization_barrier_p: "values across which compilers do not optimise",
        name_p: "a value with a name, for policies of `checkpoint`",
        staged_p: "the index of a loop that a target is to pipeline",
        inline_asm_p: "instructions of one target for each element; elsewhere their reference",
    },
    "the world outside": {
        debug_callback_p: "calls a host function without results",
        io_callback_p: "calls a host function, ordered, with results",
        pure_callback_p: "calls a host function without effects, with results",
        col.axis_index_p: "the index along a named axis",
        col.psum_p: "the sum over a named axis",
        col.pmax_p: "the greatest over a named axis",
        col.pmin_p: "the least over a named axis",
        col.ppermute_p: "values permuted along a named axis",
        col.pbroadcast_p: "the value at one index of a named axis, broadcast",
        col.all_gather_p: "the values along a named axis, gathered",
        col.all_gather_invariant_p: "the values along a named axis, gathered, the same on all devices",
        col.all_to_all_p: "parts exchanged along a named axis",
        col.psum_scatter_p: "the sum over a named axis, scattered",
    },
}  # fmt: skip

MEANING: dict[Primitive, str] = {p: meaning for family in FAMILIES.values() for p, meaning in family.items()}
WARPGROUPS = tuple(FAMILIES["warpgroups"])  # of kernels that are written for them
# Of linear algebra, what works through whole matrices step by step: a library's, around the kernel.
FACTORED = frozenset(FAMILIES["linear algebra"]) - {
    symmetric_product_p, lu_pivots_to_permutation_p, tridiagonal_solve_p,
}  # fmt: skip
