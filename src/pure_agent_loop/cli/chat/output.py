"""Reduce the number of redraws of the live region, and the bytes per redraw."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.output import Output
    from prompt_toolkit.output.vt100 import Vt100_Output
    from prompt_toolkit.renderer import Renderer

# Variables set by terminals that rewrap lines on resize; xterm and consoles cut lines off.
_REFLOWING = (
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "WT_SESSION",
    "ALACRITTY_WINDOW_ID",
    "KONSOLE_VERSION",
)
MIN_COLUMNS, MIN_ROWS = 30, 16  # smallest window in which no live line scrolls out of reach
UNREPORTED_SECONDS = 0.5  # twice the delay before tmux reports a new size
MIN_NEW = 80  # new characters that justify a redraw (of about half as many bytes)
# Seconds after which to redraw anyway: if there is any new text; for animation during work; and while idle.
TEXT_SECONDS, WORK_SECONDS, IDLE_SECONDS = 0.8, 0.25, 1.0


class RedrawRate:
    """Decides when to draw the live lines.

    Args:
        animation: True if the lines also change with time.
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
            working: True if a running call or task shows the elapsed time.
        """
        passed = now - self._drawn
        moves = self._animation and passed >= (WORK_SECONDS if working else IDLE_SECONDS)
        if not (moves or self._new >= MIN_NEW or (self._new and passed >= TEXT_SECONDS)):
            return False
        self._new, self._drawn = 0, now
        return True


def patch(target: object, **methods: Callable[..., Any]) -> None:
    """Replace methods of one object, such as a prompt_toolkit output, without changing its class."""
    vars(target).update(methods)


def sparing_output(stream: TextIO, size: Callable[[], Size] | None = None) -> Vt100_Output:
    """Return an output for ``Application(output=...)`` that writes about half the bytes per redraw.

    Args:
        size: Function that returns the size of the terminal; None to ask the terminal.
    """
    from prompt_toolkit.output.vt100 import Vt100_Output

    made = Vt100_Output.from_pty(stream) if size is None else Vt100_Output(stream, size, enable_cpr=False)
    # Do not hide the cursor: it cannot flicker, because each redraw is written in one piece.
    patch(made, hide_cursor=lambda: None, show_cursor=lambda: None)
    _switch_wrapping_late(made)
    _keep_attributes(made)
    return made


def _switch_wrapping_late(output: Vt100_Output) -> None:
    """Switch line wrapping only before text is written: prompt_toolkit turns it off and on at each redraw."""
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

    patch(
        output,
        enable_autowrap=lambda: want(True),
        disable_autowrap=lambda: want(False),
        write=settled_write,
        disable_bracketed_paste=settled_release,
    )


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

    patch(output, set_attributes=set_attributes, reset_attributes=reset_attributes)


def follow_reflow(
    renderer: Renderer,
    output: Vt100_Output,
    environ: Mapping[str, str],
    scrolled: Callable[[int], None],
) -> bool:
    """Let the renderer find the start of its output after a resize has rewrapped the lines.

    Args:
        scrolled: Function called with the number of rows by which a resize may have scrolled the screen.

    Returns:
        True if the terminal rewraps lines, according to the environment.
    """
    if environ.get("TMUX") or environ.get("TERM", "").startswith(("tmux", "screen")):
        _walk_back(renderer, output, scrolled)
    elif any(map(environ.get, _REFLOWING)) or environ.get("TERM_PROGRAM", "") not in ("", "xterm"):
        _count_rows(renderer, output)
    else:
        return False
    return True


def _wrapped_rows(renderer: Renderer, columns: int) -> int:
    """Return how many more rows the drawn lines above the cursor take in a window of this width."""
    screen, rows = renderer.last_rendered_screen, range(renderer._cursor_pos.y)
    cells = [screen.data_buffer[row].items() for row in rows] if screen is not None else []
    ends = (max((x for x, cell in row if cell.char.strip()), default=0) for row in cells)
    return sum(end // columns for end in ends)


def _walk_back(renderer: Renderer, output: Vt100_Output, scrolled: Callable[[int], None]) -> None:
    """Redraw everything each time, after moving up over wrapped lines at any width.

    tmux rewraps lines up to 250 ms before it reports the new size, and may never report it. In tmux, a
    backspace in the first column moves to the previous row if both rows belong to one line; elsewhere,
    without wrapping, it does nothing. When rewrapping adds rows, the screen scrolls and does not scroll back.
    """
    erase, render = renderer.erase, renderer.render
    size, draws = output.get_size(), list[float]()

    def erase_all(leave_alternate_screen: bool = True) -> None:
        nonlocal size, draws
        before, size, now = size, output.get_size(), time.monotonic()
        draws = [*(moment for moment in draws if now - moment < UNREPORTED_SECONDS), now]
        if size != before:  # each of these draws may have happened at another width
            scrolled(len(draws) * _wrapped_rows(renderer, MIN_COLUMNS))
        erase(leave_alternate_screen)

    def walk_up(amount: int) -> None:
        to_start = "\r\b" * output.get_size().rows
        output.write_raw(f"{to_start}\x1b[A" * amount + to_start)

    def redraw(*args: Any, **options: Any) -> None:
        with at_once(output):
            if renderer.last_rendered_screen is not None:
                renderer.erase(leave_alternate_screen=False)
            render(*args, **options)

    patch(output, cursor_up=walk_up)
    # Erasing from the first cell of the screen would push the content into the scrollback.
    patch(output, erase_down=lambda: output.write_raw("\x1b[K\x1b[C\x1b[J\r"))
    patch(renderer, erase=erase_all, render=redraw)


def _count_rows(renderer: Renderer, output: Vt100_Output) -> None:
    """Count the rows of the last redraw at the new width, once that width is known."""
    erase, render = renderer.erase, renderer.render

    def is_narrower() -> bool:
        last = renderer._last_size
        return last is not None and output.get_size().columns < last.columns

    def erase_all(leave_alternate_screen: bool = True) -> None:
        cursor, columns = renderer._cursor_pos, output.get_size().columns
        if is_narrower():
            wrapped = _wrapped_rows(renderer, columns) + cursor.x // columns
            renderer._cursor_pos = cursor._replace(y=cursor.y + wrapped)
        erase(leave_alternate_screen)

    def rerender(*args: Any, **options: Any) -> None:
        if is_narrower():
            erase_all(leave_alternate_screen=False)
        render(*args, **options)

    patch(renderer, erase=erase_all, render=rerender)


@contextmanager
def at_once(output: Output) -> Iterator[None]:
    """Buffer output and write it in one piece, so that erasing and redrawing do not flicker."""
    flush = output.flush
    patch(output, flush=lambda: None)
    try:
        yield
    finally:
        patch(output, flush=flush)
        flush()
