"""Every public value and error can be handed to another process and back, with its fields.

The walk covers all that the package and its subpackages export, so the next one is covered, too.
"""

from __future__ import annotations

import concurrent.futures
import copy
import dataclasses
import enum
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
import threading
import typing
from collections.abc import Iterator

import pytest

import pure_agent_loop
from pure_agent_loop import Agent, LLMError, RunInterrupted
from pure_agent_loop import errors as root_errors
from pure_agent_loop.errors import AuditError, MissingExtraError, PureAgentLoopError
from pure_agent_loop.testing import ScriptedLLM, call


def _modules() -> Iterator[typing.Any]:
    yield pure_agent_loop
    yield root_errors
    for found in pkgutil.iter_modules(pure_agent_loop.__path__):
        if not found.name.startswith("_"):
            yield importlib.import_module(f"pure_agent_loop.{found.name}")


def _exported() -> dict[str, type]:
    kinds = {}
    for module in _modules():
        for name in getattr(module, "__all__", dir(module) if module is root_errors else ()):
            value = getattr(module, name)
            if isinstance(value, type) and value.__module__.startswith("pure_agent_loop"):
                kinds[f"{value.__module__}.{value.__qualname__}"] = value
    return kinds


KINDS = _exported()
ERRORS = {name: kind for name, kind in KINDS.items() if issubclass(kind, BaseException) and "._" not in name}
# They belong to something that runs in this process: an agent, a server of a test.
AT_HOME = {"Handoff", "ServerRequest", "Silence"}
VALUES = {
    name: kind
    for name, kind in KINDS.items()
    if (dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")))
    and kind.__qualname__ not in AT_HOME
}


def made(kind: typing.Any, depth: int = 0) -> typing.Any:
    """Some value of a type."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind in (str, int, float, bool, bytes, dict, list):
        return {str: "a word", int: 2, float: 1.5, bool: True, bytes: b"x", dict: {"a": 1}, list: [1]}[kind]
    if origin is typing.Literal:
        return parts[0]
    if origin in (typing.Union, getattr(__import__("types"), "UnionType", None)):
        return made(parts[0], depth)
    if origin in (list, tuple, dict) or getattr(origin, "__name__", "") in ("Sequence", "Mapping"):
        return {} if origin is dict or origin.__name__ == "Mapping" else ()
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    if dataclasses.is_dataclass(kind) and depth < 4:
        return instance(kind, depth + 1)
    return None


def instance(kind: typing.Any, depth: int = 0) -> typing.Any:
    """An instance whose fields without a default are filled by their types."""
    if kind.__qualname__ in FACTORIES:
        return FACTORIES[kind.__qualname__](kind)
    try:
        hints = typing.get_type_hints(kind)
    except NameError:  # names for type checkers only
        hints = {}
    if dataclasses.is_dataclass(kind):
        fields = {
            f.name: made(hints.get(f.name), depth)
            for f in dataclasses.fields(kind)
            if f.init and f.default is f.default_factory is dataclasses.MISSING
        }
        return kind(**fields)
    if issubclass(kind, BaseException) and not inspect.isfunction(kind.__init__):
        return kind("a word")
    signature = inspect.signature(kind)
    wanted = [p for p in signature.parameters.values() if p.default is p.empty and p.kind not in (2, 4)]
    return kind(*(made(hints.get(p.name, p.annotation), depth) or "x" for p in wanted))


FACTORIES: dict[str, typing.Callable[[typing.Any], typing.Any]] = {
    "LLMError": lambda kind: kind(
        "no", KeyError("inside"), kind="auth", status=401, retry_after=2.0, said="the server's own words"
    ),
    "Delivery": lambda kind: kind("file", "x.md"),
    "Schedule": lambda kind: kind("word", agent="a", prompt="p", every=60.0),
    "ServerSettings": lambda kind: kind("word", command=("x",)),
    "Person": lambda kind: kind("word"),
    "AgentDefinition": lambda kind: kind("word", "what for", "Do it."),
    "Image": lambda kind: kind(url="https://example.org/x.png"),
    "File": lambda kind: kind(data=b"x", media_type="text/plain"),
}
WAYS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def error_is_whole(error: typing.Any, back: typing.Any) -> bool:
    head = (type(back), str(back), back.args) == (type(error), str(error), error.args)
    return head and repr(vars(back)) == repr(vars(error))


def value_is_whole(value: typing.Any, back: typing.Any) -> bool:
    is_dataclass = dataclasses.is_dataclass(value)
    names = [f.name for f in dataclasses.fields(value) if f.repr] if is_dataclass else value._fields
    fields = [[repr(getattr(each, name)) for name in names] for each in (back, value)]
    return type(back) is type(value) and fields[0] == fields[1]


@pytest.mark.parametrize("way", WAYS)
def test_errors_leave_a_process_with_their_fields(way):
    broken = []
    for name, kind in ERRORS.items():
        error = instance(kind)
        error.__notes__ = ["a note"]
        if not error_is_whole(error, WAYS[way](error)):
            broken.append(name)
    assert broken == []


@pytest.mark.parametrize("way", WAYS)
def test_values_leave_a_process(way):
    values = {name: instance(kind) for name, kind in VALUES.items()}
    assert [name for name, each in values.items() if not value_is_whole(each, WAYS[way](each))] == []


def test_walk_covers_all_exports():
    assert len(ERRORS) >= 20
    assert len(VALUES) >= 80


class ForeignError(Exception):
    """An error of others that pickle cannot build again, as those of many SDKs are."""

    def __init__(self, *, response: object) -> None:
        self.response = response
        super().__init__("the price server is down")


class MineError(PureAgentLoopError):
    def __init__(self, first: int, *, second: object) -> None:
        self.first, self.second = first, second
        super().__init__(f"{first} of many")


def test_error_attributes_are_pickled_if_possible():
    error = LLMError("failed", ForeignError(response=lambda: 1), kind="timeout")
    error.__cause__ = error.original_error
    back = pickle.loads(pickle.dumps(error))
    assert back.kind == "timeout"
    for inner in (back.original_error, back.__cause__):
        assert str(inner) == "ForeignError: the price server is down"
    assert isinstance(copy.copy(error).original_error, ForeignError)
    own = pickle.loads(pickle.dumps(MineError(3, second=lambda: 1)))
    assert (str(own), own.first, own.second) == ("3 of many", 3, None)
    assert pickle.loads(pickle.dumps(MineError(3, second={"a": [1]}))).second == {"a": [1]}


def work(how: str) -> object:
    if how == "missing":
        raise MissingExtraError("a thing", "mcp")
    if how == "audit":
        raise AuditError("/log", "is gone", "put it back")
    if how == "interrupt":
        result = Agent(llm=ScriptedLLM(["x"])).run("x")
        raise PureAgentLoopError(str(RunInterrupted(result))) from RunInterrupted(result)
    script = [call("nothing_there", a={"b": [1]}), LLMError("down", kind="auth", status=403)]
    return Agent(llm=ScriptedLLM(script, strict=False)).run("go")


def test_results_and_errors_come_back_from_a_worker():
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        result = pool.submit(work, "result").result(timeout=120)
        assert result.stop_reason == "error"
        with pytest.raises(LLMError) as raised:
            result.raise_for_error()
        assert (raised.value.kind, raised.value.status) == ("auth", 403)
        with pytest.raises(MissingExtraError) as raised:
            pool.submit(work, "missing").result(timeout=120)
        assert raised.value.extra == "mcp"
        with pytest.raises(AuditError) as raised:
            pool.submit(work, "audit").result(timeout=120)
        assert (raised.value.path, raised.value.fix) == ("/log", "put it back")
        with pytest.raises(PureAgentLoopError, match="interrupted"):
            pool.submit(work, "interrupt").result(timeout=120)


def test_event_is_pickled_without_unpicklable_data():
    class OddError(Exception):
        """Of a function, so that no other process can import it."""

    def look(word: str) -> object:
        """Look a word up."""
        if word == "raise":
            raise OddError("the reason")
        return [threading.Lock()]

    script = [call("look", word="raise"), call("look", word="lock"), "done"]
    with ScriptedLLM(script, tools_may_fail=True) as llm:
        result = Agent(llm=llm, tools=[look]).run("go")
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert [event.to_dict() for event in other.events] == [event.to_dict() for event in result.events]
        raised = [event.data["exception"] for event in other.events if "exception" in event.data]
        assert list(map(str, raised)) == ["OddError: the reason"]
