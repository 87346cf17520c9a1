"""The one door to the terminal: what is written there is clean text and our colours, by construction.

Two things may be in it: text that `clean` let through, and the colours that `Ink.ansi` makes of styles.
Whatever Markdown, a highlighter or a table makes of foreign text is cleaned once more on the way out.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.support import terminal

if TYPE_CHECKING:
    from rich.text import Text

TAB = 4  # columns

# Terminals disagree about the width of what these select, and a wrong width moves what stands behind it.
_SELECTORS = re.compile("[\ufe00-\ufe0f]")
# More marks on one letter would be painted over the lines above and below it.
_MARK = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_PILE = re.compile(f"({_MARK}{{3}}){_MARK}+")
# Characters that make a terminal with bidirectional text show a line in another order.
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
# What only the next piece of a stream tells: the beginning of a line end, a colour, or half a character.
_UNTOLD = re.compile("(?:\r|\x1b(?:\\[[0-9;:]{0,32})?|[\ud800-\udbff])\\Z")

_DARK = {
    "heading": "bold cyan",
    "bold": "bold",
    "italic": "italic",
    "strike": "strike",
    "code": "cyan",
    "link": "underline",
    "dim": "dim",
    "error": "red",
    "warning": "yellow",
    "added": "green",
    "removed": "red",
    "label": "cyan",
    "done": "green",
}
THEMES: Mapping[str, Mapping[str, str]] = {
    "dark": _DARK,
    "light": {**_DARK, "heading": "bold blue", "code": "blue", "label": "blue", "warning": "magenta"},
}


def theme_of(wanted: str, environ: Mapping[str, str]) -> str:
    """The colours for a terminal: what was asked for, else what the terminal says of its background.

    Args:
        wanted: The option ``--theme``.
        environ: The environment; some terminals set ``COLORFGBG`` to numbers such as ``0;15``.
    """
    if wanted in THEMES:
        return wanted
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"


def clean(text: str) -> str:
    """Foreign text as it may stand on a terminal; of control characters only newline and tab are left."""
    text = terminal.safe_text(text)
    return text if text.isascii() else _PILE.sub(r"\1", _SELECTORS.sub("", text))


def one_line(text: str, limit: int = 200) -> str:
    """Foreign text on one line, cut at about `limit` characters."""
    return terminal.one_line(clean(text[: limit * 40]), limit)


def reads_right_to_left(text: str) -> bool:
    """Whether a terminal may show some of `text` in another order than it is read in."""
    return _RIGHT_TO_LEFT.search(text) is not None


class Cleaner:
    """Cleans a stream whose pieces may end anywhere."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, piece: str) -> str:
        """The clean text of what is known with this piece."""
        text = self._rest + piece
        untold = _UNTOLD.search(text)
        self._rest = untold.group() if untold else ""
        return clean(text[: len(text) - len(self._rest)])

    def close(self) -> str:
        """The clean text of what was waited for."""
        rest, self._rest = self._rest, ""
        return clean(rest)


class Ink:
    """Makes lines for the terminal out of rich's texts.

    Args:
        color: False for no escape sequence at all.
        theme: One of `THEMES`.
        reader: Words in the place of signs and lines, for a screen reader.

    Raises:
        ConfigError: There is no such theme.
        MissingExtraError: ``rich`` is not installed.
    """

    def __init__(self, color: bool, theme: str, reader: bool) -> None:
        if theme not in THEMES:
            raise ConfigError(f"theme={theme!r} is not known. Use one of: {', '.join(THEMES)}.")
        try:
            from rich.color import ColorSystem
            from rich.console import Console
            from rich.style import Style
        except ImportError as error:
            raise MissingExtraError("the conversation", "cli") from error
        self.color, self.theme, self.reader = color, theme, reader
        self.console = Console(file=io.StringIO(), color_system=None, width=80, legacy_windows=False)
        self.styles = {role: Style.parse(words) for role, words in THEMES[theme].items()}
        self.styles[""] = Style.null()
        self._system = ColorSystem.STANDARD  # the colours of the user's own theme

    def text(self, *spans: tuple[str, str]) -> Text:
        """A line of foreign or own text: each span has a role (a key of `styles`) and its text."""
        from rich.text import Text

        line = Text(no_wrap=True)
        for role, words in spans:
            line.append(clean(words).replace("\n", " ").expandtabs(TAB), self.styles[role])
        return line

    def fit(self, line: Text, width: int) -> Text:
        """A line cut at the width of the terminal."""
        line = line.copy()
        line.truncate(max(width, 1), overflow="ellipsis")
        return line

    def ansi(self, line: Text) -> str:
        """One line for the terminal. Everything that is shown comes through here."""
        from rich.segment import Segment

        line = line.copy()
        line.rstrip()
        line.end = ""
        out = []
        for segment in Segment.simplify(line.render(self.console)):
            words = clean(segment.text).replace("\n", " ").expandtabs(TAB)
            style = segment.style
            if self.color and style and (words.strip() or style.underline):
                words = style.update_link(None).render(words, color_system=self._system)
            out.append(words)
        return "".join(out)
