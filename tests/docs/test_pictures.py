"""Every picture of the documentation has a maker, two themes and a place, and no address elsewhere."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.docs.page_pictures import shown_by

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"
PICTURES = sorted(path.name for path in IMAGES.iterdir())
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
SHOWN = {path: path.read_text(encoding="utf-8") for path in DOCUMENTS}
ADDRESS = re.compile(r"!\[[^]]*\]\(([^)\s]+)|<(?:img|source)\b[^>]*?(?:src|srcset)=\"([^\"]+)\"")
MAX_BYTES = 150_000


def makers() -> dict[str, str]:
    """Each pattern of the table in CONTRIBUTING.md, with its command."""
    table = SHOWN[ROOT / "CONTRIBUTING.md"].partition("| made by |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    return {pattern: made for names, made in rows for pattern in re.findall(r"`([^`]+)`", names)}


def places() -> set[Path]:
    """The files that the documents show."""
    return {
        (path.parent / address).resolve()
        for path, text in SHOWN.items()
        for address in map("".join, ADDRESS.findall(text))
    }


def test_every_picture_has_one_maker_that_exists():
    table = makers()
    for name in PICTURES:
        assert len([pattern for pattern in table if fnmatch(name, pattern)]) == 1, name
    for pattern, made in table.items():
        assert any(fnmatch(name, pattern) for name in PICTURES), pattern
        for file in re.findall(r"[\w/]+\.py", made):
            assert (ROOT / file).exists(), file
        for module in re.findall(r"-m ([\w.]+)", made):
            assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module
        if "test_" in made and "*" not in pattern:  # a recording: its test names it
            (test,) = re.findall(r"[\w/]+\.py", made)
            assert pattern in (ROOT / test).read_text(encoding="utf-8"), pattern


def test_every_picture_is_shown_and_everything_shown_is_here():
    assert {path.name for path in places() if path.parent == IMAGES} == set(PICTURES)
    for path in places():
        assert path.is_relative_to(ROOT), path
        assert path.exists(), path


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_two_themes_and_is_small(name):
    path = IMAGES / name
    assert path.stat().st_size < MAX_BYTES
    if path.suffix == ".svg":
        text = path.read_text(encoding="utf-8")
        assert "prefers-color-scheme" in text
        assert not re.search(r"(?:href|src)=|url\((?!#)|@import", text)
        assert not re.search(r"[ >\"]/(?:tmp|root|home)/", text)
    else:
        twin = IMAGES / name.replace("-dark", "").replace(".png", "-dark.png")
        light = IMAGES / name.replace("-dark", "")
        assert shown_by(light) == shown_by(twin) != ""


def test_both_forms_are_shown_together():
    for text in SHOWN.values():
        for light in re.findall(r"([\w/.-]+)(?<!-dark)\.png", text):
            assert "images/" not in light or f'srcset="{light}-dark.png"' in text, light
