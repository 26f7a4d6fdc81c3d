"""Functions and objects that run beside the devices of their arguments: in this process, as they are stated."""

import pytest

import tilewright as tw
from tilewright import numpy as tnp
from tilewright.errors import ArgumentError
from tilewright.experimental.colocated_python import colocated_cpu_devices, colocated_python, colocated_python_class


@colocated_python
def twice(x, *, more=None):
    return {"twice": 2 * x, "more": more}


@colocated_python
def nothing():
    return tnp.zeros(2)


def test_a_function_runs_at_once_with_its_arrays():
    x = tnp.arange(3)
    out = twice(x, more=x)
    assert out["twice"].tolist() == [0, 2, 4] and out["more"] is x
    assert twice.__name__ == "twice"
    assert nothing.specialize(devices=tw.devices())().tolist() == [0, 0]


def spec(n):
    return tw.ShapeDtypeStruct((n,), tnp.float32)


REFUSED = {
    "a number": (lambda: twice(3), "an argument of twice is of type int"),
    "a tracer": (lambda: tw.jit(twice)(1.0), "an argument of twice is of type"),
    "a result": (lambda: colocated_python(lambda x: 3)(tnp.ones(2)), "a result of <lambda> is of type int"),
    "no device": (nothing, "nothing says where"),
    "twice": (lambda: nothing.specialize(devices=tw.devices()).specialize(devices=tw.devices()), "stated already"),
    "arguments": (lambda: twice.specialize(in_specs=((spec(3),), {}))(tnp.ones(2)), "the arguments of twice are"),
    "results": (lambda: twice.specialize(out_specs_fn=lambda x: x)(tnp.ones(2)), "the results of twice are"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_as_stated_is_refused(what):
    call, message = REFUSED[what]
    with pytest.raises(ArgumentError, match=message):
        call()


def test_stated_types_that_fit():
    def types(x):
        return {"twice": x, "more": None}

    stated = twice.specialize(in_specs=((spec(2),), {}), out_specs_fn=types)
    assert stated(tnp.ones(2))["twice"].tolist() == [2, 2]


def test_an_object_is_made_at_its_first_call_and_kept():
    made = []

    @colocated_python_class
    class Sum:
        """A sum."""

        def __init__(self, start):
            made.append(start)
            self.total = start

        def add(self, x):
            self.total = self.total + x
            return self.total

    first, second = Sum(1), Sum(10)
    assert made == [] and Sum.__name__ == "Sum" and Sum.__doc__ == "A sum."
    assert [float(first.add(tnp.ones(()))) for _ in range(2)] == [2.0, 3.0]
    assert float(second.add(tnp.ones(()))) == 11.0 and made == [1, 10] and not hasattr(first, "total")


def test_devices_of_the_processor_are_their_own():
    devices = tw.devices("cpu")
    mesh = tw.sharding.Mesh(devices[:1], ("x",))
    assert colocated_cpu_devices(devices) == devices and colocated_cpu_devices(mesh) == mesh
