"""May this call be made? Rules, modes, the user's function, a person; and what is remembered of it."""

from __future__ import annotations

import argparse
import asyncio
import inspect
import re
import threading
from pathlib import Path

import pytest
from tests.helpers import E, of_type, run_kernel, tool_texts

from pure_agent_loop import Agent, AIClient, ConfigError, Permission, PermissionRules, Tool, tool
from pure_agent_loop.cli.commands.run import add_run
from pure_agent_loop.permissions import BEHAVIORS, PERMISSION_MODES, PermissionPolicy, Rule, as_permission
from pure_agent_loop.testing import ScriptedLLM, call, check_history

# -- rules ----------------------------------------------------------------------------------------


def test_a_policy_of_another_kind_is_asked_in_every_mode():
    class Never(PermissionPolicy):
        def suggest(self, tool, args, **about):
            return Permission("deny", f"never {tool}")

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        raise AssertionError("it was made")

    for mode in ("auto", "bypass"):
        llm = ScriptedLLM([call("add", a=1, b=2), "ok"])
        result = run_kernel(llm, tools=[add], permissions=Never(mode))
        assert "never add" in tool_texts(result.messages)[0]
    assert PermissionPolicy().is_open
    assert not PermissionPolicy(rules=PermissionRules(allow=["add"])).is_open
    assert not PermissionPolicy("ask").is_open


@pytest.mark.parametrize(
    ("rule", "tool_name", "args", "fits"),
    [
        ("shell", "shell", {}, True),
        ("shell", "shell2", {}, False),
        ("shell", "Shell", {}, False),
        ("read_*", "read_file", {"path": "x"}, True),
        ("read_*", "read", {}, False),
        ("*", "anything", {"a": 1}, True),
        ("r?ad", "read", {}, True),
        (" shell ", "shell", {}, True),
        ("shell()", "shell", {"command": "x"}, True),
        ("shell(*)", "shell", {}, True),
        ("edit_file(path=src/*)", "edit_file", {"path": "src/../.env"}, False),
        ("edit_file(path=src/*)", "edit_file", {"path": "./src//a.py"}, True),
        ("edit_file(.env)", "edit_file", {"path": "a/../.env"}, True),
        ("shell(git *)", "shell", {"command": "git status"}, True),
        ("shell(git *)", "shell", {"command": "git"}, False),
        ("shell(git *)", "shell", {"command": "rm git "}, False),
        ("shell(git *)", "shell", {"why": "x", "command": "git log"}, True),
        ("shell(git *)", "shell", {}, False),
        ("shell (git *)", "shell", {"command": "git log"}, True),
        ("shell(git *)", "shell", {"command": "git log\nrm x"}, True),
        ("shell(echo (x))", "shell", {"command": "echo (x)"}, True),
        ("shell(ls [ab]*)", "shell", {"command": "ls [ab].txt"}, True),
        ("shell(ls [ab]*)", "shell", {"command": "ls a.txt"}, False),
        ("write(path=docs/*)", "write", {"path": "docs/a.md"}, True),
        ("write(path=docs/*)", "write", {"path": "src/a.py", "text": "docs/a"}, False),
        ("write(path=docs/*)", "write", {}, False),
        ("write(path=a, text=b*)", "write", {"path": "a", "text": "bc"}, True),
        ("write(path=a, text=b*)", "write", {"path": "a", "text": "c"}, False),
        ("write(path=a,b)", "write", {"path": "a,b"}, True),
        ("pay(amount=5)", "pay", {"amount": 5}, True),
        ("pay(amount=5)", "pay", {"amount": 50}, False),
        ("pay(now=true)", "pay", {"now": True}, True),
        ("pay(to=null)", "pay", {"to": None}, True),
        ('pay(to=*"b": 2*)', "pay", {"to": {"b": 2, "a": 1}}, True),
        ("说(你好*)", "说", {"text": "你好吗"}, True),
    ],
)
def test_rule_matches_its_tools_and_arguments(rule, tool_name, args, fits):
    assert Rule.parse(rule).matches(tool_name, args) is fits


@pytest.mark.parametrize(
    "rule", ["", "  ", "(x)", "shell(git *", "shell)", "a b", "shell(x) y", None, 5, b"x"]
)
def test_invalid_rule_is_rejected(rule):
    with pytest.raises(ConfigError, match="is not a permission rule"):
        Rule.parse(rule)


@pytest.mark.parametrize("given", ["shell", 5, None])
@pytest.mark.parametrize("kind", ["deny", "ask", "allow"])
def test_rules_come_in_lists(kind, given):
    with pytest.raises(ConfigError, match=rf"PermissionRules\.{kind}.* must be a list"):
        PermissionRules(**{kind: given})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"permission_mode": "perhaps"}, "permission_mode='perhaps' is unknown.*auto"),
        ({"permission_rules": ["shell"]}, "permission_rules must be PermissionRules"),
        ({"can_use_tool": "yes"}, "can_use_tool must be a function"),
        ({"on_ask": 5}, "on_ask must be a function"),
    ],
)
def test_agent_rejects_impossible_settings(options, message):
    with pytest.raises(ConfigError, match=message):
        Agent(llm=ScriptedLLM([]), **options)


@pytest.mark.parametrize(
    ("given", "behavior"),
    [("allow", "allow"), ("deny", "deny"), ("ask", "ask"), (True, "allow"), (False, "deny")],
)
def test_a_verdict_in_a_word(given, behavior):
    assert as_permission(given).behavior == behavior
    if isinstance(given, str):
        assert as_permission(Permission(given)) == Permission(given)


NO_VERDICTS = ["yes", "", None, 1, ["allow"], {}, Permission("yes"), Permission(True)]


@pytest.mark.parametrize("given", NO_VERDICTS)
def test_a_verdict_that_is_none_is_an_error(given):
    with pytest.raises(ConfigError, match="A permission is 'allow' or True, 'deny' or False, 'ask'"):
        as_permission(given)


@pytest.mark.parametrize("given", [*NO_VERDICTS, Permission("allow", updated_args=5)])
@pytest.mark.parametrize("asked", ["can_use_tool", "on_ask"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_that_gives_no_decision_ends_the_run_with_an_error(given, asked, is_async):
    async def later(*_):
        return given

    function = later if is_async else lambda *_: given
    result, done = scene([call("act", x=1)], **{"permit" if asked == "can_use_tool" else asked: function})
    assert (result.stop_reason, done) == ("error", [])
    with pytest.raises(ConfigError, match=f"{asked} gave no decision"):
        result.raise_for_error()
    assert check_history(result.messages) == []


# -- the order: six steps, against every combination of mode, rules, tool and verdict ---------------


RULES = {
    "none": {},
    "deny": {"deny": ["act"]},
    "ask": {"ask": ["act"]},
    "allow": {"allow": ["act"]},
    "all": {"deny": ["act"], "ask": ["act"], "allow": ["act"]},
    "ask+allow": {"ask": ["act"], "allow": ["act"]},
    "others": {"deny": ["other"], "ask": ["act(x=9)"], "allow": ["act(x=9)"]},
}


def by_the_book(mode, rules, read_only, verdict):
    """The six steps as the documentation has them."""
    given = RULES[rules]
    applies = {kind for kind in given if "act" in given[kind]}
    if "deny" in applies:
        return "deny"
    if mode == "plan" and not read_only:
        return "deny"
    if verdict is not None:
        return verdict
    if "ask" in applies and mode != "bypass":
        return "ask"
    if "allow" in applies:
        return "allow"
    return "ask" if mode == "ask" and not read_only else "allow"


@pytest.mark.parametrize("mode", PERMISSION_MODES)
@pytest.mark.parametrize("rules", RULES)
def test_the_order(mode, rules):
    policy = PermissionPolicy(mode, PermissionRules(**RULES[rules]))
    done = []

    async def act(x: int) -> str:
        """Act."""
        done.append(x)
        return "acted"

    for read_only in (False, True):
        tools = [tool(read_only=read_only)(act)]
        for verdict in (None, *BEHAVIORS):
            done.clear()
            decide = None if verdict is None else lambda *_, verdict=verdict: verdict
            with ScriptedLLM([call("act", x=1), "done"], strict=False) as llm:
                result = run_kernel(llm, tools, permissions=policy, can_use_tool=decide)
            expected = by_the_book(mode, rules, read_only, verdict)
            where = (read_only, verdict)
            assert (result.stop_reason == "waiting_permission") == (expected == "ask"), where
            assert done == ([1] if expected == "allow" else []), where
            told = [event.data["behavior"] for event in of_type(result.events, E.PERMISSION)]
            assert told == ([] if expected == "allow" else [expected]), where


def test_permission_function_gets_the_verdict_of_the_rules():
    seen = []

    def permit(name, args, context):
        seen.append((name, context.suggestion, context.reason, context.read_only))
        return "allow"

    @tool(read_only=True)
    def look() -> str:
        """Look."""
        return "ok"

    policy = PermissionPolicy("ask", PermissionRules(ask=["look"], deny=["act"]))
    with ScriptedLLM([[call("look"), call("act"), call("unknown")], "done"]) as llm:
        run_kernel(llm, [look], permissions=policy, can_use_tool=permit)
    assert seen == [("look", "ask", "the rule 'look'", True), ("unknown", "ask", "the mode 'ask'", False)]


# -- runs -----------------------------------------------------------------------------------------


def scene(script, permit=None, *, on_ask=None, mode="ask", rules=None, **kit):
    """A run with one tool; gives its result and what the tool did."""
    done = []

    @tool
    async def act(x: int = 0, y: str = "") -> str:
        """Act."""
        done.append((x, y) if y else x)
        return f"acted {x}"

    policy = PermissionPolicy(mode, rules or PermissionRules())
    with ScriptedLLM(script) as llm:
        result = run_kernel(llm, [act], permissions=policy, can_use_tool=permit, on_ask=on_ask, **kit)
    return result, done


def told(result):
    return [(e.data["behavior"], e.data["reason"]) for e in of_type(result.events, E.PERMISSION)]


def asker(*verdicts):
    """A person with prepared answers, who keeps the questions."""
    left = list(verdicts)

    def ask(request):
        ask.asked.append(request)
        found = left.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    ask.asked = []
    return ask


def in_a_thread(ask):
    def asked(request):
        assert threading.current_thread().name == "pal-tool"
        return ask(request)

    return asked


def on_the_loop(ask):
    async def asked(request):
        assert asyncio.get_running_loop()
        return ask(request)

    return asked


def awaitable(ask):
    return lambda request: on_the_loop(ask)(request)


@pytest.mark.parametrize("kind", [in_a_thread, on_the_loop, awaitable])
@pytest.mark.parametrize(
    ("verdict", "done", "reason"),
    [
        ("allow", [1], ""),
        (Permission("allow", updated_args={"x": 5}), [5], ""),
        (Permission("deny", "Not today."), [], "Not today."),
        (True, [1], ""),
        (False, [], ""),
        (OSError("no terminal"), [], "The question failed: no terminal"),
        (OSError(), [], "The question failed: OSError: no message (ask, test_permissions.py:N: raise found)"),
    ],
)
def test_a_person_is_asked(kind, verdict, done, reason):
    ask = asker(verdict)
    result, made = scene([call("act", x=1), "done"], on_ask=kind(ask))
    assert made == done
    shown = [(behavior, re.sub(r"(?<=\.py:)\d+", "N", why)) for behavior, why in told(result)]
    assert shown == [("ask", "the mode 'ask'"), ("allow" if done else "deny", reason)]
    (request,) = ask.asked
    assert (request.tool, request.args, request.call_id, request.step) == ("act", {"x": 1}, "call_1", 1)
    assert result.stop_reason == "completed"
    (text,) = tool_texts(result.messages)
    text = re.sub(r"(?<=\.py:)\d+", "N", text)
    assert done or f"PermissionDenied\nError: this call was not allowed. {reason}" in text


@pytest.mark.parametrize("verdict", ["ask", Permission("ask", "later")])
def test_unanswered_question_suspends_the_run(verdict):
    result, done = scene([call("act", x=1)], on_ask=asker(verdict))
    assert (result.stop_reason, done) == ("waiting_permission", [])
    assert told(result) == [("ask", "the mode 'ask'")]


def test_nothing_runs_until_all_questions_are_answered():
    done_when_asked = []

    def ask(request):
        done_when_asked.append(list(made))
        return "allow"

    made = []

    @tool
    def act(x: int) -> str:
        """Act."""
        made.append(x)
        return "ok"

    rules = PermissionRules(ask=["act(x=2)", "act(x=3)"])
    with ScriptedLLM([[call("act", x=n) for n in (1, 2, 3)], "done"]) as llm:
        result = run_kernel(llm, [act], permissions=PermissionPolicy("auto", rules), on_ask=ask)
    assert done_when_asked == [[], []]
    assert sorted(made) == [1, 2, 3]
    kinds = [e.type for e in result.events if e.type in (E.PERMISSION, E.ACTION, E.OBSERVATION)]
    assert kinds == [E.PERMISSION] * 4 + [E.ACTION] * 3 + [E.OBSERVATION] * 3


def test_one_unanswered_question_holds_all_calls_back():
    ask = asker("allow", "ask")
    calls = [call("act", x=1), call("act", x=2)]
    result, done = scene([calls], on_ask=ask)
    assert (result.stop_reason, done, len(ask.asked)) == ("waiting_permission", [], 2)
    assert [question.args for question in result.questions] == [{"x": 2}]


def test_denied_call_is_denied_again_without_a_question():
    ask = asker(Permission("deny", "Never."), "allow")
    script = [call("act", x=1), call("act", x=1), call("act", x=2), "done"]
    result, done = scene(script, on_ask=ask)
    assert [request.args for request in ask.asked] == [{"x": 1}, {"x": 2}]
    assert done == [2]
    again = tool_texts(result.messages)[1]
    assert "Never." in again
    assert "It was denied before" in again


def test_the_same_call_twice_in_one_answer_is_asked_about_once_if_it_is_denied():
    ask = asker("deny")
    scene([[call("act", x=1), call("act", x=1)], "done"], on_ask=ask)
    assert len(ask.asked) == 1


def test_always_asks_no_more_about_that_tool():
    ask = asker(Permission("allow", always=True))
    script = [[call("act", x=1), call("act", x=2)], call("act", x=3), "done"]
    result, done = scene(script, on_ask=ask)
    assert sorted(done) == [1, 2, 3]
    assert result.state.permissions.always_allowed == ["act"]


def test_similar_asks_no_more_about_that_kind_also_against_an_ask_rule(tmp_path):
    done = []
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "out").symlink_to(tmp_path)

    def edit_file(path: str) -> str:
        """Edit."""
        done.append(path)
        return "edited"

    @tool
    def act(x: int) -> str:
        """Act."""
        done.append(x)
        return "done"

    paths = ["src/a.py", "src/b/c.py", "src/../b.py", "src/out/b.py", "other.py"]
    calls = [*(call("edit_file", path=path) for path in paths), *(call("act", x=n) for n in (1, 1, 2))]
    ask = asker(*[Permission("allow", similar=True)] * len(calls))
    tools = [Tool(edit_file, root=str(tmp_path)), act]
    rules = PermissionPolicy("auto", PermissionRules(ask=["edit_file", "act"]))
    result = run_kernel(ScriptedLLM([*calls, "ok"]), tools=tools, permissions=rules, on_ask=ask)
    asked = [next(iter(request.args.values())) for request in ask.asked]
    assert (asked, done) == (["src/a.py", "src/../b.py", "src/out/b.py", "other.py", 1, 2], [*paths, 1, 1, 2])
    assert "edit_file(path=src/*)" in result.state.permissions.always_allowed


def test_always_keeps_changed_arguments_and_does_not_beat_a_deny_rule():
    verdicts = iter([Permission("ask", updated_args={"x": n}) for n in (10, 20)])
    script = [call("act", x=1), call("act", x=2), call("act", y="bad"), "done"]
    permit = lambda name, args, context: next(verdicts)  # noqa: E731 - shorter here
    rules = PermissionRules(deny=["act(y=bad)"])
    ask = asker(Permission("allow", always=True))
    _, done = scene(script, permit, on_ask=ask, rules=rules)
    assert done == [10, 20]


def test_interrupt_ends_with_a_last_answer():
    ask = asker(Permission("deny", "Stop it.", interrupt=True))
    result, done = scene([call("act", x=1), "I may not."], on_ask=ask)
    assert (result.stop_reason, done) == ("permission_denied", [])
    assert result.content.startswith("I may not.\n\n[Stopped: The required calls were denied.]")


def test_three_denied_rounds_end_the_run():
    script = [call("act", x=n) for n in range(3)]
    result, _ = scene([*script, "It cannot be done."], lambda *_: "deny")
    assert (result.stop_reason, result.steps) == ("permission_denied", 3)
    assert result.state.permissions.denied_rounds == 3


@pytest.mark.parametrize("between", [call("act", x=9), [call("act", x=9), call("act", x=8)]])
def test_a_round_with_an_allowed_call_starts_the_count_again(between):
    permit = lambda name, args, context: "allow" if args["x"] == 9 else "deny"  # noqa: E731 - shorter here
    denied = [call("act", x=n) for n in range(4)]
    result, _ = scene([*denied[:2], between, *denied[2:], "done"], permit)
    assert result.stop_reason == "completed"


BAD = {"x": 1, "y": "rm -rf /"}
NEVER = PermissionRules(deny=["act(rm *)"])


@pytest.mark.parametrize(
    ("permit", "ask"),
    [
        (Permission("allow", updated_args=BAD), None),
        (Permission("ask", updated_args=BAD), None),
        ("ask", Permission("allow", updated_args=BAD)),
    ],
    ids=["can_use_tool allows", "can_use_tool asks", "a person"],
)
def test_changed_arguments_do_not_pass_a_deny_rule(permit, ask):
    result, done = scene(
        [call("act", x=1), "done"], lambda *_: permit, on_ask=ask and asker(ask), rules=NEVER
    )
    assert done == []
    assert told(result)[-1] == ("deny", "The rule 'act(rm *)' forbids it.")


def test_a_function_that_changes_its_arguments_in_place_changes_nothing():
    def permit(name, args, context):
        args.update(BAD)
        return "ask"

    def ask(request):
        request.args.update(BAD)
        return "allow"

    result, done = scene([call("act", x=1), "done"], permit, on_ask=ask, rules=NEVER)
    assert done == [1]
    assert of_type(result.events, E.ACTION)[0].data["args"] == {"x": 1}


@pytest.mark.parametrize("error", [ZeroDivisionError, ConfigError])
def test_a_function_that_fails_denies(error):
    def permit(*_):
        raise error("so it is")

    result, done = scene([call("act", x=1), "done"], permit)
    assert done == []
    assert f"Error type: {error.__name__}" in tool_texts(result.messages)[0]


def test_arguments_become_plain_json():
    permission = Permission("allow", updated_args={"x": 3, "y": ("a", "b")})
    result, done = scene([call("act", x=1), "done"], lambda *_: permission)
    assert of_type(result.events, E.ACTION)[0].data["args"] == {"x": 3, "y": ["a", "b"]}
    assert done == []  # a list is no text, so the tool refuses it
    assert "InvalidArguments" in tool_texts(result.messages)[0]


def test_missing_tool_leads_to_no_question():
    ask = asker()
    result, _ = scene([call("atc", x=1), "done"], on_ask=ask)
    assert ask.asked == []
    assert "UnknownTool" in tool_texts(result.messages)[0]


def test_invalid_arguments_lead_to_no_question():
    ask = asker(True)
    result, done = scene([call("act", z=1), call("act", x="text"), call("act", x="1"), "done"], on_ask=ask)
    assert [request.args for request in ask.asked] == [{"x": "1"}]
    assert len(done) == 1
    assert ["InvalidArguments" in text for text in tool_texts(result.messages)] == [True, True, False]


def test_the_default_mode_is_the_one_that_the_documents_name():
    for facade in (Agent, AIClient):
        assert inspect.signature(facade).parameters["permission_mode"].default == "auto"
    text = (Path(__file__).parents[2] / "docs" / "permissions.md").read_text("utf-8")
    assert "**The default mode** is `auto` in the library" in text
    assert "It is `ask` in `pal run`" in text
    parser = argparse.ArgumentParser()
    add_run(parser)
    assert parser.get_default("permission_mode") == "ask"
    assert "never ask (default: ask)" in " ".join(parser.format_help().split())
