"""Events as a typed union, and the words of the interface. Only type checkers read this file."""

# pyright: reportUnnecessaryComparison=true

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import assert_type

from pure_agent_loop import Agent, AnyEvent, Event, EventType, File, Image, PermissionMode, StopReason, tool
from pure_agent_loop.events import ActionEvent, LoopEndEvent, ObservationEvent, TextDeltaEvent


@tool
def chart() -> list[object]:
    """Several things at once."""
    return ["Two files:", Image(path="a.png"), File(data=b"", media_type="application/pdf")]


def by_class(event: AnyEvent) -> None:
    match event:
        case ActionEvent(tool=name, args=args):
            assert_type(name, str)
            assert_type(args, dict[str, Any])
        case ObservationEvent():
            assert_type(event.is_error, bool)
            assert_type(event.duration, float)
        case LoopEndEvent():
            assert_type(event.stop_reason, StopReason)
        case _:
            assert_type(event.number, int)


def by_type(event: AnyEvent) -> None:
    if event.type is EventType.TEXT_DELTA:
        assert_type(event, TextDeltaEvent)
        assert_type(event.content, str)
    elif event.type is EventType.PERMISSION:
        assert_type(event.behavior, Literal["allow", "deny", "ask"])
    assert_type(event.public(tools=["chart"], reasoning=True), dict[str, Any])


def factories() -> None:
    assert_type(Event.action(1, "chart", {}).args, dict[str, Any])
    assert_type(Event.from_dict({}), AnyEvent)


def words(agent: Agent, mode: PermissionMode) -> None:
    Agent(permission_mode=mode, thinking_level="low", tool_mode="json", mode="single", language="zh")
    result = agent.run("task", media=[Image(url="https://x"), File(path="a.pdf")])
    assert_type(result.stop_reason, StopReason)
    assert_type(result.events, list[AnyEvent])


def wrong(event: AnyEvent, agent: Agent) -> None:
    """Each line is refused: an ignore that nobody needs is an error itself."""
    event.tool  # type: ignore[union-attr] # not every event has one  # noqa: B018
    Event.thought(1, "x").args  # type: ignore[attr-defined] # a thought has none  # noqa: B018
    Event.action(1, "x")  # type: ignore[call-arg] # the arguments are missing
    Agent(permission_mode="always")  # type: ignore[arg-type] # no such mode
    Agent(thinking_level="huge")  # type: ignore[arg-type] # no such level
    agent.run("x").stop_reason == "done"  # type: ignore[comparison-overlap] # no such reason  # noqa: B015
    Image(data="a.png")  # type: ignore[arg-type] # that is a path
    File(path="x").data = b""  # type: ignore[misc] # frozen
