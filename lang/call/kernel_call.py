"""`kernel_call`: from what the author of a kernel writes to a `Kernel`, and its application to arrays."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.binding import current_trace, is_evaluating
from ...core.ir.program import Program, every_eqn, subprograms
from ...core.ir.types import ArrayType, KeyDtype, MemorySpace, RefType, is_integer
from ...core.primitives.refs.ref_views import view
from ...core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p
from ...core.primitives.spmd.varying_axes import mesh_axes
from ...core.support import pytree
from ...core.support.call_errors import public
from ...core.support.config import current
from ...core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    BlockRankError,
    InconclusiveDimensionError,
    KernelBodyError,
    ShapeError,
    TreeError,
    UnsupportedError,
    plural,
    user_source,
)
from ...core.tracing.array_conversion import make_array
from ...core.tracing.index_entries import Slice
from ...core.tracing.trace import Tracer, extended_axes, on_one_device, trace_program, typeof
from .. import tpu, triton
from ..interpret.interpreter import interpret as interpreter
from ..kernel import block_spec as blocks
from ..kernel.block_spec import BlockAxis, BlockSpec, GridSpec, no_block_spec
from ..kernel.canonicalize import normalize, touches_refs
from ..kernel.kernel import ID, Block, Kernel, full_block, show_grid, trace_map
from ..ops.basic import Cell, in_cell
from ..ops.captured_constants import inlined
from ..ops.interpret_params import as_mode
from ..ops.mesh_axes import mesh_of, with_device_indices
from ..partition.custom_rule import Partition, check_rule
from ..targets.compiler_params import Params
from ..transforms.bounds_checks import checked
from ..transforms.dynamic_grid import as_grid, bound_of, named_axes, own_extents
from ..transforms.scalar_prefetch_to_scratch import own_scalars
from ..transforms.serialize_writes import in_order
from ..transforms.symbolic_tiles import sampled
from ..verify.communication import check_remote
from ..verify.verify import verify
from ..warpgroups.checks import check_mesh
from ..warpgroups.specs import MeshSpec
from .custom_partition import ruled_call
from .primitive import kernel_call_p
from .sliced_outputs import UNBLOCKED, has_slices, sliced_outputs

if TYPE_CHECKING:
    from ...core.support.pytree import PyTreeDef

_NOT_GIVEN: Any = Ellipsis


@public
def kernel_call(
    body: Callable[..., None],
    out_shape: Any = _NOT_GIVEN,
    *,
    grid: int | Sequence[Any] | None = None,
    in_specs: Any = None,
    out_specs: Any = None,
    scratch_shapes: Any = (),
    grid_spec: GridSpec | None = None,
    input_output_aliases: dict[int, int] | None = None,
    dimension_semantics: Sequence[str] | None = None,
    compiler_params: Any = None,
    cost_estimate: Any = None,
    interpret: Any = False,
    name: str | None = None,
    debug: bool = False,
    strict: bool | None = None,
    partition: Partition | None = None,
    metadata: Any = None,
    **unused: Any,
) -> Callable[..., Any]:
    """A function of arrays that runs `body` once for every cell of a grid.

    `body(*in_refs, *out_refs, *scratch_refs)` reads and writes Refs and returns nothing. `out_shape` is a
    pytree of `ShapeDtypeStruct`; `in_specs` and `out_specs` are pytrees of `BlockSpec` like the operands
    and `out_shape` (or prefixes of them). `input_output_aliases` maps an operand's number to that of the
    output that starts as it. With `strict` what cannot be proved of the kernel is an error, as with the configuration
    `strict_kernels`, which holds where it is None. With `debug` blocks that prefetched data places are checked while
    the kernel runs. `partition` says how it is split over a mesh where its index maps do not. Runs compiled; with
    `interpret=True` in NumPy, cell by cell, and with `interpret=InterpretParams(...)` so in the modes that it names.

    Raises an `ArgumentTypeError` without `out_shape`, and a `KernelError` that names the operand, the block and the
    cell for maps that disagree in rank or go out of bounds, outputs that are not wholly written, and writes that race.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> def double(x, o):
    ...     o[...] = x[...] * 2
    >>> spec = BlockSpec((2,), lambda i: (i,))
    >>> call = kernel_call(double, tw.ShapeDtypeStruct((4,), "float32"), grid=2, in_specs=[spec], out_specs=spec)
    >>> print(np.asarray(call(np.arange(4, dtype="float32"))))
    [0. 2. 4. 6.]
    """
    _refuse(unused)
    if not callable(body):
        raise ArgumentTypeError(f"kernel_call: the body is {body!r}", "give a function of Refs, then `out_shape`")
    for option, value in (("debug", debug), ("strict", strict)):
        if not isinstance(value, bool | np.bool_ | None):
            raise ArgumentTypeError(f"kernel_call: {option} is {value!r}", "give True or False")
    if out_shape is _NOT_GIVEN:
        raise ArgumentTypeError(
            "kernel_call was given no out_shape, and does not know what the kernel makes",
            "pass an array like the result, `out_shape=ShapeDtypeStruct(shape, dtype)`, or a tuple of such",
        )
    if isinstance(out_shape, (tuple, list)) and out_shape and all(isinstance(n, int) for n in out_shape):
        raise ArgumentTypeError(f"kernel_call: out_shape is {out_shape!r}, a shape without a dtype",
                                f"give ShapeDtypeStruct({tuple(out_shape)}, dtype)")  # fmt: skip
    spec = grid_spec
    if spec is None:
        spec = GridSpec(() if grid is None else grid, in_specs, out_specs, scratch_shapes)
    elif not isinstance(spec, GridSpec):
        raise ArgumentTypeError(f"kernel_call: grid_spec is {spec!r}", "give a `GridSpec` or `PrefetchScalarGridSpec`")
    elif not (grid is None and in_specs is None and out_specs is None and scratch_shapes == ()):
        raise ArgumentError(
            "kernel_call was given grid_spec and also grid, in_specs, out_specs or scratch_shapes",
            "give one or the others",
        )
    label = name or getattr(body, "__name__", None) or getattr(getattr(body, "func", None), "__name__", "kernel")
    if not isinstance(compiler_params, Params | None):
        raise ArgumentTypeError(
            f"kernel_call: compiler_params is {compiler_params!r}",
            "use the `CompilerParams` of `lang.triton`, `mosaic_gpu`, `cutlass`, `tpu` or `cpu`",
        )
    semantics = dimension_semantics or (compiler_params.dimension_semantics if compiler_params else None)
    settings = _settings(compiler_params, cost_estimate, semantics, getattr(spec, "mesh", None))
    if partition is not None and not isinstance(partition, Partition):
        raise ArgumentTypeError(f"kernel_call: partition is {partition!r}", "give a `lang.Partition`")
    aliases = _pairs(input_output_aliases)
    request = _Request(body, out_shape, spec, aliases, semantics, as_mode(interpret), label, settings, strict, debug)

    @functools.wraps(body)
    def call(*args: Any, **named: Any) -> Any:
        if named:
            raise ArgumentTypeError(f"kernel {label} is given its operands {sorted(named)} by name",
                                    "give operands in the order of the body's Refs, without names")  # fmt: skip
        return request.run(args, partition)

    return call


pallas_call = kernel_call


def _interpreted(kernel: Kernel, operands: Sequence[Any]) -> list[Any]:
    """The results by the interpreter, at once and without a program, so that its errors come as they are."""
    given = (np.asarray(x).astype(t.dtype, copy=False) for x, t in zip(operands, kernel.in_types, strict=True))
    return [make_array(x, t) for x, t in zip(interpreter(kernel, *given), kernel.out_types, strict=True)]


def _settings(
    compiler_params: Params | None, cost_estimate: Any, semantics: Sequence[str] | None, mesh: Any
) -> tuple[tuple[str, Any], ...]:
    """Parameters for backends and the cost model; unhashable values, which cannot be in a Kernel, are an error."""
    cores = tuple(a for a, s in enumerate(semantics or ()) if "core" in str(getattr(s, "value", s)).lower())
    given = {"compiler_params": compiler_params, "cost_estimate": cost_estimate, "core_axes": cores or None,
             "mesh": mesh}  # fmt: skip
    backward = compiler_params.backward if compiler_params else None
    if backward is not None and type(backward) is not type(compiler_params):
        raise ArgumentTypeError(f"kernel_call: backward of compiler_params is {backward!r}",
                                f"give a {type(compiler_params).__module__}.CompilerParams")  # fmt: skip
    if backward is not None and backward.dimension_semantics is not None:
        stated = backward.dimension_semantics
        raise ArgumentError(f"kernel_call: backward of compiler_params has dimension_semantics {stated}",
                            "leave it out: backward kernels have grids of their own")  # fmt: skip
    for key, value in given.items():
        try:
            hash(value)
        except TypeError:
            raise ArgumentTypeError(f"kernel_call: {key} is {value!r}", "give values that are hashable") from None
    return tuple((key, value) for key, value in given.items() if value is not None)


def _pairs(aliases: Mapping[str, Any] | None) -> dict[int, int]:
    """The argument `input_output_aliases`: a dictionary, or pairs."""
    try:
        found = dict(aliases or {})
        if all(isinstance(n, (int, np.integer)) for pair in found.items() for n in pair):
            return found
    except (TypeError, ValueError):
        pass
    raise ArgumentTypeError(f"kernel_call: input_output_aliases is {aliases!r}",
                            "give the number of each operand with that of its output: `{0: 0}`")  # fmt: skip


_IGNORED = {"backend", "name_stack", "vma", "mesh"}


def _refuse(unused: dict[str, Any]) -> None:
    unknown = sorted(set(unused) - _IGNORED)
    if unknown:
        kinds = {"tpu": tpu.CompilerParams, "triton": triton.CompilerParams}
        told = [f"compiler_params=lang.{place}.CompilerParams({name}={unused[name]!r})" for name in unknown
                for place, kind in kinds.items() if name in kind.__dataclass_fields__]  # fmt: skip
        names = list(inspect.signature(kernel_call).parameters)
        told += [f"{near}=..." for name in unknown for near in difflib.get_close_matches(name, names, 1)]
        raise ArgumentError(f"kernel_call does not take {unknown}",
                            f"write {' or '.join(told)}" if told else "see the signature of `kernel_call`")  # fmt: skip


class _Request:
    """Everything about a call but its operands; builds the Kernel for their types, once for each."""

    def __init__(
        self, body: Callable[..., Any], out_shape: Any, spec: GridSpec, aliases: dict[int, int],
        semantics: Sequence[str] | None, interpret: Any, name: str, settings: tuple[tuple[str, Any], ...],
        strict: bool | None, debug: bool,
    ):  # fmt: skip
        self.body, self.spec, self.aliases, self.interpret, self.name = body, spec, aliases, interpret, name
        self.settings, self.strict, self.debug = settings, strict, debug
        self.axis_names, sizes = named_axes(spec.grid)
        self.grid, self.computed = as_grid(sizes)
        self.axes = tuple(self.computed)
        out_leaves, self.out_tree = pytree.flatten(out_shape, is_leaf=lambda x: x is None and x is out_shape)
        self.out_types = [blocks.shape_dtype(x) for x in out_leaves]
        self.out_shape = out_shape
        self.semantics = _semantics(semantics, self.grid, name)
        self.source = user_source()
        self.built: dict[Any, Kernel] = {}

    @property
    def grid_text(self) -> str:
        return show_grid(self.grid, self.axes)

    def run(self, args: tuple[Any, ...], partition: Partition | None) -> Any:
        """Apply the kernel to operands."""
        leaves, in_tree = pytree.flatten(args)
        kernel, out_tree = self.build(in_tree, tuple(typeof(x).strong() for x in leaves))
        if partition is not None:
            check_rule(partition, kernel)
        leaves = [*self.computed.values(), *leaves]
        if kernel.interpret and is_evaluating():
            outs = _interpreted(kernel, leaves)
        elif partition is not None:
            outs = ruled_call(kernel, partition, leaves)
        else:
            outs = kernel_call_p.bind(*leaves, kernel=kernel)
        return out_tree.unflatten(outs)

    def build(self, in_tree: PyTreeDef, types: tuple[Any, ...]) -> tuple[Kernel, Any]:
        known = in_tree, types, tuple(mesh_axes().items())  # a body may ask for its device
        found = self.built.get(known)
        if found is None:
            try:
                found = self.built[known] = self._build(in_tree, types)
            except InconclusiveDimensionError as error:
                raise UnsupportedError(
                    f"kernel {self.name} with symbolic sizes: {error.what}",
                    "let one axis of the grid count the tiles of the symbolic axis, or use known sizes",
                    self.source) from None  # fmt: skip
        return found, self.out_tree

    def _build(self, in_tree: PyTreeDef, types: tuple[Any, ...]) -> Kernel:
        n_prefetch = self.spec.num_scalar_prefetch
        args = in_tree.unflatten(range(len(types)))
        first = len(pytree.leaves(args[:n_prefetch]))
        prefetch = (*(ID for _ in self.axes), *types[:first])  # computed sizes, which the author does not see, first
        scalars = pytree.structure(args[:n_prefetch])
        out_places = self.out_tree.unflatten(range(len(self.out_types)))
        outs = _several(out_places)
        names = _names(self.body, args, outs)
        which = f"operands after the {n_prefetch} prefetched" if n_prefetch else "operands"
        in_specs = _match_specs(self.spec.in_specs, args[n_prefetch:], "in_specs", self.name, which)
        out_specs = _match_specs(self.spec.out_specs, out_places, "out_specs", self.name, "out_shape")
        sliced = {o: spec for o, spec in enumerate(out_specs) if has_slices(spec)}

        def made(specs: Sequence[BlockSpec], types: Sequence[Any], names: Sequence[str]) -> tuple[Block, ...]:
            given = zip(specs, types, names, strict=True)
            return tuple(self._block(spec, t, prefetch, scalars, name) for spec, t, name in given)

        inputs = made(in_specs, types[first:], names[first : len(types)])
        outputs = made([UNBLOCKED if o in sliced else spec for o, spec in enumerate(out_specs)],
                       self.out_types, names[len(types) :])  # fmt: skip
        scratch_leaves, scratch_tree = pytree.flatten(self.spec.scratch_shapes, is_leaf=lambda x: hasattr(x, "shape"))
        scratch: Any = tuple(blocks.as_scratch(s) for s in scratch_leaves)
        sliced_names = tuple(outputs[o].name for o in sliced)
        body = self._trace(in_tree, first, prefetch, inputs, outputs, sliced, scratch, scratch_tree)
        fixed = len(self.grid) + len(prefetch) + len(inputs) + len(outputs)
        scratch = tuple(v.type for v in body.inputs[fixed:])  # with what the body allocated
        grid = list(self.grid)
        for axis in self.axes:
            grid[axis] = min(grid[axis], bound_of(axis, self.grid, (*inputs, *outputs)))
        return self._checked(Kernel(
            self.name, tuple(grid), prefetch, inputs, outputs, scratch, body, self._aliases(first, inputs, outputs),
            self.semantics, self.interpret, self.settings, own_extents(len(grid), prefetch, self.axes),
            self.source, _scratch_names(self.body, len(args) + len(outs), scratch_tree) + sliced_names,
        ))  # fmt: skip

    def _checked(self, kernel: Kernel) -> Kernel:
        """The kernel, verified; with runtime checks where these are requested."""
        kernel = own_scalars(kernel)
        if current().parallel_writes == "order":
            kernel = in_order(kernel)
        if mesh_of(kernel.body):
            check_remote(kernel)
        if isinstance(self.spec, MeshSpec):
            check_mesh(kernel)
            return kernel
        verify(sampled(kernel) if kernel.symbolic else kernel, self.strict)
        return checked(kernel) if self.debug else kernel

    def _aliases(self, first: int, inputs: Sequence[Block], outputs: Sequence[Block]) -> tuple[tuple[int, int], ...]:
        found = []
        for i, o in sorted(self.aliases.items()):
            if not 0 <= i - first < len(inputs) or not 0 <= o < len(outputs):
                raise ArgumentError(
                    f"kernel {self.name}: input_output_aliases {{{i}: {o}}} of {first + len(inputs)} operands and "
                    f"{plural(len(outputs), 'output')}", "count operands and outputs from 0")  # fmt: skip
            a, b = inputs[i - first].array, outputs[o].array
            if (a.shape, a.dtype) != (b.shape, b.dtype):
                raise ShapeError(
                    f"kernel {self.name}: operand {inputs[i - first].name} of {a.show()} is aliased to output "
                    f"{outputs[o].name} of {b.show()}",
                    "an output that starts as an operand has its shape and dtype",
                )
            found.append((i - first, o))
        return tuple(found)

    def _block(
        self, spec: BlockSpec, array: ArrayType, prefetch: Sequence[ArrayType], scalars: PyTreeDef, name: str
    ) -> Block:
        space = spec.memory_space or MemorySpace.VMEM
        where = f"kernel {self.name}: operand {name} of {array.show()}"
        if spec.block_shape is None and spec.index_map is None:
            return full_block(name, array.strong(), space)
        shape = tuple(array.shape) if spec.block_shape is None else tuple(spec.block_shape)
        _check_rank(shape, array, where, "[" in name)
        axes, index_map = tuple(map(BlockAxis.of, shape)), None
        if spec.index_map is not None:
            index_map = self._trace_map(spec.index_map, prefetch, scalars, where, shape)
        elif any(a.squeezed or a.size != n for a, n in zip(axes, array.shape, strict=True)):
            index_map = trace_map(self.grid, prefetch, lambda *_: [np.int32(0)] * array.ndim)
        fill = spec.fill if spec.fill is None else np.asarray(spec.fill).astype(array.dtype)[()]
        return Block(name, array.strong(), axes, index_map, space, fill, spec.buffers)

    def _trace_map(
        self, index_map: Callable[..., Any], prefetch: Sequence[ArrayType], scalars: PyTreeDef, where: str,
        shape: Sequence[Any],
    ) -> Program:  # fmt: skip
        """An index map as a Program, of the grid's indices and the prefetched operands, whose pytree is `scalars`."""
        n, hidden = len(self.grid), len(self.axes)

        def fun(*args: Any) -> list[Any]:
            with self._cell(args[:n], args[n : n + hidden]):
                found = self._indices(index_map, args[:n], scalars.unflatten(args[n + hidden :]), where, shape)
            return [x.start if isinstance(x, Slice) else x for x in found]

        program = trace_map(self.grid, prefetch, fun)
        if any(v.type.shape for v in program.constants):
            raise KernelBodyError(
                f"{where}: its index map closes over an array of {program.constants[0].type.show()}",
                "pass the array as a prefetched operand (PrefetchScalarGridSpec)")  # fmt: skip
        return inlined(program, index_map, f"{where}: its index map")

    def _indices(
        self, index_map: Callable[..., Any], ids: Sequence[Any], prefetched: Sequence[Any], where: str,
        shape: Sequence[Any],
    ) -> list[Any]:  # fmt: skip
        """What an index map gives within a cell, checked: an index for each axis, or a slice."""
        n = len(self.grid)
        wanted = n + self.spec.num_scalar_prefetch
        try:
            inspect.signature(index_map).bind(*range(wanted))
        except TypeError:
            takes = f"takes {inspect.signature(index_map)}"
            parts = f"each of the {n} axes of the grid" if n != 1 else "the one axis of the grid"
            more = f" and {wanted - n} for the prefetched operands" if wanted > n else ""
            raise BlockRankError(
                f"{where}: its index map {takes}, and is given {wanted} values: the grid is {self.grid_text}",
                f"give the index map a parameter for {parts}{more}" if wanted else
                "say how many cells there are, `grid=...`, along each axis of the map") from None  # fmt: skip
        except ValueError:
            pass
        found = blocks.one_per_axis(index_map(*ids, *prefetched), len(shape), f"{where}: its block shape {shape}")
        for x in [blocks.start_of(x, s, where) for x, s in zip(found, shape, strict=True)]:
            if x is None or isinstance(x, (str, slice, dict)):
                raise BlockRankError(f"{where}: its index map gives {x!r}",
                                     "give a block index, an integer, for each axis of the block")  # fmt: skip
            t = typeof(x)
            if t.shape or not is_integer(t.dtype):
                raise BlockRankError(f"{where}: its index map gives {t.show()}", "index maps give integers")
        return found

    def _trace(
        self, in_tree: PyTreeDef, first: int, prefetch: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any],
        sliced: Mapping[str, Any], scratch: Sequence[Any], scratch_tree: PyTreeDef,
    ) -> Program:  # fmt: skip
        n, hidden = len(self.grid), len(self.axes)
        types: list[Any] = [ID] * n + [RefType(t, MemorySpace.SMEM) for t in prefetch]
        types += [b.ref_type for b in (*inputs, *outputs)] + list(scratch)

        def fun(*values: Any) -> list[Any]:
            ids, sizes, refs = values[:n], values[n : n + hidden], values[n + hidden :]
            n_in = first + len(inputs)
            args = in_tree.unflatten(refs[:n_in])

            def index(o: int, spec: BlockSpec) -> Sequence[Any]:
                where = f"kernel {self.name}: output {outputs[o].name} of {outputs[o].array.show()}"
                _check_rank(spec.block_shape or (), outputs[o].array, where, False)
                index_map = spec.index_map or (lambda *_: [np.int32(0)] * outputs[o].array.ndim)
                return self._indices(index_map, ids, args[: self.spec.num_scalar_prefetch], where, spec.block_shape)

            rest = scratch_tree.unflatten(refs[n_in + len(outputs) :])
            keywords = rest if isinstance(rest, dict) else {}
            rest = [] if keywords else _several(rest)
            with (self._cell(ids, sizes, current_trace(), mesh),
                  sliced_outputs(refs[n_in : n_in + len(outputs)], sliced, aliased, index) as seen):  # fmt: skip
                outs = _several(self.out_tree.unflatten(seen))
                self._check_parameters((len(args), len(outs), len(rest)), keywords)
                result = self.body(*args, *outs, *rest, **keywords)
            if result is not None:
                shown = typeof(result).show() if isinstance(result, Tracer) else type(result).__name__
                raise KernelBodyError(
                    f"kernel {self.name}: its body returns a value of type {shown}",
                    "a body returns nothing: store results in the output Refs, `o_ref[...] = value`")  # fmt: skip
            return []

        mesh, aliased = tuple(mesh_axes().items()), set(self.aliases.values())
        with on_one_device():
            program = with_device_indices(trace_program(fun, types, self.name), mesh)
            program = inlined(program, self.body, f"kernel {self.name}: its body")
        self._check_refs(program)
        return normalize(program)

    @contextlib.contextmanager
    def _cell(
        self, ids: Sequence[Any], sizes: Sequence[Any], trace: Any = None, mesh: Sequence[Any] = ()
    ) -> Iterator[None]:
        """Within it the body, or an index map, may ask where it is; `sizes` are Refs of those that are computed."""
        grid: list[Any] = list(self.grid)
        for axis, size in zip(self.axes, sizes, strict=True):
            grid[axis] = view(size)[...]
        with contextlib.ExitStack() as stack:
            for name, axis in self.axis_names.items():
                stack.enter_context(extended_axes(name, grid[axis], lambda axis=axis: ids[axis]))
            stack.enter_context(in_cell(Cell(self.name, tuple(ids), tuple(grid), trace, mesh)))
            yield

    def _check_parameters(self, counts: tuple[int, int, int], keywords: dict[str, Any]) -> None:
        """The body takes a Ref for each operand, output and scratch; `keywords` are scratch by name."""
        try:
            signature = inspect.signature(self.body)
        except (TypeError, ValueError):  # a callable that does not tell
            return
        try:
            signature.bind(*range(sum(counts)), **keywords)
        except TypeError as wrong:
            operands, outputs, scratch = counts
            raise KernelBodyError(
                f"kernel {self.name}: its body takes {signature}, and is given the Refs of "
                f"{plural(operands, 'operand')}, {plural(outputs, 'output')} and "
                f"{scratch + len(keywords)} scratch: {wrong}",
                "give the body one parameter for each, in that order") from None  # fmt: skip

    def _check_refs(self, program: Program) -> None:
        """Only operations with an effect on a Ref, loops, branches and calls take Refs."""
        for eqn in every_eqn(program):
            if any(isinstance(getattr(v.type, "dtype", None), KeyDtype) for v in eqn.outputs):
                raise KernelBodyError(
                    f"kernel {self.name}: {eqn.primitive} makes a random key in its body",
                    "a body draws with `lang.prng_seed` and `lang.stateful_normal`, or `lang.counter_normal`",
                    eqn.source)  # fmt: skip
            if eqn.primitive in _ACCESSES and eqn.inputs[0].type.space is MemorySpace.SEMAPHORE:
                raise KernelBodyError(
                    f"kernel {self.name}: {eqn.primitive} was applied to a semaphore, which holds no array",
                    "use `lang.semaphore_signal`, `semaphore_wait` and `semaphore_read`, or hand it to a copy",
                    eqn.source)  # fmt: skip
            if eqn.primitive is kernel_call_p:
                raise KernelBodyError(f"kernel {self.name}: its body calls the kernel {eqn.params['kernel'].name}",
                                      "call the other body as a function of Refs, or run it over parts of them by "
                                      "`emit_pipeline`", eqn.source)  # fmt: skip
            on_refs = any(isinstance(e.operand, int) for e in eqn.effects)
            if touches_refs(eqn) and not on_refs and not any(subprograms(eqn)):
                raise KernelBodyError(
                    f"kernel {self.name}: {eqn.primitive} was applied to a Ref itself",
                    "read it first: `ref[...]`",
                    eqn.source)  # fmt: skip


_ACCESSES = (get_p, swap_p, addupdate_p)


def _semantics(given: Sequence[str] | None, grid: tuple[int, ...], name: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    given = (given,) if isinstance(given, str) else given
    found = tuple(str(getattr(s, "value", s)).lower() for s in given)
    if len(found) != len(grid) or any(
        s not in ("parallel", "arbitrary", "core_parallel", "subcore_parallel") for s in found
    ):
        raise ArgumentError(
            f"kernel {name}: dimension_semantics {tuple(given)} of a grid with {plural(len(grid), 'axis')}",
            'give "parallel" or "arbitrary" for each axis of the grid')  # fmt: skip
    return tuple("arbitrary" if s == "arbitrary" else "parallel" for s in found)


def _check_rank(shape: Sequence[Any], array: ArrayType, where: str, nested: bool) -> None:
    if len(shape) != array.ndim:
        raise BlockRankError(
            f"{where} has rank {array.ndim}, its block shape {shape} has rank {len(shape)}",
            "give the block shape one entry per axis of the operand" + (
                "; a list is as many operands as it has numbers: pass `numpy.asarray(list)`"
                if nested and not array.ndim else ""))  # fmt: skip


def _shape_of_tree(values: Any) -> str:
    """How many there are in a plain sequence; of anything deeper the structure."""
    structure = pytree.structure(values, is_leaf=lambda x: x is None)
    flat = isinstance(values, (tuple, list)) and structure.num_leaves == len(values) == structure.num_nodes - 1
    return str(len(values)) if flat else f"the tree {structure}"


def _match_specs(specs: Any, values: int | Sequence[int], what: str, name: str, like: str) -> list[BlockSpec]:
    """One BlockSpec for each leaf of `values`; `specs` is a prefix of its structure."""
    if specs is None:
        return [no_block_spec] * len(pytree.leaves(values))
    if isinstance(specs, list) and isinstance(values, tuple):
        specs = tuple(specs)
    elif isinstance(specs, tuple) and isinstance(values, list):
        specs = list(specs)
    elif isinstance(specs, (tuple, list)) and len(specs) == 1 and not isinstance(values, (tuple, list)):
        specs = specs[0]
    elif not isinstance(specs, (tuple, list, dict)) and isinstance(values, (tuple, list)) and len(values) == 1:
        specs = type(values)([specs])
    try:
        found = pytree.broadcast_prefix(specs, values)
    except TreeError:
        raise TreeError(
            f"kernel {name}: {what} are {_shape_of_tree(specs)}, the {like} are {_shape_of_tree(values)}",
            "give one BlockSpec for each array, in the same order and the same pytree") from None  # fmt: skip
    for spec in found:
        if not isinstance(spec, BlockSpec | None):
            raise ArgumentError(
                f"kernel {name}: {what} hold {spec!r}", "give BlockSpec values, or None for whole arrays"
            )
    return [spec or no_block_spec for spec in found]


def _several(values: Any) -> list[Any]:
    """The entries of a plain sequence; anything else is one."""
    return list(values) if isinstance(values, (tuple, list)) else [values]


def _parameters(body: Callable[..., Any]) -> list[str]:
    """The names of a body's positional parameters, as far as they are known."""
    try:
        found = inspect.signature(body).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _scratch_names(body: Callable[..., Any], first: int, scratch_tree: PyTreeDef) -> tuple[str, ...]:
    """A name for each scratch: the body's parameter, with the path within it."""
    scratch = scratch_tree.unflatten(range(scratch_tree.num_leaves))
    if isinstance(scratch, dict):
        given = {str(k): v for k, v in scratch.items()}
    else:
        known = _parameters(body)[first:]
        given = {known[i] if i < len(known) else str(i): v for i, v in enumerate(_several(scratch))}
    return tuple(base + pytree.keystr(path) for base, v in given.items() for path, _ in pytree.leaves_with_path(v))


def _names(body: Callable[..., Any], args: Sequence[Any], outs: Sequence[Any]) -> list[str]:
    """A name for each operand and output leaf: the body's parameter, with the path within it."""
    parameters = _parameters(body)
    names = []
    for i, value in enumerate([*args, *outs]):
        base = parameters[i] if i < len(parameters) else (f"in{i}" if i < len(args) else f"out{i - len(args)}")
        names += [base + pytree.keystr(path) for path, _ in pytree.leaves_with_path(value)]
    return names
