"""Our dataclasses do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import pprint
from typing import Any

import pytest

from pure_agent_loop import TokenUsage
from pure_agent_loop.support import typed


def kinds(made: Any) -> tuple[Any, Any, Any]:
    """A frozen, a changeable and an inheriting class."""

    @made(frozen=True, slots=True)
    class Point:
        "A place."

        x: float
        y: list[int] = dataclasses.field(default_factory=list, compare=False)
        hidden: int = dataclasses.field(default=0, repr=False)

    @made(slots=True)
    class Count:
        "A number."

        of: Any = None

        def __repr__(self) -> str:
            return "counted"

    @made(frozen=True)
    class Place(Point):
        "A place with a name."

        name: str = ""

    return Point, Count, Place


def said(made: Any) -> list[Any]:
    """What the classes of one maker do."""
    point, count, place = kinds(made)
    nan = float("nan")
    circle = made(slots=True)(type("Circle", (), {"__annotations__": {"of": Any}, "__doc__": "Round."}))(None)
    circle.of = circle
    return [
        repr(point(1, [2])),
        repr(place(1, name="a")),
        repr(count(3)),
        repr(circle),
        point(1) == point(1),
        point(1, [1]) == point(1, [2]),
        point(1, hidden=1) == point(1),
        point(nan) == point(nan),
        point(1) == place(1),
        place(1, name="a") == place(1, name="b"),
        point(1) == (1,),
        point(1) != point(1),
        hash(point(1, [1])) == hash(point(1, [2])),
        {point(1): 2}.get(point(1)),
        point.__hash__(point(1)) == hash((1, 0)),
        count.__hash__,
        dataclasses.replace(point(1), x=2) == point(2),
        dataclasses.asdict(point(1, [2])),
        copy.deepcopy(point(1, [2])) == point(1, [2]),
        point.__slots__,
        point.__match_args__,
    ]


def test_they_compare_hash_and_print_alike():
    assert said(typed.dataclass) == said(dataclasses.dataclass)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("names", [["__eq__"], ["__hash__"], ["__eq__", "__hash__"], []], ids="+".join)
def test_what_a_class_says_itself_holds(names, frozen):
    own = {"__eq__": lambda *_: True, "__hash__": lambda _: 7}

    def kind(made: Any) -> Any:
        body = {"__annotations__": {"of": int}, "__doc__": "One.", **{name: own[name] for name in names}}
        return made(frozen=frozen)(type("Own", (), body))

    ours, standard = kind(typed.dataclass), kind(dataclasses.dataclass)
    assert (ours(1) == ours(2)) is (standard(1) == standard(2))
    assert (ours.__hash__ is None) is (standard.__hash__ is None)
    assert ours.__hash__ is None or hash(ours(1)) == hash(standard(1))


def test_they_refuse_to_be_changed():
    point, count, place = kinds(typed.dataclass)
    for value in (point(1), place(1)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.x = 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(count())


def test_those_that_do_not_compare_are_themselves():
    @typed.dataclass(eq=False)
    class Own:
        "A thing."

        x: int

    assert Own(1) != Own(1)
    assert len({Own(1), Own(1)}) == 2


def test_a_public_one_can_be_pickled_and_inherited():
    @dataclasses.dataclass(frozen=True)
    class Mine(TokenUsage):
        "With a price."

        price: float = 0

    usage = TokenUsage(1, 2, 3)
    assert pickle.loads(pickle.dumps(usage)) == usage
    assert Mine(1, 2, 3, price=1) != Mine(1, 2, 3)


def described(made: Any) -> list[Any]:
    """What classes of others make of one that inherits, without methods of their own."""

    @made(frozen=True, slots=True)
    class Base:
        "A thing."

        x: int

    @dataclasses.dataclass(frozen=True, repr=False)
    class Silent(Base):
        "With a secret."

        key: str = ""

    @dataclasses.dataclass(frozen=True, eq=False)
    class Noted(Base):
        "With notes."

        notes: list[int] = dataclasses.field(default_factory=list)

    return [
        repr(Silent(1, "k")),
        Noted(1, [1]) == Noted(1, [2]),
        hash(Noted(1, [1])) == hash(Noted(1, [2])),
        pprint.pformat(Base(10**90)),
        [getattr(Base.__dataclass_params__, name) for name in ("eq", "repr", "frozen")],
    ]


def test_classes_that_inherit_get_what_was_made_for_the_first():
    assert described(typed.dataclass) == described(dataclasses.dataclass)


def test_pytest_says_where_two_differ():
    with pytest.raises(AssertionError, match="Differing attributes"):
        assert TokenUsage(1, 2, 3) == TokenUsage(1, 2, 4)
