"""Records are dataclasses: each behaves as the one that `dataclasses` makes of the same class."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.records import dataclass

OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (False, True)
]


def plain(make: Callable[..., Any], **options: bool) -> type:
    @make(**options)
    class Record:
        """A record."""

        x: int
        y: tuple[int, ...] = ()
        z: list[int] = field(default_factory=list)
        hidden: int = field(default=7, repr=False, compare=False)
        later: int = field(init=False, default=3)
        made: list[int] = field(init=False, default_factory=list, compare=False)

    return Record


def with_own(make: Callable[..., Any], **options: bool) -> type:
    @make(**options)
    class Record:
        """A record with methods of its own."""

        x: int
        total: int = field(init=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", 2 * self.x)

        def __repr__(self) -> str:
            return f"<{self.x}>"

        def __hash__(self) -> int:
            return 5

    return Record


def heir(make: Callable[..., Any], **options: bool) -> type:
    @make(**options)
    class Base:
        """A parent."""

        x: int
        y: int = 1

    @make(**options)
    class Record(Base):
        """A child."""

        z: int = 2

    return Record


def outcome(action: Callable[..., object], *given: object) -> object:
    try:
        return action(*given)
    except Exception as error:  # noqa: BLE001 - the kind is what is compared
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", [plain, with_own, heir])
def test_a_record_is_a_dataclass(shape: Callable[..., type], options: dict[str, bool]) -> None:
    ours, theirs = shape(dataclass, **options), shape(dataclasses.dataclass, **options)
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert [f.name for f in dataclasses.fields(ours)] == [f.name for f in dataclasses.fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__  # type: ignore[attr-defined]
    assert hasattr(ours(1), "__dict__") == hasattr(theirs(1), "__dict__")
    told = []
    for cls in (ours, theirs):
        one, same, other = cls(1), cls(1), cls(2)
        told.append(
            [
                repr(one),
                one == same,
                one == other,
                one != other,
                one == 3,
                outcome(lambda x, y: hash(x) == hash(y), one, same) if options["eq"] else None,
                outcome(setattr, one, "x", 5),
                outcome(delattr, one, "x"),
                outcome(lambda x: dataclasses.asdict(dataclasses.replace(x, x=9)), one) if shape is not with_own else None,
                outcome(cls),
            ]
        )  # fmt: skip
    assert told[0] == told[1]


@dataclass(frozen=True, slots=True)
class Place:
    """Something to be pickled."""

    x: int
    label: str = "here"


@given(st.integers(), st.text())
def test_pickling(x: int, label: str) -> None:
    assert pickle.loads(pickle.dumps(Place(x, label))) == Place(x, label)
    assert hash(Place(x, label)) == hash((x, label))


def test_a_field_is_not_assigned() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        Place(1).x = 2  # type: ignore[misc]


def test_other_options_are_those_of_dataclasses() -> None:
    @dataclass(order=True)
    class Ordered:
        """With an order."""

        x: int

    assert Ordered(1) < Ordered(2)


def test_heirs_made_by_dataclasses() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Near(Place):
        """An heir."""

        far: bool = False

    assert Near(1, far=True) == Near(1, "here", True)
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        dataclasses.dataclass(type("Loose", (Place,), {}))


def test_one_function_is_compiled_for_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(dataclasses, "_create_fn", lambda name, *a, **k: compiled.append(name))
    plain(dataclass, frozen=True, slots=True)
    assert compiled == []
