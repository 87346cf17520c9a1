"""The first start: the question for a model, its key, and the models that its server lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import KEY, WRONG
from tests.cli.terminal import CTRL_D, Terminal

from pure_agent_loop.cli.first_start import PROPOSED, is_lasting


def choose_key(terminal: Terminal, url: str) -> None:
    """Answer the question up to the list of models: a wrong key, then the right one."""
    terminal.until("Number from 1 to")
    row = next(line.split()[0] for line in terminal.shown.splitlines() if "Enter a key" in line)
    terminal.until(": ")
    terminal.type(f"{row}\n")
    terminal.until("Number from 1 to 3 or URL")
    terminal.until(": ")
    terminal.type(f"{url}\n")
    for key in (WRONG, KEY):
        terminal.until("): ")
        terminal.type(f"{key}\n")


@pytest.mark.parametrize(
    "words", [["run", "--no-tools", "hi"], ["serve", "--port", "0"]], ids=["run", "serve"]
)
def test_the_key_is_checked_before_a_model_is_chosen(pal, maker, words):
    url, requests = maker
    terminal = Terminal(pal, *words)
    try:
        choose_key(terminal, url)
        terminal.until("Which model?")
        terminal.until("Enter for 1: ")
        terminal.type("\n")
        terminal.until("Hello from the maker." if words[0] == "run" else "server started: ")
    finally:
        terminal.close()
    assert "no such key" in " ".join(terminal.shown.split())
    assert KEY not in terminal.shown
    assert WRONG not in terminal.shown
    assert "  1  lasting-1\n  2  lasting-2" in terminal.shown
    assert "gpt-4o-mini" not in terminal.shown
    assert [request for request in requests if request[0] == "GET"] == [
        ("GET", f"Bearer {WRONG}"),
        ("GET", f"Bearer {KEY}"),
    ]
    home = Path(pal.env["PAL_HOME"])
    assert KEY in (home / "keys.env").read_text()
    assert "lasting-1" in (home / "pal.toml").read_text()


def test_a_key_in_place_of_another_answer_is_not_used_nor_repeated(pal):
    terminal = Terminal(pal, "run", "hi")
    try:
        terminal.until("Enter to leave: ")
        terminal.type(f"{KEY}\n")
        terminal.until("looks like a key")
        terminal.until("Enter to leave: ")
        row = next(line.split()[0] for line in terminal.shown.splitlines() if "Enter a key" in line)
        terminal.type(f"{row}\n")
        terminal.until("or URL, or Enter to leave: ")
        terminal.type(f"{KEY}\n")
        terminal.until("looks like a key")
        terminal.until("or URL, or Enter to leave: ")
        terminal.type(CTRL_D)
        assert terminal.end() == 2
    finally:
        terminal.close()
    assert terminal.shown.count(KEY) == 2  # what the terminal itself has echoed
    assert not (Path(pal.env["PAL_HOME"]) / "pal.toml").exists()


@pytest.mark.parametrize("keys", ["\n", "n\n", "\x1b\n", CTRL_D], ids=["enter", "no", "escape", "end"])
def test_the_question_can_be_left(pal, keys):
    terminal = Terminal(pal, "run", "hi")
    try:
        terminal.until("Enter to leave: ")
        terminal.type(keys)
        assert terminal.end() == 2
    finally:
        terminal.close()
    assert "Traceback" not in terminal.shown
    assert not (Path(pal.env["PAL_HOME"]) / "pal.toml").exists()


def test_no_proposed_model_has_a_shutdown_date():
    assert all(map(is_lasting, PROPOSED.values()))
    assert not is_lasting("gpt-4o-mini-2024-07-18")
