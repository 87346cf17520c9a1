"""A window of a real tmux, which breaks its lines anew and tells the size later: nothing stands twice."""

from __future__ import annotations

import pytest
from tests.cli.conversations import idle, leave
from tests.cli.screens import ENTER, Screen
from tests.cli.tmux import TmuxScreen

from pure_agent_loop.testing import Gate, answer, call, deltas

# Pairs that follow each other so fast that tmux tells the second size late.
SIZES = [
    [(60, 24), (38, 24)],
    [(100, 24), (45, 24)],
    [(30, 24), (90, 24)],
    [(88, 30), (41, 18)],
    [(33, 20), (80, 40)],
    [(57, 24), (34, 24)],
]
WORDS = [f"word{number:03}" for number in range(140)]
WIDE = [f"字{number:03}词语" for number in range(140)]


@pytest.fixture
def screen_class():
    return TmuxScreen


def paragraph(words):
    return [f"{word} " for word in words]


def fence(words):
    return [
        "Code:\n\n```python\n",
        *(f"{word}{' = 1' * (n % 9 == 8)}{_end(n, 9)}" for n, word in _numbered(words)),
    ]


def table(words):
    return [
        "| a | b |\n|---|---|\n",
        *(f"| {word} {'|' * (n % 2)}{_end(n, 2)}" for n, word in _numbered(words)),
    ]


def items(words):
    return [f"{'- ' * (n % 8 == 0)}{word}{_end(n, 8)}" for n, word in _numbered(words)]


def bold(words):
    return ["**", *paragraph(words[:90]), "end** ", *paragraph(words[90:])]


def _numbered(words):
    return list(enumerate(words))


def _end(number, every):
    return "\n" if number % every == every - 1 else " "


def whole(screen):
    """All that stands there, without blanks."""
    return "".join(screen.joined.split())


def until_once(screen, *texts):
    """Wait until each text stands there once, in one look: tmux may tell the last size after any other."""
    screen.until(lambda screen: _once(screen, texts))


def _once(screen, texts):
    seen = whole(screen)
    return all(seen.count(text) == 1 for text in texts)


@pytest.mark.parametrize(
    ("shape", "words", "columns"),
    [
        (paragraph, WORDS, 60),
        (paragraph, WORDS, 100),
        (paragraph, WIDE, 80),
        (fence, WORDS, 80),
        (table, WORDS, 80),
        (items, WORDS, 80),
        (bold, WORDS, 80),
    ],
    ids=["paragraph-60", "paragraph-100", "wide", "code", "table", "list", "bold"],
)
def test_answer_is_printed_once(chat, shape, words, columns):
    pieces = shape(words)
    gates = [Gate(f"after {number} pieces") for number in range(len(SIZES))]
    script = [*pieces[:20]]
    for number, gate in enumerate(gates):
        script += [gate, *pieces[20 + 20 * number : 40 + 20 * number]]
    screen = chat([deltas(*script, *pieces[20 + 20 * len(gates) :], "\n\nDone.")], columns=columns)
    screen.type("go" + ENTER)
    screen.until(words[12][:6] + "|table")
    for gate, sizes in zip(gates, SIZES, strict=True):
        for size in sizes:
            screen.resize(*size)
        gate.open()
    screen.until("Done")
    idle(screen)
    until_once(screen, "ask⇧⇥·scripted", ">go", *words)
    assert "writing" not in whole(screen)
    leave(screen)


def test_live_lines_are_shown_once_after_repeated_resizes(chat):
    """Each time, tmux scrolls by the rows that it breaks the lines into, and never back."""
    gate = Gate()
    screen = chat([deltas("**", *paragraph(WORDS[:40]), gate, "end**\n\nDone.")], columns=88)
    screen.type("go" + ENTER)
    screen.until(WORDS[39])
    for letter in "abcdefgh":
        for columns in (88, 31):
            screen.resize(columns, 24)
            screen.until(lambda screen, told=columns: screen.told == told)
            screen.type(letter)
            screen.until(f"> .*{letter * (1 if columns == 88 else 2)}")
    gate.open()
    screen.until("Done")
    until_once(screen, "ask·scripted", ">go", *WORDS[:40])
    screen.type("\x15")
    leave(screen)


def test_a_question_and_its_diff_stand_once(chat, pal):
    (pal.workspace / "a.txt").write_text("".join(f"line {number}\n" for number in range(9)))
    new = "".join(f"changed {number} " + "with a long end " * 5 + "\n" for number in range(9))
    old = "".join(f"line {number}\n" for number in range(9))
    edit = call("edit_file", path="a.txt", old_text=old, new_text=new)
    screen = chat([answer("", edit), "Done."], columns=100)
    screen.type("go" + ENTER)
    screen.until("❯ y")
    screen.type("because")
    for sizes in SIZES:
        for size in sizes:
            screen.resize(*size)
        until_once(screen, "yYes", ">because")
    until_once(screen, "ask⇧⇥·scripted", ">because", *(f"+changed{number}" for number in range(9)))
    screen.type("\x15y" + ENTER)
    screen.until("Done")
    idle(screen)
    until_once(screen, "Done.")
    leave(screen)


def test_lines_from_the_top_of_a_cleared_screen_stand_once(chat):
    gate = Gate()
    screen = chat([deltas("First.", usage=None), deltas(*paragraph(WORDS[:12]), gate, "end.")], columns=100)
    screen.type("one" + ENTER)
    screen.until("First")
    idle(screen)
    screen.type("\x0c")
    screen.until(lambda screen: "First" not in screen.text)
    screen.type("two" + ENTER)
    screen.until("word001")
    screen.resize(40, 24)
    screen.resize(31, 24)
    gate.open()
    screen.until("end")
    idle(screen)
    until_once(screen, "·scripted", *WORDS[:12])
    leave(screen)


@pytest.mark.parametrize("screen_class", [Screen])
def test_a_terminal_that_breaks_nothing_anew_shows_all_once(chat, pal):
    pal.env["TERM"] = "screen-256color"
    gate = Gate()
    screen = chat([deltas(*paragraph(WORDS[:40]), gate, *paragraph(WORDS[40:60]), "end.")])
    screen.type("go" + ENTER)
    screen.until("word010")
    screen.resize(90, 30)
    gate.open()
    screen.until("end")
    idle(screen)
    screen.until(lambda screen: "ask⇧⇥·scripted" in "".join(screen.all.split()))
    seen = "".join(screen.all.split())
    assert [seen.count(word) for word in WORDS[20:60]] == [1] * 40
    leave(screen)
