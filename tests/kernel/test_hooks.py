"""Functions of the user before tools, after tools and before the end."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers import E, check_result, drive, nothing_left, of_type, run_kernel, start, tool_texts

from pure_agent_loop import BeforeTool, CancelToken, ConfigError, Hooks, PermissionRules, tool
from pure_agent_loop.permissions import PermissionPolicy
from pure_agent_loop.testing import Gate, ScriptedLLM, answer, call

pytestmark = pytest.mark.anyio


def later(hook):
    async def found(*args):
        await asyncio.sleep(0)
        return hook(*args)

    return found


def now(hook):
    return hook


BOTH = pytest.mark.parametrize("kind", [now, later])


def scene(script, hooks, **kit):
    """A run with one tool; gives its result, what the tool did and the model's requests."""
    done = []

    @tool
    async def act(x: int) -> str:
        """Act."""
        done.append(x)
        return f"acted {x}"

    with ScriptedLLM(script) as llm:
        result = run_kernel(llm, [act], hooks=hooks, **kit)
    return result, done, llm.requests


ACT = call("act", x=1)


# -- before a tool ----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("wanted", "done", "text"),
    [
        (None, [1], "acted 1"),
        (BeforeTool(), [1], "acted 1"),
        (BeforeTool(args={"x": 7}), [7], "acted 7"),
        (BeforeTool(block="Not now."), [], "Error type: Blocked\nError: Not now."),
        (BeforeTool(block="No.", args={"x": 7}), [], "Error: No."),
        (BeforeTool(args={}), [], "InvalidArguments"),
        (BeforeTool(args=[1]), [], "Error type: ConfigError\nError: A hook failed: Arguments must be"),
        ("block it", [], "Error type: ConfigError\nError: A hook failed: it must return a BeforeTool"),
        ({"block": "x"}, [], "Error type: ConfigError"),
    ],
)
def test_hook_parameters_are_optional(kind, wanted, done, text):
    result, made, _ = scene([ACT, "done"], Hooks([kind(lambda *_: wanted)]))
    assert made == done
    assert text in tool_texts(result.messages)[0]
    is_told = "A hook failed" in text or (not done and "ConfigError" in text)
    assert bool(of_type(result.events, E.PERMISSION)) is is_told
    assert of_type(result.events, E.OBSERVATION)[0].data["is_error"] is not bool(done)


@BOTH
def test_a_hook_that_fails_blocks_the_call(kind):
    result, made, _ = scene([ACT, "done"], Hooks([kind(lambda *_: 1 / 0)]))
    assert made == []
    assert "ZeroDivisionError\nError: A hook failed: division by zero" in tool_texts(result.messages)[0]
    assert result.stop_reason == "completed"


def test_hooks_go_in_order_and_know_the_call():
    seen = []

    def first(name, args, context):
        seen.append((name, dict(args), context.step, context.call_id))
        return BeforeTool(args={"x": args["x"] + 10})

    def second(name, args, context):
        seen.append(args["x"])
        return BeforeTool(block="Enough.") if args["x"] == 12 else None

    def third(name, args, context):
        seen.append("third")

    result, made, _ = scene([[ACT, call("act", x=2)], "done"], Hooks([first, second, third]))
    assert seen == [("act", {"x": 1}, 1, "call_1"), 11, "third", ("act", {"x": 2}, 1, "call_2"), 12]
    assert made == [11]
    assert of_type(result.events, E.ACTION)[0].data["args"] == {"x": 11}
    assert result.messages[1]["tool_calls"][0]["function"]["arguments"] == '{"x": 1}'


def test_permissions_are_checked_after_hooks_change_arguments():
    rules = PermissionPolicy("auto", PermissionRules(deny=["act(x=9)"]))
    result, made, _ = scene([ACT, "no"], Hooks(lambda *_: BeforeTool(args={"x": 9})), permissions=rules)
    assert made == []
    assert "The rule 'act(x=9)' forbids it." in tool_texts(result.messages)[0]


def test_a_hook_that_changes_the_arguments_in_place_changes_nothing():
    rules = PermissionPolicy("auto", PermissionRules(deny=["act(x=9)"]))
    result, made, _ = scene([ACT, "ok"], Hooks(lambda name, args, _: args.update(x=9)), permissions=rules)
    assert made == [1]
    assert of_type(result.events, E.ACTION)[0].data["args"] == {"x": 1}


def test_hook_message_reaches_the_next_request_once():
    hooks = Hooks(lambda name, args, _: BeforeTool(context=f"x was {args['x']}"))
    result, _, requests = scene([[ACT, call("act", x=2)], call("act", x=3), "done"], hooks)
    assert [m["content"] for m in requests[1].messages[-2:]] == ["x was 1", "x was 2"]
    assert requests[2].messages[-1]["content"] == "x was 3"
    told = [(e.step, e.content, e.data["synthetic"]) for e in of_type(result.events, E.NOTICE)]
    assert told == [(2, "x was 1", True), (2, "x was 2", True), (3, "x was 3", True)]


def test_hooks_are_not_asked_about_calls_that_cannot_run():
    seen = []
    hooks = Hooks(lambda *call_: seen.append(call_[1]))
    scene([*[ACT] * 3, "done"], hooks)
    assert seen == [{"x": 1}] * 2  # the third is a repetition


# -- after a tool -----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("wanted", "text"),
    [(None, "acted 1"), ("hidden", "hidden"), ("", ""), ({"a": 1}, '{"a": 1}'), ("\ud800", "\ufffd")],
)
def test_a_hook_may_change_the_result(kind, wanted, text):
    result, _, requests = scene([ACT, "done"], Hooks(after_tool=[kind(lambda *_: wanted)]))
    assert tool_texts(result.messages) == [text]
    assert of_type(result.events, E.OBSERVATION)[0].content == text
    assert requests[1].messages[-1]["content"] == text
    outputs = [e.data["part"]["output"] for e in of_type(result.events, E.PART) if e.data["part"]["tool"]]
    assert outputs == ["", "", text]


def test_hooks_after_a_tool_go_in_order_and_know_the_call():
    seen = []

    def first(name, args, result, context):
        seen.append((name, args, result, context.step, context.call_id))
        return result.upper()

    result, _, _ = scene([ACT, "done"], Hooks(after_tool=[first, lambda n, a, text, c: f"{text}!"]))
    assert seen == [("act", {"x": 1}, "acted 1", 1, "call_1")]
    assert tool_texts(result.messages) == ["ACTED 1!"]


@BOTH
def test_a_hook_after_a_tool_that_fails_loses_nothing(kind):
    result, _, _ = scene(
        [ACT, "done"], Hooks(after_tool=[kind(lambda *_: 1 / 0), lambda n, a, t, c: t + "!"])
    )
    assert tool_texts(result.messages) == ["acted 1!"]
    (notice,) = of_type(result.events, E.NOTICE)
    assert notice.content == "A hook after act failed: ZeroDivisionError: division by zero"


def test_refused_calls_have_no_hook_after_them():
    seen = []
    hooks = Hooks(lambda *_: BeforeTool(block="no"), lambda *args: seen.append(args))
    scene([ACT, "done"], hooks)
    assert seen == []


async def test_a_result_that_no_hook_has_seen_is_not_shown_when_the_run_is_cancelled():
    token, gate = CancelToken(), Gate()
    quick = asyncio.Event()

    @tool
    async def slow() -> str:
        """Wait for the other."""
        await quick.wait()
        return "slow secret"

    @tool
    async def fast() -> str:
        """Tell at once."""
        quick.set()
        return "fast secret"

    async def hide(name, args, result, context):
        await gate.pass_through()
        return "hidden"

    with ScriptedLLM([[call("slow"), call("fast")]]) as llm:
        async with nothing_left():
            hooks = Hooks(after_tool=[hide])
            run = asyncio.create_task(drive(start(), llm, [slow, fast], hooks=hooks, cancel_token=token))
            await gate.reached.wait_async()
            token.cancel()
            result = check_result(await run)
    assert "secret" not in str(result.messages)
    assert result.stop_reason == "cancelled"


async def test_changed_result_survives_a_cancel_during_its_event():
    token, events = CancelToken(), []

    @tool
    async def look() -> str:
        """Look."""
        return "secret"

    async def emit(event):
        events.append(event)
        if event.type is E.PART and event.data["part"]["state"] == "completed":
            token.cancel()
            await asyncio.Event().wait()

    state = start()
    with ScriptedLLM([call("look")]) as llm:
        hooks = Hooks(after_tool=lambda *_: "hidden")
        await drive(state, llm, [look], hooks=hooks, emit=emit, cancel_token=token)
    assert tool_texts(state.messages) == ["hidden"]


# -- before the end ---------------------------------------------------------------------------------


@BOTH
def test_a_stop_hook_sends_the_agent_on(kind):
    asked = []

    def on_stop(content, context):
        asked.append((content, context.step, context.call_id))
        return "Run the tests first." if len(asked) == 1 else None

    result, _, requests = scene(["Finished.", "Tests pass."], Hooks(on_stop=kind(on_stop)))
    assert asked == [("Finished.", 1, ""), ("Tests pass.", 2, "")]
    assert requests[1].messages[-1] == {"role": "user", "content": "Run the tests first."}
    assert (result.content, result.stop_reason, result.steps) == ("Tests pass.", "completed", 2)
    (notice,) = of_type(result.events, E.NOTICE)
    assert (notice.step, notice.content, notice.data["synthetic"]) == (1, "Run the tests first.", True)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_stop_hooks_are_bounded(most):
    script = [f"Answer {n}." for n in range(most + 1)]
    result, _, _ = scene(script, Hooks(on_stop=lambda *_: "more", max_stops=most))
    assert (result.content, result.stop_reason) == (f"Answer {most}.", "completed")
    assert result.state.stop_hook_count == most


def test_the_first_stop_hook_that_wants_something_is_heard():
    wishes = iter([None, "a", "b", None])
    result, _, requests = scene(
        ["1", "2", "3"], Hooks(on_stop=[lambda *_: next(wishes, None), lambda *_: next(wishes, None)])
    )
    assert [request.messages[-1]["content"] for request in requests] == ["go", "a", "b"]
    assert result.content == "3"


@BOTH
def test_a_stop_hook_that_fails_lets_the_run_end(kind):
    result, _, _ = scene(["Finished."], Hooks(on_stop=kind(lambda *_: 1 / 0)))
    assert (result.content, result.stop_reason) == ("Finished.", "completed")
    assert of_type(result.events, E.NOTICE)[0].content.startswith("A stop hook failed: ZeroDivisionError")


@pytest.mark.parametrize("finish", ["content_filter", "length"])
def test_stop_hooks_are_asked_only_where_the_model_has_finished(finish):
    script = [answer("cut ", finish_reason=finish)] * (1 if finish == "content_filter" else 4)
    asked = []
    result, _, _ = scene(script, Hooks(on_stop=lambda *args: asked.append(args)))
    assert asked == []
    assert result.stop_reason in ("content_filter", "output_limit")


def test_an_answer_after_a_stop_hook_may_be_cut_off_and_empty_as_the_first_one_might():
    cut = answer("cut ", finish_reason="length")
    wishes = iter(["more", None])
    script = [*[cut] * 3, "end", *[cut] * 3, "last"]
    result, _, _ = scene(script, Hooks(on_stop=lambda *_: next(wishes)))
    assert (result.content, result.stop_reason) == ("cut cut cut last", "completed")
    wishes = iter(["more", None])
    script = [answer(""), "end", answer(""), "last"]
    result, _, _ = scene(script, Hooks(on_stop=lambda *_: next(wishes)))
    assert (result.content, result.stop_reason) == ("last", "completed")


async def test_a_run_that_is_cancelled_while_a_stop_hook_is_asked():
    token, gate = CancelToken(), Gate()

    async def on_stop(content, context):
        await gate.pass_through()

    with ScriptedLLM(["Finished."]) as llm:
        run = asyncio.create_task(drive(start(), llm, hooks=Hooks(on_stop=[on_stop]), cancel_token=token))
        await gate.reached.wait_async()
        token.cancel()
        result = check_result(await run)
    assert (result.stop_reason, result.content) == ("cancelled", "Finished.")


# -- what cannot work -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["before_tool", "after_tool", "on_stop"])
@pytest.mark.parametrize("given", [5, None, ["x"], "before"])
def test_hooks_are_functions(kind, given):
    with pytest.raises(ConfigError, match=rf"Hooks\.{kind} must be a function or a list"):
        Hooks(**{kind: given})


@pytest.mark.parametrize("most", [-1, 1.5, True, "3", None])
def test_the_bound_of_stop_hooks_is_a_number(most):
    with pytest.raises(ConfigError, match="max_stops"):
        Hooks(max_stops=most)
