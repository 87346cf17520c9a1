"""Reduce drawing: how often the live region is drawn, and how many bytes a drawing costs."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TextIO

from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.support import terminal
from pure_agent_loop.support.language import notice

if TYPE_CHECKING:
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.output import Output
    from prompt_toolkit.output.vt100 import Vt100_Output
    from prompt_toolkit.renderer import Renderer
    from rich.text import Text

# Variables set by terminals that rewrap lines on resize; xterm and consoles cut lines off.
_REFLOWING = (
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "WT_SESSION",
    "ALACRITTY_WINDOW_ID",
    "KONSOLE_VERSION",
)
MIN_COLUMNS, MIN_ROWS = 30, 16  # minimum window in which no live line scrolls out of reach
MIN_NEW = 80  # new characters that justify a drawing; a drawing adds about half as many bytes
TEXT_SECONDS, WORK_SECONDS, IDLE_SECONDS = 0.8, 0.25, 1.0  # after which fewer characters justify a drawing
TAB = 4  # columns
VERBATIM: Literal["ignore"] = "ignore"  # overflow value of a line that is printed unchanged
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
# A sequence that the next piece may complete: a line ending, an escape sequence or a surrogate pair.
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
    "label": "cyan",
    "done": "green",
    "ask": "bold",
    "plan": "blue",
    "auto": "green",
    "bypass": "reverse red",
}
THEMES: Mapping[str, Mapping[str, str]] = {
    "dark": _DARK,
    "light": {**_DARK, "heading": "bold blue", "code": "blue", "label": "blue", "warning": "magenta"},
}


class RedrawRate:
    """Decides when to draw the live lines.

    Args:
        animation: The lines also change with time.
    """

    def __init__(self, animation: bool) -> None:
        self._animation = animation
        self._new, self._drawn = MIN_NEW, 0.0

    def note(self, characters: int) -> None:
        """Add a number of new characters."""
        self._new += characters

    def is_due(self, now: float, working: bool) -> bool:
        """Return True if the lines should be drawn, and reset the count of new characters.

        Args:
            now: Seconds since the epoch.
            working: A running call or task shows its time.
        """
        passed = now - self._drawn
        moves = self._animation and passed >= (WORK_SECONDS if working else IDLE_SECONDS)
        if not (moves or self._new >= MIN_NEW or (self._new and passed >= TEXT_SECONDS)):
            return False
        self._new, self._drawn = 0, now
        return True


def sparing_output(stream: TextIO, size: Callable[[], Size] | None = None) -> Vt100_Output:
    """Return an output for ``Application(output=...)`` that writes about half the bytes per drawing.

    Args:
        size: Returns the size of the terminal; None to ask the terminal.
    """
    from prompt_toolkit.output.vt100 import Vt100_Output

    made = Vt100_Output.from_pty(stream) if size is None else Vt100_Output(stream, size, enable_cpr=False)
    _keep_cursor(made)
    _switch_wrapping_late(made)
    _keep_attributes(made)
    return made


def _keep_cursor(output: Vt100_Output) -> None:
    """Never hide the cursor: a drawing is written in one piece, so it cannot flicker."""
    output.hide_cursor = output.show_cursor = lambda: None  # type: ignore[method-assign]  # patches this output only


def _switch_wrapping_late(output: Vt100_Output) -> None:
    """Switch line wrapping only before text is written; each drawing requests it off and on."""
    current, wanted = True, True
    write, release = output.write, output.disable_bracketed_paste

    def want(wraps: bool) -> None:
        nonlocal wanted
        wanted = wraps

    def settle() -> None:
        nonlocal current
        if current != wanted:
            output.write_raw("\x1b[?7h" if wanted else "\x1b[?7l")
            current = wanted

    def settled_write(data: str) -> None:
        settle()
        write(data)

    def settled_release() -> None:  # another program is about to use the terminal
        settle()
        release()

    output.enable_autowrap = lambda: want(True)  # type: ignore[method-assign]  # patches this output only
    output.disable_autowrap = lambda: want(False)  # type: ignore[method-assign]  # patches this output only
    output.write = settled_write  # type: ignore[method-assign]  # patches this output only
    output.disable_bracketed_paste = settled_release  # type: ignore[method-assign]  # patches this output only


def _keep_attributes(output: Vt100_Output) -> None:
    """Write colors only when they change."""
    from prompt_toolkit.output import ColorDepth
    from prompt_toolkit.styles import DEFAULT_ATTRS, Attrs

    current: Attrs | None = None
    change, reset = output.set_attributes, output.reset_attributes

    def set_attributes(attrs: Attrs, color_depth: ColorDepth) -> None:
        nonlocal current
        if attrs != current:
            change(attrs, color_depth)
        current = attrs

    def reset_attributes() -> None:
        nonlocal current
        if current != DEFAULT_ATTRS:
            reset()
        current = DEFAULT_ATTRS

    output.set_attributes = set_attributes  # type: ignore[method-assign]  # patches this output only
    output.reset_attributes = reset_attributes  # type: ignore[method-assign]  # patches this output only


def follow_reflow(renderer: Renderer, output: Vt100_Output, environ: Mapping[str, str]) -> bool:
    """Make the renderer find the start of its drawing after a resize has rewrapped its lines.

    Returns:
        True if the terminal rewraps lines, judged by the environment.
    """
    if environ.get("TMUX") or environ.get("TERM", "").startswith(("tmux", "screen")):
        _walk_back(renderer, output)
    elif any(map(environ.get, _REFLOWING)) or environ.get("TERM_PROGRAM", "") not in ("", "xterm"):
        _count_rows(renderer, output)
    else:
        return False
    return True


def _walk_back(renderer: Renderer, output: Vt100_Output) -> None:
    """Redraw everything each time, after walking back over wrapped lines at any width.

    tmux rewraps lines up to 250 ms before it reports the new size. In tmux, a backspace in the first column
    moves to the previous row if both rows belong to one line; elsewhere, without wrapping, it does nothing.
    """
    render = renderer.render

    def walk_up(amount: int) -> None:
        to_start = "\r\b" * output.get_size().rows
        output.write_raw(f"{to_start}\x1b[A" * amount + to_start)

    def redraw(*args: Any, **options: Any) -> None:
        with at_once(output):
            if renderer.last_rendered_screen is not None:
                renderer.erase(leave_alternate_screen=False)
            render(*args, **options)

    output.cursor_up = walk_up  # type: ignore[method-assign]  # patches this output only
    # Erasing from the first cell of the screen would push its content into the scrollback.
    output.erase_down = lambda: output.write_raw("\x1b[K\x1b[C\x1b[J\r")  # type: ignore[method-assign]  # patches this output only
    renderer.render = redraw  # type: ignore[method-assign]  # patches this renderer only


def _count_rows(renderer: Renderer, output: Vt100_Output) -> None:
    """Count the rows of the last drawing at the new width once the width is known."""
    erase, render = renderer.erase, renderer.render

    def is_narrower() -> bool:
        last = renderer._last_size
        return last is not None and output.get_size().columns < last.columns

    def erase_all(leave_alternate_screen: bool = True) -> None:
        screen, cursor, columns = renderer._last_screen, renderer._cursor_pos, output.get_size().columns
        if screen is not None and is_narrower():
            ends = (
                max(
                    (column for column, cell in screen.data_buffer[row].items() if cell.char.strip()),
                    default=0,
                )
                for row in range(cursor.y)
            )
            wrapped = sum(end // columns for end in ends) + cursor.x // columns
            renderer._cursor_pos = cursor._replace(y=cursor.y + wrapped)
        erase(leave_alternate_screen)

    def rerender(*args: Any, **options: Any) -> None:
        if is_narrower():
            erase_all(leave_alternate_screen=False)
        render(*args, **options)

    renderer.erase = erase_all  # type: ignore[method-assign]  # patches this renderer only
    renderer.render = rerender  # type: ignore[method-assign]  # patches this renderer only


@contextmanager
def at_once(output: Output) -> Iterator[None]:
    """Buffer output and write it in one piece, so that erasing and redrawing do not flicker."""
    flush = output.flush
    output.flush = lambda: None  # type: ignore[method-assign]  # patches this output only
    try:
        yield
    finally:
        output.flush = flush  # type: ignore[method-assign]  # patches this output only
        flush()


def positive(name: str, value: int) -> int:
    """Check that a size is positive and return it.

    Raises:
        ConfigError: The size is below 1.
    """
    if value < 1:
        raise ConfigError(notice("cli.at_least_one", name=name, value=value))
    return value


# -- make text safe for the terminal: only clean text and our colors are ever written --------------------
# Output consists of text that passed `clean` and of colors that `Styler.ansi` renders. Output of
# Markdown, a highlighter or a table is cleaned again.


def theme_of(option: str, environ: Mapping[str, str]) -> str:
    """Return the theme of ``--theme``, else one for the background of the terminal.

    Args:
        environ: The environment; some terminals set ``COLORFGBG`` to numbers such as ``0;15``.
    """
    if option in THEMES:
        return option
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in ("7", "15") else "dark"


def clean(text: str) -> str:
    """Make untrusted text safe for a terminal; keep no control characters but newline and tab."""
    text = terminal.safe_text(text)
    return text if text.isascii() else _PILE.sub(r"\1", _SELECTORS.sub("", text))


def one_line(text: str, limit: int = 200) -> str:
    """Make untrusted text safe and fit it on one line of about `limit` characters."""
    return terminal.one_line(clean(text[: limit * 40]), limit)


def reads_right_to_left(text: str) -> bool:
    """Return True if a terminal may reorder some of `text`."""
    return _RIGHT_TO_LEFT.search(text) is not None


class Cleaner:
    """Cleans a stream in pieces that may end anywhere."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, piece: str) -> str:
        """Add a piece of text; return the completed part, cleaned."""
        text = self._rest + piece
        incomplete = _INCOMPLETE.search(text)
        self._rest = incomplete.group() if incomplete else ""
        return clean(text[: len(text) - len(self._rest)])

    def close(self) -> str:
        """End the stream; return the clean rest."""
        rest, self._rest = self._rest, ""
        return clean(rest)


class Styler:
    """Renders rich texts as lines for the terminal.

    Args:
        color: False for no escape sequences.
        reader: Use words in place of signs and rules, for a screen reader.

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
        self._system = ColorSystem.STANDARD  # uses the color scheme of the terminal

    def text(self, *spans: tuple[str, str]) -> Text:
        """Create a line from spans of role (a key of `styles`) and text."""
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

    def fit(self, line: Text, width: int) -> Text:
        """Cut a line at `width` columns."""
        line = line.copy()
        line.overflow = None
        line.expand_tabs(TAB)
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
