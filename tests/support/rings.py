"""Kernels that speak to other devices, right and wrong, and kernels as they are traced on a mesh without devices."""

from tilewright import lang as tl
from tilewright import lax
from tilewright.core.ir.types import ArrayType
from tilewright.core.tracing.trace import on_each_device, trace_program, typeof
from tilewright.lang.kernel.traverse import kernels_of

FAR = tl.BlockSpec(memory_space=tl.ANY)
DMA = tl.SemaphoreType.DMA


def traced(f, mesh, *arrays):
    """The one kernel that a function of a device's arrays calls."""
    with on_each_device(mesh):
        program = trace_program(lambda *given: [f(*given)], [typeof(a) for a in arrays])
    (kernel,) = kernels_of(program)
    return kernel


def neighbours(axis, n):
    here = lax.axis_index(axis)
    return here, lax.rem(here + 1, n), lax.rem(here + n - 1, n)


def gather(x, n, axis="x", interpret=False, wrong="", name=lambda place, axis: {axis: place}, **options):
    """Every device's array, passed from each to the next one; `wrong` leaves something out."""

    def body(x, o, local, send, receive):
        here, after, before = neighbours(axis, n)
        barrier = tl.get_barrier_semaphore()
        if wrong not in ("no barrier", "unmet"):
            tl.semaphore_signal(barrier, 1, device_id=name(before, axis))
        if wrong not in ("left over", "unmet"):
            tl.semaphore_wait(barrier, 1)
        own = tl.make_async_copy(x, o.at[here], local)
        own.start()
        own.wait()
        for k in range(n - 1):
            slot = lax.rem(here + n - k, n)
            copy = tl.make_async_remote_copy(o.at[slot], o.at[slot], send, receive.at[k], name(after, axis))
            if wrong != "not started":
                copy.start()
            if wrong == "sending" and k == 0:
                o[slot, ...] = o[slot, ...] * 2
            if wrong != "not sent":
                copy.wait_send()
            if wrong == "too soon":
                o[lax.rem(slot + n - 1, n), ...] += 1
            if wrong != "not received":
                copy.wait_recv()

    scratch = [DMA, DMA, DMA((n - 1,))]
    return tl.kernel_call(body, ArrayType((n, *x.shape), x.dtype), in_specs=[FAR], out_specs=FAR,
                          scratch_shapes=scratch, interpret=interpret, name="gather", **options)(x)  # fmt: skip


def exchange(x, n, axis="x", interpret=False):
    """`all_to_all` along the first axis: row i of device j becomes row j of device i, by numbers that loops compute."""

    def body(x, o, send, receive):
        here, _, _ = neighbours(axis, n)
        barrier = tl.get_barrier_semaphore()
        for k in range(n):
            tl.semaphore_signal(barrier, 1, device_id={axis: k})
        tl.semaphore_wait(barrier, n)

        def copy(k):
            return tl.make_async_remote_copy(x.at[k], o.at[here], send, receive, {axis: k})

        @tl.loop(0, n)
        def _(k):
            copy(lax.rem(here + k, n)).start()

        @tl.loop(0, n)
        def _(k):
            copy(k).wait()

    return tl.kernel_call(body, ArrayType(x.shape, x.dtype), in_specs=[FAR], out_specs=FAR, scratch_shapes=[DMA, DMA],
                          interpret=interpret, name="exchange")(x)  # fmt: skip


def sums(x, n, axis="x", interpret=False, free=True):
    """The sum over devices: what each has goes once around, through one of two slots in turn."""

    def body(x, o, slots, send, receive, done):
        _, after, before = neighbours(axis, n)
        barrier = tl.get_barrier_semaphore()
        for other in (after, before):
            tl.semaphore_signal(barrier, 1, device_id={axis: other})
        tl.semaphore_wait(barrier, 2)
        slots[0, ...] = x[...]
        o[...] = x[...]
        for k in range(n - 1):
            if k and free:
                tl.semaphore_wait(done, 1)
            now, then = k % 2, 1 - k % 2
            copy = tl.make_async_remote_copy(slots.at[now], slots.at[then], send, receive.at[then], {axis: after})
            copy.start()
            copy.wait()
            o[...] += slots[then]
            if free and k < n - 2:
                tl.semaphore_signal(done, 1, device_id={axis: before})

    scratch = [tl.VMEM((2, *x.shape), x.dtype), DMA, DMA((2,)), tl.SemaphoreType.REGULAR]
    return tl.kernel_call(body, ArrayType(x.shape, x.dtype), scratch_shapes=scratch, interpret=interpret,
                          name="sums")(x)  # fmt: skip
