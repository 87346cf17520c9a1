"""The conversations of `test_cli_chat` in a real tmux, and what only a real terminal can show."""

from __future__ import annotations

import re

import pytest
from tests.cli import test_cli_chat as conversations
from tests.cli.conversations import Held, idle, leave, said
from tests.cli.screens import ENTER, ESC, TAB
from tests.cli.tmux import TmuxScreen

from pure_agent_loop.testing import Gate, answer, call, deltas


@pytest.fixture
def screen_class():
    return TmuxScreen


class TestTalkingInTmux(conversations.TestTalking):
    """Ask, tool, paste, wide characters, 40 x 10, no colour, resize."""


class TestWhileItWorksInTmux(conversations.TestWhileItWorks):
    """Steer, stop, background, resume after a kill."""


class TestQuestionsInTmux(conversations.TestQuestions):
    """Each answer."""


class TestUndoInTmux(conversations.TestUndo):
    """Undo and redo."""


class TestInTmux:
    def test_nothing_that_has_scrolled_away_changes(self, chat):
        text = "\n\n".join(f"Paragraph {number} with **bold** words." for number in range(60))
        screen = chat([text, "Short."])
        screen.type("go" + ENTER)
        screen.until("Paragraph 59")
        idle(screen)
        before = screen.history
        assert len([line for line in before if line.startswith("Paragraph")]) > 30
        screen.type("some words")
        screen.until("> some words")
        screen.type(ENTER)
        screen.until("Short.")
        idle(screen)
        assert screen.history[: len(before)] == before
        for number in range(60):
            assert screen.all.count(f"Paragraph {number} with") == 1
        leave(screen)

    def test_combining_and_wide_characters_stay_in_their_columns(self, chat):
        screen = chat(["| a | b |\n|---|---|\n| 天空 | cafe\u0301 |\n| x | \U0001f600 |\n"])
        screen.type("cafe\u0301 \u5929" + ENTER)
        screen.until("天空")
        rows = [line for line in screen.lines if "天空" in line or "\U0001f600" in line]
        assert len(rows) == 2
        leave(screen)
        assert said(screen.server.requests[0]) == "cafe\u0301 \u5929"

    def test_text_from_right_to_left_and_a_command_that_has_some(self, chat):
        hebrew = "\u05e9\u05dc\u05d5\u05dd"
        screen = chat(
            [answer("", call("shell", command=f"echo {hebrew}", changes=True)), f"\u202e{hebrew} ok"]
        )
        screen.type(hebrew + ENTER)
        screen.until("❯ y")
        assert "has right-to-left text" in screen.all.replace("\n", " ")
        screen.type("n" + ENTER)
        screen.until("ok")
        idle(screen)
        assert "\u202e" not in screen.all
        assert said(screen.server.requests[0]) == hebrew
        leave(screen)

    def test_a_conversation_to_be_read_aloud(self, chat, source):
        held = Held(
            answer("", call("read_file", path="src/a.py")), "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
        )
        screen = chat({"handler": held}, "chat", "--screen-reader", "--language", "en", "look")
        screen.until(lambda _: held.seen)
        held.go.set()
        screen.until("done: Read")
        screen.until("2")
        idle(screen)
        assert "you: look" in screen.all
        assert not set("✓✗•·│─┌⠋█") & set(screen.all)
        screen.type("/context" + ENTER)
        screen.until("the context window is unknown")
        screen.type("/theme light" + ENTER)
        screen.until("theme: light")
        assert "mode ask, model scripted" in screen.text
        leave(screen)

    def test_the_mode_by_a_key(self, chat):
        screen = chat([])
        for mode in ("guard", "plan", "auto", "ask"):
            screen.type("\x1b[Z")
            screen.until(lambda screen, mode=mode: screen.text.splitlines()[-1].startswith(f"{mode} ⇧⇥"))
        leave(screen)

    def test_earlier_input_is_found(self, chat):
        screen = chat(["One.", "Two.", "Three."])
        for task, said_then in (("alpha first", "One"), ("beta second", "Two")):
            screen.type(task + ENTER)
            screen.until(said_then)
        idle(screen)
        screen.type("\x12alp")
        screen.until("search: alp")
        screen.type(ENTER)
        screen.until(lambda screen: "search:" not in screen.text)
        screen.type(ENTER)
        screen.until("Three.")
        assert said(screen.server.requests[2]) == "alpha first"
        leave(screen)

    def test_colours_are_those_of_the_theme(self, chat):
        screen = chat(["# Title\n\nWords."], "chat", "--theme", "light", "go")
        screen.until("Words.")
        title = next(line for line in screen.coloured.split("\n") if "Title" in line)
        assert re.search(r"\x1b\[[0-9;]*34m", title), title
        leave(screen)

    def test_arguments_of_commands_are_completed(self, chat):
        screen = chat([])
        screen.type("/mode pl")
        screen.until("(?m)^ plan")
        screen.type(TAB)
        screen.until("> /mode plan")
        screen.type(ENTER)
        screen.until("Mode: plan")
        screen.type("/model scr")
        screen.until("(?m)^ scripted")
        screen.type(ESC)
        leave_line(screen)

    def test_back_to_a_step_with_its_files(self, chat, source):
        edit = answer("", call("edit_file", path="src/a.py", old_text="one\n", new_text="two\n"))
        screen = chat(["Hello.", edit, "Done.", "Back."], "chat", "--allow", "edit_file", "first")
        screen.until("Hello.")
        idle(screen)
        screen.type("second" + ENTER)
        screen.until("Done.")
        idle(screen)
        assert source.read_text() == "two\nlast\n"
        screen.type("/time 1" + ENTER)
        screen.until(r"Step 1 of 3, .*: Hello\.")
        screen.until(r"These diffs show what changed since then")
        assert "two" in screen.all
        assert source.read_text() == "two\nlast\n"
        screen.type("/rewind" + ENTER)
        screen.until("returns to the end of one of these")
        screen.type("/rewind 1" + ENTER)
        screen.until("Rewound to step 1")
        assert source.read_text() == "one\nlast\n"
        screen.type("third" + ENTER)
        screen.until("Back.")
        assert "second" not in str(screen.server.requests[-1].body["messages"])
        leave(screen)

    def test_a_dropped_image_is_sent(self, chat, pal):
        place = pal.workspace / "my shot.png"
        place.write_bytes(conversations.DOT)
        screen = chat(["A dot."])
        screen.type("what is ")
        screen.paste(str(place).replace(" ", "\\ "))
        screen.until(r"\[file 1: my shot.png\]")
        screen.type("?" + ENTER)
        screen.until("A dot.")
        content = screen.server.requests[0].body["messages"][-1]["content"]
        assert [each["type"] for each in content] == ["text", "image_url"]
        leave(screen)

    def test_foreign_commands_get_a_hint(self, chat):
        screen = chat(["An answer."], "chat", "first")
        screen.until("An answer.")
        idle(screen)
        for command, shown in [
            ("/add src/a.py", "Name files in your task"),
            ("/tokens", "System prompt"),
            ("/mcp", "No MCP servers are configured"),
            ("/copy", "terminal's clipboard: 10 characters"),
        ]:
            screen.type(command + ENTER)
            screen.until(shown)
        screen.until(lambda screen: screen.tmux("list-buffers"))
        assert screen.tmux("show-buffer") == "An answer."
        leave(screen)

    def test_limits_hold_in_a_conversation(self, chat, source):
        again = answer("", call("read_file", path="src/a.py"))
        screen = chat([again, "I stop here.", "Next."], "chat", "--max-turns", "1", "go")
        screen.until("The step limit is reached|I stop here")
        idle(screen)
        screen.type("more" + ENTER)
        screen.until("Next.")
        leave(screen)


def leave_line(screen):
    """Empty the input, then leave."""
    screen.type("\x05\x15")
    screen.until(lambda screen: "> /model" not in screen.text)
    leave(screen)


def test_live_region_is_drawn_once_in_a_narrower_window(chat):
    gate, words = Gate(), [f"word{number:02}" for number in range(30)]
    screen = chat([deltas(" ".join(words) + " ", gate, "end.\n\nDone.")])
    screen.type("go" + ENTER)
    screen.until("word28")
    screen.resize(45, 24)
    screen.until(lambda screen: all(len(line) <= 45 for line in screen.lines if "word" in line))
    gate.open()
    screen.until("Done")
    idle(screen)
    assert [screen.joined.count(word) for word in words] == [1] * 30
    assert screen.all.count("ask ⇧⇥ · scripted") == 1
    leave(screen)
