"""How seldom and how little is drawn: when it is worth it, and without what changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from pure_agent_loop.errors import ConfigError

if TYPE_CHECKING:
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.output.vt100 import Vt100_Output


LEAST_NEW = 80  # characters that are worth drawing at once; a drawing costs about half as many bytes again
TEXT_SECONDS, WORK_SECONDS, IDLE_SECONDS = 0.8, 0.25, 1.0  # after which less is drawn too


class Pace:
    """Knows when the live lines are worth drawing.

    Args:
        animation: Whether they change by time alone.
    """

    def __init__(self, animation: bool) -> None:
        self._animation = animation
        self._new, self._drawn = LEAST_NEW, 0.0

    def note(self, characters: int) -> None:
        """So much is new."""
        self._new += characters

    def is_due(self, now: float, working: bool) -> bool:
        """Whether to draw; then nothing is new any more.

        Args:
            now: Seconds since the epoch.
            working: Something runs whose time is shown.
        """
        passed = now - self._drawn
        moves = self._animation and passed >= (WORK_SECONDS if working else IDLE_SECONDS)
        if not (moves or self._new >= LEAST_NEW or (self._new and passed >= TEXT_SECONDS)):
            return False
        self._new, self._drawn = 0, now
        return True


def sparing_output(stream: TextIO, size: Callable[[], Size] | None = None) -> Vt100_Output:
    """An output for ``Application(output=...)`` that writes about half as much for each drawing.

    Args:
        stream: The terminal.
        size: What knows its size; it is asked itself if None.
    """
    from prompt_toolkit.output.vt100 import Vt100_Output

    made = Vt100_Output.from_pty(stream) if size is None else Vt100_Output(stream, size, enable_cpr=False)
    _keep_cursor(made)
    _switch_wrapping_late(made)
    _keep_attributes(made)
    return made


def _keep_cursor(output: Vt100_Output) -> None:
    """A drawing is written at once, so nobody would see the cursor that it hides."""
    output.hide_cursor = output.show_cursor = lambda: None  # type: ignore[method-assign]  # of this output only


def _switch_wrapping_late(output: Vt100_Output) -> None:
    """Each drawing switches line wrapping off and on. Here it is switched when it matters."""
    stands, wanted = True, True
    write, release = output.write, output.disable_bracketed_paste

    def want(wraps: bool) -> None:
        nonlocal wanted
        wanted = wraps

    def settle() -> None:
        nonlocal stands
        if stands != wanted:
            output.write_raw("\x1b[?7h" if wanted else "\x1b[?7l")
            stands = wanted

    def settled_write(data: str) -> None:
        settle()
        write(data)

    def settled_release() -> None:  # the terminal is about to be handed to somebody else
        settle()
        release()

    output.enable_autowrap = lambda: want(True)  # type: ignore[method-assign]  # of this output only
    output.disable_autowrap = lambda: want(False)  # type: ignore[method-assign]  # of this output only
    output.write = settled_write  # type: ignore[method-assign]  # of this output only
    output.disable_bracketed_paste = settled_release  # type: ignore[method-assign]  # of this output only


def _keep_attributes(output: Vt100_Output) -> None:
    """Colours are set before each text, also to what they are."""
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

    output.set_attributes = set_attributes  # type: ignore[method-assign]  # of this output only
    output.reset_attributes = reset_attributes  # type: ignore[method-assign]  # of this output only


def positive(name: str, value: int) -> int:
    """A size that was given.

    Raises:
        ConfigError: It is none.
    """
    if value < 1:
        raise ConfigError(f"{name}={value!r} must be 1 or more.")
    return value
