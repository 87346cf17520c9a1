"""Why a text to be replaced is not found: what differs is named, all of it, and nothing else."""

from __future__ import annotations

import time

import pytest

from pure_agent_loop.toolbox import ChangeTools, Workspace, WorkspaceError

KINDS = {
    "trailing": "trailing spaces",
    "indentation": "indentation",
    "inner": "spaces within the lines",
    "breaks": "line breaks",
    "special": "special spaces",
    "invisible": "invisible characters",
    "case": "upper and lower case",
    "quotes": "quotation marks",
    "dashes": "dashes",
    "alike": "characters that look alike",
    "accents": "accents",
    "escapes": "escapes",
}
CASES = [
    ("it’s “ok” now\n", 'it\'s "ok" now', "quotes"),
    ('it\'s "ok" now\n', "it’s “ok” now", "quotes"),
    ("a – b — c\n", "a - b - c", "dashes"),
    ("wait…\n", "wait...", "alike"),
    ("pаypal\n", "paypal", "alike"),
    ("ＡＢ：1\n", "AB:1", "alike"),
    ("10\u00a0km, 20\u202fkm\n", "10 km, 20 km", "special"),
    ("x\u3000y\n", "x y", "special"),
    ("zero\u200bwidth\n", "zerowidth", "invisible"),
    ("plain\n", "\ufeffplain", "invisible"),
    ("soft\u00adhyphen and \u200ejoiner\n", "softhyphen and joiner", "invisible"),
    ("caf\u00e9\n", "cafe\u0301", "accents"),
    ("Def F\n", "def f", "case"),
    ("a\n\tb\n", "a\n    b", "indentation"),
    ("    b\n", "\tb", "indentation"),
    ("a  \nb\n", "a\nb", "trailing"),
    ("a\nb\n", "a \nb", "trailing"),
    ("a = 1\n", "a  =  1", "inner"),
    ("f(a,b)\n", "f(a, b)", "inner"),
    ("a b\n", "a\nb", "breaks"),
    ("a\n\nb\n", "a\nb", "breaks"),
    ("a\rb\n", "a\nb", "breaks"),
    ('say "x"\nand\ty\n', 'say \\"x\\"\\nand\\ty', "escapes"),
    ("if a < b && c:\n", "if a &lt; b &amp;&amp; c:", "escapes"),
    ("a\\nb\n", "a\nb", "escapes"),
    ("“a”\r\nb\r\n", '"a"\nb', "quotes"),
    ("a\r\nb\r\n", "a \nb", "trailing"),
    ("\n\u00a0\u00a0a\n", "\n  a", "special"),
    ("a\nb\n", "a\\nb\\n", "escapes"),
    ("b\n", "b\\n", "escapes"),
    ("print('\\u2192')\n", "print('→')", "escapes"),
    ("“a”\u00a0–\tb \n\tC\n", '"a" - b\n  c', "quotes dashes special inner trailing indentation case"),
    ("‘x\u200b’\n    Y\n", "'x'\\n    y", "quotes escapes case invisible"),
]


@pytest.fixture
def tools(tmp_path):
    return ChangeTools(Workspace(tmp_path))


def refusal(tools, tmp_path, text, old):
    (tmp_path / "f.txt").write_bytes(text.encode())
    with pytest.raises(WorkspaceError) as caught:
        tools.edit_file("f.txt", old, "new")
    return str(caught.value)


@pytest.mark.parametrize(("text", "old", "kinds"), CASES)
def test_exactly_the_differences_are_described(tools, tmp_path, text, old, kinds):
    said = refusal(tools, tmp_path, f"first\n{text}last\n", old)
    what = said.partition("The difference is ")[2].partition(". The file has:")[0]
    found = {name for name, words in KINDS.items() if words in what}
    if "escapes" in found:  # it is said what they are instead of
        found -= {"breaks", "quotes"} - set(kinds.split())
    assert found == set(kinds.split()), said
    assert "\nline " in said


def test_characters_are_named(tools, tmp_path):
    said = refusal(tools, tmp_path, "“a”\u00a0b\n", '"a" b')
    assert '“ (U+201C) for your "; ” (U+201D) for your "' in said
    assert "special spaces (U+00A0 for your space or nothing)" in said


def test_equal_escapes_and_look_alikes_are_not_differences(tools, tmp_path):
    said = refusal(tools, tmp_path, "print(“a\\n”)  # ok\n", "print(“a\\n”) # ok")
    assert "The difference is spaces within the lines. " in said


def test_the_place_in_a_long_line_is_shown(tools, tmp_path):
    line = "x" * 5_000 + " the ‘door’ is open " + "y" * 5_000
    said = refusal(tools, tmp_path, f"{line}\n", "the 'door' is open")
    assert "the ‘door’ is open" in said
    assert len(said) < 1_000


def test_other_words_are_other_words(tools, tmp_path):
    said = refusal(tools, tmp_path, "def f(a):\n    return “a”\n", 'def f(b):\n    return "a"')
    assert "The difference" not in said
    assert "return “a”" in said


def test_a_large_file_takes_no_long_time(tools, tmp_path):
    text = "".join(f'{number}: “some words” – with \\" escapes &lt;\n' for number in range(20_000))
    begun = time.process_time()
    assert "quotation marks" in refusal(tools, tmp_path, text + "the ‘end’\n", "the 'end'")
    assert time.process_time() - begun < 30
