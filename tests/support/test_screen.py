"""What a terminal shows at the end of what was written; text without control characters is untouched."""

from __future__ import annotations

import pytest

from pure_agent_loop.support.screen import HEIGHT, WrittenScreen, written_text

UNTOUCHED = [
    *("", "a", "a\n", "\n\n a \t\n\n", "x\r\ny  \r\n", "\x01\x0c\0 b", "进度\ncafe\u0301\n", "a\u2028b\x85"),
    *("line\n" * 500, "x" * 40_000, "进" * 9_000 + "\n"),
]
SHOWN = {
    "\rpart 1%\rpart 2%\ndone\n": "part 2%\ndone\n",
    "part (1/1)\r\x1b[Kdone.\n": "done.\n",
    "first\rsecond\nthird": "second\nthird",
    "longer\rshort\n": "shortr\n",
    "50%\r100%\r\nend\r\n": "100%\r\nend\r\n",
    "spin |\b/\b-\bok": "spin ok",
    "\x1b[2K\x1b[1G\x1b[32mgreen\x1b[0m\x1b]0;title\x07 \x1b(B\x1bP1$r\x1b\\.\a\x1b]8;;x\x1b\\": "green .",
    "a\nb\nc\n\x1b[2A\x1b[2KB\n\x1b[2KC\n": "a\nB\nC\n",
    "a: 0\nb: 0\n\x1b[2Fa: 1\x1b[Eb: 1\x1b[E": "a: 1\nb: 1\n",
    "one two\x1b[3D\x1b[Kthree\x1b[5G\x1b[1K": "     hree",
    "\x1b7wait 1\x1b8wait 2\x1b[u\x1b[shere": "here 2",
    "old\nold\x1b[H\x1b[2Jnew": "new",
    "a\nb\nc\x1b[2;1H\x1b[Jend": "a\nend",
    "进度 1\r进度 2": "进度 2",
    "进度\rab": "ab度",
    "进度\ra": "a 度",
    "\x1b[?25l\x1b[?1049hx\x1b[?25h": "x",
    "a\x1b[9999999999Cb": "a" + " " * 199 + "b",
    "cut \x1b]0;title\nnext": "cut \nnext",
    "cut \x1b[12": "cut ",
}


@pytest.mark.parametrize("text", UNTOUCHED, ids=lambda text: ascii(text[:20]))
def test_text_without_control_characters_is_untouched(text):
    assert written_text(text) == text


@pytest.mark.parametrize("text", SHOWN, ids=ascii)
def test_overwritten_text_is_its_last_state_whole_and_in_pieces(text):
    assert written_text(text) == SHOWN[text]
    screen = WrittenScreen()
    assert "".join(map(screen.feed, text)) + screen.close() == SHOWN[text]


def test_cursor_returns_to_no_row_out_of_reach():
    lines = [f"{number}\n" for number in range(3 * HEIGHT)]
    shown = written_text("".join(lines) + "\x1b[999Ax\n").split("\n")
    assert shown[: 2 * HEIGHT + 1] == [line.strip() for line in lines[: 2 * HEIGHT + 1]]
    assert shown[2 * HEIGHT + 1].startswith("x")


def test_frames_without_end_take_bounded_memory():
    screen = WrittenScreen()
    for number in range(20_000):
        assert screen.feed(f"\rframe {number}\x1b[K") == ""
    assert screen.close() == "frame 19999"
    screen = WrittenScreen()
    assert sum(len(screen.feed("x" * 1_000)) for _ in range(100)) > 80_000
