"""What comes in as bytes: text is read by its mark, and what is none is refused before any request."""

from __future__ import annotations

import gzip
import random

import pytest

from pure_agent_loop.cli.task import decoded_text

RANDOM = random.Random(7).randbytes(4000)
WORDS = "Preisliste: Grüße, 5 €\nzweite Zeile\n"
TEXTS = {
    "UTF-8": (WORDS, "utf-8"),
    "UTF-8 with a mark": (WORDS, "utf-8-sig"),
    "UTF-16 with a mark": (WORDS, "utf-16"),
    "UTF-16 without": (WORDS.replace("€", "EUR"), "utf-16-le"),
    "UTF-16, the other order": (WORDS.replace("€", "EUR"), "utf-16-be"),
    "UTF-32": (WORDS, "utf-32"),
    "Windows-1252": (WORDS, "cp1252"),
    "Latin-1": ("Grüße aus Köln", "latin-1"),
    "Chinese": ("价目表\n五元\n", "utf-16"),
    "names of files": ("./src/a.py\0./src/b.py\0", "utf-8"),
}
NONE = {
    "an image": b"\x89PNG\r\n\x1a\n" + RANDOM,
    "packed": gzip.compress(RANDOM[:100]),
    "zeros": bytes(500),
    "an archive": b"notes.txt" + bytes(400) + b"some words",
    "sound": b"RIFF" + bytes(40) + b"".join(bytes((i % 256, 0 if i % 3 else 255)) for i in range(900)),
    "another encoding": "这是中文文本".encode("gbk"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_read_by_its_mark(name):
    words, encoding = TEXTS[name]
    assert decoded_text(words.encode(encoding)) == words


@pytest.mark.parametrize("name", NONE)
def test_undecodable_text_is_rejected(name):
    assert decoded_text(NONE[name]) is None


def test_a_text_that_is_cut_in_a_character_is_read():
    assert decoded_text("日本語".encode()[:-1]) == "日本\ufffd"
    assert decoded_text("only one sign: €".encode()[:-1]) == "only one sign: \ufffd"


def test_both_ways_in(pal):
    (pal.workspace / "list.txt").write_bytes(WORDS.encode("utf-16"))
    (pal.workspace / "dump.txt").write_bytes(NONE["an archive"])
    pal.env["OPENAI_API_KEY"] = "a-key"
    done = pal("-p", "--explain", "sum up", "--attach", "list.txt", text="piped\n".encode("utf-16"))
    assert done.returncode == 0, done.stderr
    assert "zweite Zeile" in done.stdout
    assert "piped" in done.stdout
    done = pal("-p", "sum up", text=NONE["an image"])
    assert done.returncode == 2
    assert "--attach FILE" in done.stderr
    done = pal("-p", "sum up", "--attach", "dump.txt")
    assert done.returncode == 2
    assert "is neither text" in done.stderr
