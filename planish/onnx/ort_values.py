"""`OrtValue` and `IOBinding`: values and places that programs written for onnxruntime bind to a session.

A value made of an array of the host is that array, and a place that was bound for an output is written to. Values may lie on a GPU
(`device_type="cuda"`): what is bound there is read and written there, and outputs that are asked for there stay.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.compiler.arguments import DeviceArray
from planish.errors import PlanishError
from planish.frontend.devices import checked
from planish.onnx import gpu_calls
from planish.onnx.element_types import dtype_of, number_of, word_of
from planish.onnx.status import InvalidArgument

if TYPE_CHECKING:
    from planish.onnx.options import RunOptions
    from planish.onnx.session import InferenceSession

Array = NDArray[Any]
_KINDS: Final = {"cpu": 0, "cuda": 1}
_DLPACK_CUDA: Final = 2


class OrtDevice:
    """A place where memory is."""

    def __init__(self, name: str = "cpu", number: int = 0) -> None:
        self._kind, self._number = name.lower(), number
        if self._kind not in _KINDS:
            raise InvalidArgument(f"values on {name} cannot be had", remedy="values on cpu or cuda")
        if self._kind == "cuda":
            try:
                checked(self.name)
            except PlanishError as error:
                raise InvalidArgument(error.message, remedy=error.remedy) from None

    @property
    def name(self) -> str:
        """As planish calls it."""
        return "cpu" if self._kind == "cpu" else f"{self._kind}:{self._number}"

    @staticmethod
    def make(ort_device_name: str, device_id: int = 0, vendor_id: int = -1) -> OrtDevice:
        """The place of a name."""
        return OrtDevice(ort_device_name, device_id)

    def device_id(self) -> int:
        """Which one of its kind."""
        return self._number

    def device_type(self) -> int:
        """The kind, as onnxruntime counts: 0 is the processor, 1 a GPU."""
        return _KINDS[self._kind]


class OrtValue:
    """A tensor or a sequence of tensors."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: Any, device_type: str = "cpu", device_id: int = 0, *_: Any
    ) -> OrtValue:
        """An array as a value; on the host both are the same memory."""
        where, array = OrtDevice(device_type, device_id).name, np.asarray(numpy_obj)
        return OrtValue(array if where == "cpu" else gpu_calls.moved(where, array))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: Array, onnx_element_type: int) -> OrtValue:
        """The bits of an array, as elements of a type that NumPy need not have."""
        return OrtValue(data.view(dtype_of(onnx_element_type)))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: Any = np.float32,
        device_type: str = "cpu",
        device_id: int = 0,
        *_: Any,
    ) -> OrtValue:
        """Room for a tensor."""
        where, room = OrtDevice(device_type, device_id).name, np.empty(tuple(shape), dtype_of(element_type))
        return OrtValue(room if where == "cpu" else gpu_calls.moved(where, room))

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """What another library holds, without a copy."""
        if data.__dlpack_device__()[0] == _DLPACK_CUDA:
            return OrtValue(gpu_calls.taken(data))
        array = np.from_dlpack(data)
        return OrtValue(array.view(np.bool_) if is_bool_tensor else array)

    def numpy(self) -> Any:
        """The array; a copy of one that lies on a GPU."""
        return np.asarray(self._value) if isinstance(self._value, DeviceArray) else self._value

    @property
    def storage(self) -> Any:
        """The array, wherever it lies."""
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = np.asarray(self._value, dtype)
        return array.copy() if copy and array is self._value else array

    def __dlpack__(self, **options: Any) -> Any:
        if isinstance(self._value, DeviceArray):
            return gpu_calls.capsule(self._value, **options)
        return self._value.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        if isinstance(self._value, DeviceArray):
            return _DLPACK_CUDA, gpu_calls.number_of(self._value)
        return self._value.__dlpack_device__()

    def update_inplace(self, np_arr: Array) -> None:
        """Other elements, in the same place."""
        if np_arr.shape != self._value.shape or np_arr.dtype != self._value.dtype:
            raise InvalidArgument(
                f"{np_arr.dtype}{list(np_arr.shape)} does not fit {self._value.dtype}{list(self._value.shape)}"
            )
        _put(np_arr, self._value)

    def data_ptr(self) -> int:
        """Where its first element is."""
        value = self._value
        return gpu_calls.address_of(value) if isinstance(value, DeviceArray) else int(value.ctypes.data)

    def data_type(self) -> str:
        """Its type, in onnxruntime's words."""
        if isinstance(self._value, list):
            return f"seq({OrtValue(self._value[0]).data_type() if self._value else 'tensor(float)'})"
        return f"tensor({word_of(self._value.dtype.name)})"

    def element_type(self) -> int:
        """The number that ONNX has for its elements' type."""
        return number_of(self._value.dtype)

    def shape(self) -> list[int]:
        """Its sizes."""
        return [len(self._value)] if isinstance(self._value, list) else list(self._value.shape)

    def tensor_size_in_bytes(self) -> int:
        """How large it is."""
        return int(self._value.nbytes)

    def device_name(self) -> str:
        """Where it is."""
        return "cuda" if isinstance(self._value, DeviceArray) else "cpu"

    def has_value(self) -> bool:
        """Whether there is something."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is one tensor."""
        return isinstance(self._value, np.ndarray | DeviceArray)

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        """Sparse tensors are none here."""
        return False


class IOBinding:
    """Inputs and places for outputs, bound to names of a session."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._places: dict[str, Any] = {}
        """Where an output goes: memory that is given, None for new memory of the host, the name of a device for its own."""
        self._outputs: list[OrtValue] = []
        self._names = {node.name for node in (*session.get_inputs(), *session.get_overridable_initializers())}

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """An array for an input. It is looked at when the session runs, not before."""
        if name not in self._names:
            raise _unbound(name, self._names)
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """A value for an input."""
        self.bind_cpu_input(name, ortvalue)

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Memory for an input."""
        where = OrtDevice(device_type, device_id).name
        self.bind_cpu_input(name, _at(where, buffer_ptr, shape, element_type))

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output; where memory is given, it is written there."""
        where = OrtDevice(device_type, device_id).name
        if buffer_ptr is None or shape is None:
            self._places[name] = None if where == "cpu" else where
        else:
            self._places[name] = _at(where, buffer_ptr, shape, element_type)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Ask for an output, to be written to a value."""
        self._places[name] = ortvalue.storage

    def clear_binding_inputs(self) -> None:
        """No inputs are bound."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """No outputs are asked for."""
        self._places.clear()
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Nothing is under way."""

    def synchronize_outputs(self) -> None:
        """Nothing is under way."""

    def get_outputs(self) -> list[OrtValue]:
        """What the last run gave, in the order of binding."""
        return list(self._outputs)

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self) -> list[Any]:
        """What the last run gave, as arrays."""
        return [value.numpy() for value in self._outputs]

    def run(self, run_options: RunOptions | None = None) -> None:
        """Run the session on what is bound."""
        if not self._places:
            raise BindingError("no output is bound", remedy="bind_output(name)")
        results = self._session.run_where_they_are(list(self._places), self._inputs, run_options)
        self._outputs = [
            OrtValue(_written(name, result, place))
            for (name, place), result in zip(self._places.items(), results, strict=True)
        ]


class BindingError(PlanishError, RuntimeError):
    """A binding that asks for nothing, or names nothing: a RuntimeError in onnxruntime."""


def _unbound(name: str, names: set[str]) -> PlanishError:
    return BindingError(
        f"the model has no input {name!r}", remedy=f"it has {', '.join(sorted(names)) or 'none'}"
    )


def _written(name: str, result: Any, place: Any) -> Any:
    if place is None:
        return np.asarray(result) if isinstance(result, DeviceArray) else result
    if isinstance(place, str):
        return gpu_calls.moved(place, result)
    if place.shape != result.shape or place.dtype != result.dtype:
        raise InvalidArgument(
            f"output {name!r} is {result.dtype}{list(result.shape)}, "
            f"the place bound for it {place.dtype}{list(place.shape)}"
        )
    _put(result, place)
    return place


def _put(array: Any, place: Any) -> None:
    """Elements into memory that is there."""
    if isinstance(place, DeviceArray):
        gpu_calls.written(array, place)
    else:
        np.copyto(place, np.asarray(array))


def _at(where: str, pointer: int, shape: Sequence[int], element_type: Any) -> Any:
    dtype = dtype_of(element_type)
    if where != "cpu":
        return gpu_calls.at(where, pointer, dtype, tuple(shape))
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return np.empty(tuple(shape), dtype)
    buffer = (ctypes.c_char * size).from_address(pointer)
    array: Array = np.frombuffer(memoryview(buffer), dtype).reshape(tuple(shape))
    return array


__all__ = ["IOBinding", "OrtDevice", "OrtValue"]
