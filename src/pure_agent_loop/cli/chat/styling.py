"""Make text safe for the terminal: only clean text and the program's own colors are written.

Output consists of text that passed `clean` and of colors that `Styler.ansi` renders. Output from Markdown, a
highlighter or a table is cleaned again.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.support import terminal
from pure_agent_loop.support.language import notice

if TYPE_CHECKING:
    from rich.text import Text


TAB = 4  # columns
VERBATIM: Literal["ignore"] = "ignore"  # overflow value for a line that is printed unchanged
# Variation selectors: terminals disagree on the resulting width, which would shift the rest of the line.
_SELECTORS = re.compile("[\ufe00-\ufe0f]")
# Combining marks: more than three on one letter would paint over neighboring lines.
_MARK = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_PILE = re.compile(f"({_MARK}{{3}}){_MARK}+")
# Right-to-left characters: a bidirectional terminal reorders a line that contains them.
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
# A sequence that the next piece of text may complete: a line ending, an escape sequence or a surrogate pair.
_INCOMPLETE = re.compile("(?:\r|\x1b(?:\\[[0-9;:]{0,32})?|[\ud800-\udbff])\\Z")
_DARK = {
    "heading": "bold cyan",
    "bold": "bold",
    "italic": "italic",
    "strike": "strike",
    "code": "cyan",
    "link": "underline",
    "dim": "dim",
    "error": "red",
    "error_label": "bold red",
    "warning": "yellow",
    "added": "green",
    "removed": "red",
    "added_part": "reverse green",
    "removed_part": "reverse red",
    "label": "cyan",
    "done": "green",
    "ask": "bold",
    "guard": "bold",
    "plan": "blue",
    "auto": "green",
    "bypass": "reverse red",
}
THEMES: Mapping[str, Mapping[str, str]] = {
    "dark": _DARK,
    "light": {**_DARK, "heading": "bold blue", "code": "blue", "label": "blue", "warning": "magenta"},
}


def theme_of(option: str, environ: Mapping[str, str]) -> str:
    """Return the theme that ``--theme`` names, or else a theme for the background of the terminal.

    Args:
        environ: The environment; some terminals set ``COLORFGBG`` to numbers such as ``0;15``.
    """
    if option in THEMES:
        return option
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"


def clean(text: str) -> str:
    """Make untrusted text safe for a terminal; remove control characters except newline and tab."""
    text = terminal.safe_text(text)
    return text if text.isascii() else _PILE.sub(r"\1", _SELECTORS.sub("", text))


def one_line(text: str, limit: int = 200) -> str:
    """Make untrusted text safe and fit it on one line of about `limit` characters."""
    return terminal.one_line(clean(text[: limit * 40]), limit)


def reads_right_to_left(text: str) -> bool:
    """Return True if a terminal may reorder a part of `text`."""
    return _RIGHT_TO_LEFT.search(text) is not None


class Cleaner:
    """Cleans a stream of text whose pieces may end anywhere."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, piece: str) -> str:
        """Add a piece of text; return the completed part, cleaned."""
        text = self._rest + piece
        incomplete = _INCOMPLETE.search(text)
        self._rest = incomplete.group() if incomplete else ""
        return clean(text[: len(text) - len(self._rest)])

    def close(self) -> str:
        """End the stream; return the rest, cleaned."""
        rest, self._rest = self._rest, ""
        return clean(rest)


class Styler:
    """Renders rich texts as lines for the terminal.

    Args:
        color: False to write no escape sequences.
        reader: True to use words instead of signs and lines, for a screen reader.

    Raises:
        ConfigError: The theme is unknown.
        MissingExtraError: ``rich`` is not installed.
    """

    def __init__(self, color: bool, theme: str, reader: bool) -> None:
        if theme not in THEMES:
            raise ConfigError(notice("cli.unknown_theme", theme=theme, themes=", ".join(THEMES)))
        try:
            from rich.color import ColorSystem
            from rich.console import Console
            from rich.style import Style
        except ImportError as error:
            raise MissingExtraError(notice("library.feature_conversation"), "cli") from error
        self.color, self.theme, self.reader = color, theme, reader
        self.console = Console(file=io.StringIO(), color_system=None, width=80, legacy_windows=False)
        self.styles = {role: Style.parse(words) for role, words in THEMES[theme].items()}
        self.styles[""] = Style.null()
        self._system = ColorSystem.STANDARD  # 16 colors, which follow the color scheme of the terminal

    def text(self, *spans: tuple[str, str]) -> Text:
        """Create a line from spans, which are pairs of a role (a key of `styles`) and a text."""
        from rich.text import Text

        line = Text(no_wrap=True)
        for role, words in spans:
            line.append(clean(words).replace("\n", " ").expandtabs(TAB), self.styles[role])
        return line

    def code(self, role: str, words: str) -> Text:
        """Create a line of code or of a diff, with tabs and trailing blanks kept for copying."""
        from rich.text import Text

        line = Text(no_wrap=True, overflow=VERBATIM)
        return line.append(clean(words).replace("\n", " "), self.styles[role])

    def wrapped(self, text: Text, width: int) -> list[Text]:
        """Wrap a text between words; a word wider than a line is broken, so that each line fits."""
        lines = []
        for line in text.split("\n", allow_blank=True):
            line.expand_tabs(TAB)
            for piece in line.divide(terminal.line_breaks(line.plain, width)):
                piece.rstrip()
                lines.append(piece)
        return lines

    def broken(self, line: Text, width: int) -> list[Text]:
        """Break a line between words; code stays whole, so that it can be copied."""
        return [line] if line.overflow == VERBATIM else self.wrapped(line, width) or [line]

    def fit(self, line: Text, width: int) -> Text:
        """Cut a line at `width` columns; for a screen reader, return it whole."""
        line = line.copy()
        line.overflow = None
        line.expand_tabs(TAB)
        if not self.reader:
            line.truncate(max(width, 1), overflow="ellipsis")
        return line

    def ansi(self, line: Text) -> str:
        """Render one line for the terminal. All output passes through here."""
        from rich.segment import Segment

        line = line.copy()
        is_verbatim = line.overflow == VERBATIM
        if not is_verbatim:
            line.rstrip()
        line.end = ""
        out = []
        for segment in Segment.simplify(line.render(self.console)):
            words = clean(segment.text).replace("\n", " ")
            words = words if is_verbatim else words.expandtabs(TAB)
            style = segment.style
            if self.color and style and (words.strip() or style.underline):
                words = style.update_link(None).render(words, color_system=self._system)
            out.append(words)
        return "".join(out)
