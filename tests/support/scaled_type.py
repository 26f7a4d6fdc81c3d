"""A type of values as a client defines one (`hijax.HiType`): arrays of rounded numbers with a scale for each row."""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import numpy as jnp
from tilewright.as_jax import aliases
from tilewright.as_jax.jax.experimental import hijax
from tilewright.core.ir.extension_types import opaque_types
from tilewright.core.tracing.trace import typeof

F32 = np.dtype("float32")


@dataclass(frozen=True)
class Scaled:
    """An array as rounded values and a scale for each row."""

    values: Any  # int8[*leading, n]
    scale: Any  # f32[*leading]


@dataclass(frozen=True)
class Leading(hijax.MappingSpec):
    pass


@dataclass(frozen=True)
class Rows(hijax.HiPspec):
    spec: Any

    def to_lo(self):
        return self.spec, self.spec

    def to_tangent_spec(self):
        return self.spec


@dataclass(frozen=True)
class ScaledTy(hijax.HiType):
    shape: tuple[int, ...]

    def lo_ty(self):
        return [hijax.ShapedArray(self.shape, "int8"), hijax.ShapedArray(self.shape[:-1], F32)]

    def lower_val(self, x):
        return [x.values, x.scale]

    def raise_val(self, values, scale):
        return Scaled(values, scale)

    def to_tangent_aval(self):
        return hijax.ShapedArray(self.shape, F32)

    def dec_rank(self, size, spec):
        assert spec == Leading() and self.shape[0] == size
        return ScaledTy(self.shape[1:])

    def inc_rank(self, size, spec):
        assert spec == Leading()
        return ScaledTy((size, *self.shape))

    def leading_axis_spec(self):
        return Leading()

    def shard(self, mesh, manual_axes, check_vma, spec):
        return ScaledTy(self.lo_ty()[0].shard(mesh, manual_axes, check_vma, spec.spec).shape)

    def unshard(self, mesh, check_vma, spec):
        return ScaledTy(self.lo_ty()[0].unshard(mesh, check_vma, spec.spec).shape)

    @hijax.aval_property
    def rows(self):
        return typeof(self).shape[0]

    @hijax.aval_method
    def plus(self, x):
        return encode(decode(self) + x)

    def _add(self, q, x):
        return q.plus(x)

    def str_short(self, short_dtypes=False, mesh_axis_types=False):
        return f"q8[{','.join(map(str, self.shape))}]"


class Encode(hijax.HiPrim):
    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), ScaledTy(aval.shape), {}
        super().__init__()

    def expand(self, x):
        scale = jnp.max(jnp.abs(x), axis=-1) / 127.0
        return Scaled(jnp.round(x / scale[..., None]).astype(jnp.int8), scale)

    def vjp_fwd(self, nzs_in, x):
        return self(x), None

    def vjp_bwd_retval(self, res, g):
        return (g,)

    def jvp(self, primals, tangents):
        return self(*primals), tangents[0]

    def batch(self, axis, args, dims):
        return encode(jnp.moveaxis(args[0], dims[0], 0)), Leading()


class Decode(hijax.HiPrim):
    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), hijax.ShapedArray(aval.shape, F32), {}
        super().__init__()

    def expand(self, x):
        return x.values.astype(F32) * x.scale[..., None]

    vjp_fwd: Any = Encode.vjp_fwd
    vjp_bwd_retval, jvp = Encode.vjp_bwd_retval, Encode.jvp

    def batch(self, axis, args, dims):
        assert dims == (Leading(),)
        return decode(args[0]), 0


class Both(hijax.HiPrim):
    """Decodes two; its expansion uses other primitives."""

    def __init__(self, *avals):
        self.in_avals, self.out_aval, self.params = avals, ScaledTy(avals[0].shape), {}
        super().__init__()

    def expand(self, x, y):
        return encode(decode(x) + decode(y))


def encode(x):
    return Encode(typeof(x))(x)


def decode(q):
    return Decode(typeof(q))(q)


X = np.array([[1.0, 2.0, 3.0], [4.0, -5.0, 6.0]], np.float32)
XS = np.stack([X, 2 * X, -X, 0.5 * X])


def rounded(x):
    scale = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    return np.round(x / scale) * scale


def same(q, x):
    """A value of the type stands for an array."""
    assert typeof(q) == ScaledTy(x.shape) and isinstance(q, Scaled)
    assert np.allclose(q.values * np.asarray(q.scale)[..., None], x, rtol=1e-6)


@contextlib.contextmanager
def registered(more=()):
    """Within it, `Scaled` is a class of values, and so are those of `more`."""
    types = {Scaled: lambda x: ScaledTy(x.values.shape), **dict(more)}
    for kind, type_of in types.items():
        hijax.register_hitype(kind, type_of)
    alone = not aliases.present()
    aliases.add()
    try:
        yield
    finally:
        if alone:
            aliases.remove()
        for kind in types:
            del opaque_types[kind]
