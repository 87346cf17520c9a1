"""Renderers: what is shown, in which order of precedence, and what can never reach a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata

import pytest

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.renderer import JsonLinesRenderer, PlainRenderer, Renderer, RichRenderer
from pure_agent_loop.support.terminal import safe_text

EVERY_EVENT = [
    Event.loop_start("list the files"),
    Event.reasoning_delta(1, "hm"),
    Event.reasoning(1, "hmm"),
    Event.text_delta(1, "I wi"),
    Event.tool_call_delta(1, 0, "list_dir", '{"pa'),
    Event.retry(1, 1, 0.5, "reset", discard=True),
    Event.thought(1, "I will look."),
    Event.action(1, "list_dir", {"path": "."}),
    Event.observation(1, "list_dir", "a.txt\nb.txt", 0.2),
    Event.file_change(1, {"path": "a.txt", "kind": "modified", "diff": "", "added": 0, "removed": 0}),
    Event.task(1, {"id": "explore-1", "state": "running", "calls": 0}),
    Event.step_end(1, {"total_tokens": 3}),
    Event.soft_limit(2, "step_limit", "check"),
    Event.notice(2, "history repaired"),
    Event.error(2, "no more money", fatal=True, kind="quota"),
    Event.loop_end(2, "error", "", []),
]


def shown(renderer: Renderer, *events: Event) -> str:
    return "".join(renderer.render(event) for event in events)


class TestPrecedence:
    def test_tool_comes_before_event_type_before_built_in(self):
        renderer = Renderer()
        event = Event.action(1, "search", {"q": "x"})
        assert "search" in renderer.render(event)
        renderer.on_event(EventType.ACTION)(lambda e: "by type")
        assert renderer.render(event) == "by type"
        renderer.on_tool("search")(lambda e: "by tool")
        assert renderer.render(event) == "by tool"
        assert renderer.render(Event.action(1, "other", {})) == "by type"

    @pytest.mark.parametrize("result", [False, True])
    def test_a_tools_function_gets_its_calls_or_its_results_only(self, result):
        renderer, seen = Renderer(), []

        @renderer.on_tool("search", result=result)
        def search(event: Event) -> str:
            seen.append(event.type)
            return event.type.value

        for event in [*EVERY_EVENT, Event.action(1, "search", {}), Event.observation(1, "search", "r", 0)]:
            renderer.render(event)
        assert seen == [EventType.OBSERVATION if result else EventType.ACTION]
        assert search(Event.action(1, "search", {})) == "action"  # the decorator gives the function back

    def test_a_failing_function_falls_back_and_says_so(self):
        renderer = Renderer()
        renderer.on_event(EventType.THOUGHT)(lambda e: e.data["missing"])
        text = renderer.render(Event.thought(1, "still here"))
        assert text.startswith("still here\n")
        assert "KeyError: 'missing'" in text

    def test_a_function_that_returns_no_text_is_a_failing_one(self):
        renderer = Renderer()
        renderer.on_event(EventType.THOUGHT)(lambda e: None)
        assert "NoneType, not str" in renderer.render(Event.thought(1, "still here"))

    def test_text_of_a_function_is_cleaned_unless_it_asks_for_raw(self):
        renderer = Renderer()
        renderer.on_tool("a", result=True)(lambda e: "\x1b[2J" + e.content)
        renderer.on_tool("b", result=True, raw=True)(lambda e: "\x1b[1mB\x1b[0m")
        assert renderer.render(Event.observation(1, "a", "\x07", 0)) == "\\x1b[2J\\x07"
        assert renderer.render(Event.observation(1, "b", "", 0)) == "\x1b[1mB\x1b[0m"

    def test_an_unknown_event_type_is_refused_when_registering(self):
        with pytest.raises(ValueError, match="nonsense"):
            Renderer().on_event("nonsense")


class TestPlainBlocks:
    def test_every_event_gives_text_without_a_newline_at_its_end(self):
        renderer = PlainRenderer()
        for event in EVERY_EVENT:
            assert not renderer.render(event).endswith("\n")

    def test_pieces_and_step_ends_show_nothing(self):
        silent = {e.type for e in EVERY_EVENT if not Renderer().render(e)}
        assert silent == {
            EventType.TEXT_DELTA,
            EventType.REASONING_DELTA,
            EventType.TOOL_CALL_DELTA,
            EventType.STEP_END,
        }

    def test_an_action_is_one_line_whatever_its_arguments(self):
        text = Renderer().render(
            Event.action(1, "write", {"path": "a b", "text": "x\n-> fake()", "n": [1, None]})
        )
        assert text == '-> write(path="a b", text="x\\n-> fake()", n=[1, null])'
        assert len(Renderer().render(Event.action(1, "w", {"text": "x" * 5000}))) < 700

    def test_lines_of_a_result_cannot_pass_for_lines_of_ours(self):
        text = Renderer().render(Event.observation(1, "read", "one\n-> rm()\n== completed", 0.0))
        assert text == "<- read\n   one\n   -> rm()\n   == completed"

    def test_a_result_is_shown_with_its_time_and_its_failure(self):
        assert Renderer().render(Event.observation(1, "t", "", 1.26)) == "<- t 1.3 s (no output)"
        assert Renderer().render(Event.observation(1, "t", "no", 0, is_error=True)) == "<- t failed\n   no"

    def test_a_long_result_is_shown_by_head_and_tail(self):
        lines = [f"line {n}" for n in range(100)]
        text = Renderer(max_lines=6).render(Event.observation(1, "t", "\n".join(lines), 0))
        body = [line.strip() for line in text.split("\n")[1:]]
        assert body == [*lines[:4], "[... 94 lines left out ...]", *lines[-2:]]

    def test_one_enormous_line_is_cut(self):
        assert len(Renderer().render(Event.observation(1, "t", "x" * 10**6, 0))) < 600

    def test_odd_data_does_not_matter(self):
        for kind in EventType:
            Renderer().render(Event(kind, 0, {}))
            Renderer().render(
                Event(kind, 0, {"tool": 1, "args": 2, "duration": "x", "attempt": None, "task": None})
            )

    def test_max_lines_must_be_positive(self):
        with pytest.raises(ConfigError, match="max_lines=0"):
            Renderer(max_lines=0)


class TestStreaming:
    def test_pieces_are_shown_once_and_not_again_as_a_thought(self):
        text = shown(
            Renderer(stream=True),
            Event.text_delta(1, "\n\nHel"),
            Event.text_delta(1, "lo\n"),
            Event.text_delta(1, "\n- you"),
            Event.thought(1, "Hello\n\n- you"),
            Event.action(1, "t", {}),
        )
        assert text == "Hello\n\n- you\n-> t()\n"

    def test_each_piece_comes_at_once(self):
        renderer = Renderer(stream=True)
        assert [renderer.render(Event.text_delta(1, part)) for part in ("Hel", "lo")] == ["Hel", "lo"]

    def test_a_client_that_does_not_stream_still_shows_its_thought(self):
        assert shown(Renderer(stream=True), Event.thought(1, "Hello"), Event.step_end(1)) == "Hello\n"

    def test_the_next_step_is_a_new_answer(self):
        renderer = Renderer(stream=True)
        first = shown(renderer, Event.text_delta(1, "a"), Event.thought(1, "a"), Event.step_end(1))
        assert first + shown(renderer, Event.thought(2, "b")) == "a\nb\n"

    def test_a_discarded_answer_is_said_to_start_again(self):
        renderer = Renderer(stream=True)
        text = shown(
            renderer,
            Event.text_delta(1, "Hal"),
            Event.retry(1, 1, 0.5, "connection reset", discard=True),
            Event.text_delta(1, "Hello"),
            Event.thought(1, "Hello"),
        )
        assert text == "Hal\n-- try 2 in 0.5 s; the answer starts again: connection reset\nHello\n"

    def test_without_pieces_shown_nothing_starts_again(self):
        retry = Event.retry(1, 1, 0.5, "connection reset", discard=True)
        assert "again" not in Renderer().render(retry)

    def test_thinking_and_text_do_not_share_a_line(self):
        text = shown(
            Renderer(stream=True),
            Event.reasoning_delta(1, "hm"),
            Event.text_delta(1, "Hi"),
            Event.reasoning(1, "hm"),
            Event.thought(1, "Hi"),
        )
        assert text == "hm\nHi\n"

    def test_an_unfinished_line_is_ended_before_the_end_of_the_run(self):
        text = shown(Renderer(stream=True), Event.text_delta(1, "Hal"), Event.loop_end(1, "cancelled", "Hal"))
        assert text == "Hal\n== cancelled\n"

    def test_text_of_own_functions_gets_its_own_lines(self):
        renderer = Renderer(stream=True)
        renderer.on_tool("t")(lambda e: "T")
        renderer.on_tool("t", result=True)(lambda e: "")
        events = [Event.text_delta(1, "a"), Event.action(1, "t", {}), Event.observation(1, "t", "r", 0)]
        assert shown(renderer, *events) == "a\nT\n"

    def test_silenced_pieces_leave_the_whole_text(self):
        renderer = Renderer(stream=True)
        renderer.on_event(EventType.TEXT_DELTA)(lambda e: "")
        assert shown(renderer, Event.text_delta(1, "Hi"), Event.thought(1, "Hi")) == "Hi\n"


class TestRich:
    def test_the_words_are_those_of_the_plain_renderer(self):
        for stream in (False, True):
            plain, rich = Renderer(stream=stream), RichRenderer(stream=stream)
            for event in EVERY_EVENT:
                assert safe_text(rich.render(event)) == plain.render(event)

    def test_it_has_colours_and_leaves_the_terminal_as_it_was(self):
        text = RichRenderer().render(Event.error(1, "broken"))
        assert text.startswith("\x1b[31m")
        assert text.endswith("\x1b[0m")

    def test_markup_of_models_stays_text(self):
        for hostile in ("[/foo]", "[bold]x[/bold]", "[link=http://evil]x[/link]", ":bomb:"):
            event = Event.observation(1, "[red]t", hostile, 0)
            assert safe_text(RichRenderer().render(event)) == f"<- [red]t\n   {hostile}"

    def test_long_lines_and_spaces_are_not_changed(self):
        for text in ("x" * 3000, "  two  spaces  ", "word " * 500):
            event = Event.reasoning_delta(1, text)
            assert safe_text(RichRenderer(stream=True).render(event)) == text

    def test_without_rich_it_says_which_extra_to_install(self):
        code = (
            "import sys; sys.modules['rich'] = None\n"
            "from pure_agent_loop.renderer import RichRenderer\n"
            "from pure_agent_loop.errors import MissingExtraError\n"
            "try: RichRenderer()\n"
            "except MissingExtraError as error: print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert "rich output needs the extra [cli]" in done.stdout


class TestJsonLines:
    def test_every_event_is_one_object_that_parses_back(self):
        renderer = JsonLinesRenderer()
        for event in EVERY_EVENT:
            assert json.loads(renderer.render(event)) == event.to_dict()

    def test_no_text_can_fake_a_line(self):
        hostile = 'a\r\nb\u2028c\u2029d\x85e\x0bf\x1bg\ud800"}\n{"type": "loop_end"'
        events = [Event.thought(1, hostile), Event.action(1, hostile, {hostile: hostile})]
        text = shown(JsonLinesRenderer(stream=True), *events)
        assert text.isascii()
        assert len(text.splitlines()) == len(events)
        assert json.loads(text.splitlines()[0])["data"]["content"] == hostile.replace("\ud800", "\ufffd")

    def test_values_json_does_not_know_are_written_all_the_same(self):
        line = JsonLinesRenderer().render(
            Event.action(1, "t", {"x": float("nan"), "y": {1, 2}, "z": object()})
        )
        assert json.loads(line)["data"]["args"]["x"] == "nan"

    def test_a_failing_function_does_not_break_the_line(self):
        renderer = JsonLinesRenderer(stream=True)
        renderer.on_event(EventType.THOUGHT)(lambda e: 1 / 0)
        line = renderer.render(Event.thought(1, "x"))
        assert line.endswith("\n")
        assert json.loads(line)["renderer_error"].startswith("ZeroDivisionError")


ATTACKS = {
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "clear": "\x1b[2J\x1b[H",
    "C1 CSI": "\x9b2J",
    "overwrite": "rm -rf /\rls     ",
    "backspace": "rm\x08\x08ls",
    "bell": "\x07",
    "bidi": "abc\u202etxt.exe\u2066\u2069",
    "zero width": "pass\u200bword\u200d\u2060\ufeff",
    "tags": "hi\U000e0041\U000e0042",
    "line separator": "a\u2028b\u2029c\x85d",
    "conceal": "\x1b[8mhidden\x1b[0m",
    "delete": "a\x7fb",
}


class TestAttacks:
    @pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
    @pytest.mark.parametrize("make", [Renderer, RichRenderer])
    def test_no_attack_passes_any_renderer(self, make, attack):
        events = [
            Event.loop_start(attack),
            Event.thought(1, attack),
            Event.reasoning(1, attack),
            Event.text_delta(1, attack),
            Event.reasoning_delta(1, attack),
            Event.action(1, attack, {attack: attack}),
            Event.observation(1, attack, attack, 0, is_error=True),
            Event.soft_limit(1, attack, attack),
            Event.error(1, attack),
            Event.notice(1, attack),
            Event.retry(1, 1, 0, attack, discard=True),
            Event.loop_end(1, attack, attack),
        ]
        for stream in (False, True):
            text = shown(make(stream=stream), *events)
            assert harmless(text) if make is Renderer else harmless(without_own_colours(text))


def harmless(text: str) -> bool:
    return all(
        char in "\n\t" or (unicodedata.category(char) not in ("Cc", "Cs") and not invisible(ord(char)))
        for char in text
    )


def invisible(code: int) -> bool:
    return code in range(0x2028, 0x202F) or code in range(0x200B, 0x2010) or code in range(0x2060, 0x2070)


def without_own_colours(text: str) -> str:
    from rich.console import Console
    from rich.text import Text

    console = Console(force_terminal=True, color_system="standard", legacy_windows=False)
    for style in RichRenderer.STYLES.values():
        with console.capture() as captured:
            console.print(Text("|", style, end=""), end="")
        for part in captured.get().split("|"):
            text = text.replace(part, "")
    return text


def test_subagent_is_rendered_without_repeats():
    task = {"id": "explore-1", "state": "running", "calls": 0, "tokens": 0, "started": 1.0, "ended": 0.0}
    steps = [
        task,
        {**task, "calls": 1, "tokens": 15, "last_tool": "grep"},
        {**task, "calls": 1, "tokens": 1_234, "last_tool": "grep"},
        {**task, "calls": 1, "tokens": 1_234, "last_tool": "grep", "state": "completed", "ended": 3.5},
        {**task, "id": "explore-2", "state": "failed", "ended": 2.0, "error": "no model\x1b[2J"},
    ]
    lines = shown(Renderer(stream=True), *(Event.task(1, each) for each in steps)).splitlines()
    assert lines == [
        ">> explore-1 running",
        ">> explore-1 grep (1 call, 15 tokens)",
        ">> explore-1 completed (1 call, 1,234 tokens, 2.5 s)",
        f">> explore-2 failed (0 calls, 0 tokens, 1.0 s): {safe_text('no model' + chr(27) + '[2J')}",
    ]
    assert shown(Renderer(), Event.task(1, {})) == ">>  "


def test_functions_for_a_tool_read_the_arguments_of_both_its_events():
    renderer = Renderer()

    @renderer.on_tool("search")
    @renderer.on_tool("search", result=True)
    def show(event):
        return f"{event.type.value} {event.data['args']['query']}"

    shown = []
    events = [
        Event.action(1, "search", {"query": "a"}),
        Event.observation(1, "search", "found", 0.1),
    ]
    shown = [renderer.render(event) for event in events]
    assert shown == ["action a", "observation a"]
    lost = renderer.render(Event.observation(2, "search", "found", 0.1))
    assert "KeyError" in lost  # a result whose call was never shown has no arguments


@pytest.mark.parametrize("stream", [False, True])
def test_event_without_text_prints_no_empty_line(capsys, stream):
    renderer = Renderer(stream=stream)
    renderer.print(Event.step_end(1))
    assert capsys.readouterr().out == ""
    renderer.print(Event.thought(1, "Hello."))
    assert capsys.readouterr().out == "Hello.\n"
