"""Pictures of the page: a screenshot in each theme, which carries the text that it shows."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Page

IMAGES = Path(__file__).parents[2] / "docs/images"
COLOURS = 96  # of a picture: text and plain areas need no more
_CHANGING = re.compile(
    r"\d+:\d\d ?(?:[AP]M)?|(?: · )?(?:waited )?\b\d[\d.,]* (?:ms|s|min)\b(?: ·)?"  # times
    r"|(?<=Step 1)(?: Step \d)+"  # marks on an axis of time
    r"|(?<=#s=)[\w-]+|(?<=code: ).*"  # the id of a session, and a request, which other tests compare
)


def take(page: Page, name: str) -> None:
    """Compare a page with its picture, or draw it anew with PAL_RECORD=1.

    What is compared is the tree that a screen reader gets, not pixels: it stands in the picture itself.
    """
    tree = _CHANGING.sub("", page.locator("body").aria_snapshot())
    for theme, ending in (("light", ""), ("dark", "-dark")):
        path = IMAGES / f"page-{name}{ending}.png"
        if os.environ.get("PAL_RECORD"):
            page.emulate_media(color_scheme=theme)
            _save(page.screenshot(animations="disabled", caret="hide"), tree, path)
        assert shown_by(path) == tree, f"{path.name} shows another page; draw it anew: PAL_RECORD=1"


def shown_by(path: Path) -> str:
    """Return the text that a picture carries."""
    with Image.open(path) as picture:
        return str(picture.info.get("Description", ""))


def _save(drawn: bytes, tree: str, path: Path) -> None:
    about = PngInfo()
    about.add_itxt("Description", tree)
    picture = Image.open(io.BytesIO(drawn)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(path, optimize=True, pnginfo=about)
