"""A reader of pickles that builds containers and calls nothing.

A pickle is a program. This is an interpreter for the part of its language that makes numbers, texts, lists, tuples, dicts and
sets. Where a pickle names a function or a class, the reader makes a `Global` of the name, and where it wants one called, it asks
`rebuild`, which knows the few names it stands in for. Nothing is imported, and no object but these has its state set.
"""

from __future__ import annotations

import pickletools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final


class PickleError(Exception):
    """A pickle that cannot be read, or must not be."""


@dataclass(frozen=True, slots=True)
class Global:
    """The name of something in a Python module."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


Rebuild = Callable[[Global, tuple[Any, ...]], Any]
"""What a call of a name with arguments gives."""
Persistent = Callable[[Any], Any]
"""What an id stands for that the pickle leaves to its surroundings."""
Named = Callable[[Global], Any]
"""What a name by itself stands for; the name itself where that is nothing known."""

_MARK: Final = object()
_LITERALS: Final = frozenset(
    {
        "BINBYTES", "BINBYTES8", "BINFLOAT", "BININT", "BININT1", "BININT2", "BINSTRING", "BINUNICODE", "BINUNICODE8",
        "FLOAT", "INT", "LONG", "LONG1", "LONG4", "SHORT_BINBYTES", "SHORT_BINSTRING", "SHORT_BINUNICODE", "STRING", "UNICODE",
    }
)  # fmt: skip
_CONSTANTS: Final = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: Final[dict[str, Callable[[], Any]]] = {
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}  # fmt: skip
_SHORT_TUPLES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read(data: bytes, rebuild: Rebuild, persistent: Persistent, named: Named) -> Any:
    """The object that a pickle describes."""
    try:
        with warnings.catch_warnings():
            # Python warns of odd escapes in texts, which are the file's, not the user's.
            warnings.simplefilter("ignore", DeprecationWarning)
            return _PickleMachine(rebuild, persistent, named).run(data)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise PickleError(f"the pickle is damaged ({type(error).__name__}: {error})") from None


class _PickleMachine:
    def __init__(self, rebuild: Rebuild, persistent: Persistent, named: Named) -> None:
        self.rebuild = rebuild
        self.persistent = persistent
        self.named = named
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            name = opcode.name
            if name == "STOP":
                return self.stack.pop()
            if name in _LITERALS:
                self.stack.append(argument)
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            elif name in _EMPTY:
                self.stack.append(_EMPTY[name]())
            elif name in _SHORT_TUPLES:
                count = _SHORT_TUPLES[name]
                if len(self.stack) < count:
                    raise ValueError("a tuple of nothing")
                self.stack[-count:] = [tuple(self.stack[-count:])]
            else:
                step = _STEPS.get(name)
                if step is None:
                    raise PickleError(f"the pickle uses {name}, which containers of tensors do not need")
                step(self, argument)
        raise ValueError("it has no end")

    def marked(self) -> list[Any]:
        """What lies above the last mark."""
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                above = self.stack[at + 1 :]
                del self.stack[at:]
                return above
        raise ValueError("there is no mark")

    # --- steps ---

    def nothing(self, argument: Any) -> None:
        """Framing and the protocol's number."""

    def mark(self, argument: Any) -> None:
        self.stack.append(_MARK)

    def pop(self, argument: Any) -> None:
        self.stack.pop()

    def pop_mark(self, argument: Any) -> None:
        self.marked()

    def duplicate(self, argument: Any) -> None:
        self.stack.append(self.stack[-1])

    def put(self, argument: Any) -> None:
        self.memo[int(argument)] = self.stack[-1]

    def memoize(self, argument: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def get(self, argument: Any) -> None:
        self.stack.append(self.memo[int(argument)])

    def tuple_(self, argument: Any) -> None:
        self.stack.append(tuple(self.marked()))

    def list_(self, argument: Any) -> None:
        self.stack.append(self.marked())

    def dict_(self, argument: Any) -> None:
        entries: dict[Any, Any] = {}
        _fill(entries, self.marked())
        self.stack.append(entries)

    def frozenset_(self, argument: Any) -> None:
        self.stack.append(frozenset(map(plain, self.marked())))

    def append(self, argument: Any) -> None:
        value = self.stack.pop()
        _of(list, self.stack[-1]).append(value)

    def appends(self, argument: Any) -> None:
        values = self.marked()
        _of(list, self.stack[-1]).extend(values)

    def add_items(self, argument: Any) -> None:
        values = self.marked()
        _of(set, self.stack[-1]).update(map(plain, values))

    def set_item(self, argument: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _fill(_of(dict, self.stack[-1]), [key, value])

    def set_items(self, argument: Any) -> None:
        values = self.marked()
        _fill(_of(dict, self.stack[-1]), values)

    def global_(self, argument: Any) -> None:
        module, _, name = str(argument).partition(" ")
        self.stack.append(self.named(Global(module, name)))

    def stack_global(self, argument: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(self.named(Global(_text(module), _text(name))))

    def persistent_id(self, argument: Any) -> None:
        self.stack.append(self.persistent(self.stack.pop()))

    def reduce(self, argument: Any) -> None:
        given, function = self.stack.pop(), self.stack.pop()
        self.call(function, given)

    def new(self, argument: Any) -> None:
        given, kind = self.stack.pop(), self.stack.pop()
        self.call(kind, given)

    def call(self, function: Any, given: Any) -> None:
        if not isinstance(function, Global):
            raise TypeError(f"a {type(function).__name__} is called")
        self.stack.append(self.rebuild(function, _of(tuple, given)))

    def build(self, argument: Any) -> None:
        """An ordered dict may carry attributes (a state_dict notes the versions of modules there): they are left out."""
        self.stack.pop()
        if not isinstance(self.stack[-1], OrderedDict):
            raise PickleError(f"the pickle sets the state of a {type(self.stack[-1]).__name__}")


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name that is no text")
    return value


def plain(value: Any) -> Hashable:
    """Only plain values may be keys: hashing them runs nothing of anybody's."""
    if value is None or isinstance(value, bool | int | float | str | bytes | Global):
        return value
    if type(value) is tuple:
        return tuple(map(plain, value))
    raise TypeError(f"a {type(value).__name__} as a key")


def _fill(target: dict[Any, Any], items: list[Any]) -> None:
    if len(items) % 2:
        raise ValueError("a key without a value")
    for at in range(0, len(items), 2):
        target[plain(items[at])] = items[at + 1]


_STEPS: Final[dict[str, Callable[[_PickleMachine, Any], None]]] = {
    "PROTO": _PickleMachine.nothing,
    "FRAME": _PickleMachine.nothing,
    "MARK": _PickleMachine.mark,
    "POP": _PickleMachine.pop,
    "POP_MARK": _PickleMachine.pop_mark,
    "DUP": _PickleMachine.duplicate,
    "PUT": _PickleMachine.put,
    "BINPUT": _PickleMachine.put,
    "LONG_BINPUT": _PickleMachine.put,
    "MEMOIZE": _PickleMachine.memoize,
    "GET": _PickleMachine.get,
    "BINGET": _PickleMachine.get,
    "LONG_BINGET": _PickleMachine.get,
    "TUPLE": _PickleMachine.tuple_,
    "LIST": _PickleMachine.list_,
    "DICT": _PickleMachine.dict_,
    "FROZENSET": _PickleMachine.frozenset_,
    "APPEND": _PickleMachine.append,
    "APPENDS": _PickleMachine.appends,
    "ADDITEMS": _PickleMachine.add_items,
    "SETITEM": _PickleMachine.set_item,
    "SETITEMS": _PickleMachine.set_items,
    "GLOBAL": _PickleMachine.global_,
    "STACK_GLOBAL": _PickleMachine.stack_global,
    "BINPERSID": _PickleMachine.persistent_id,
    "REDUCE": _PickleMachine.reduce,
    "NEWOBJ": _PickleMachine.new,
    "BUILD": _PickleMachine.build,
}
