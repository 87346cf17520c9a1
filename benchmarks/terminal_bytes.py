"""Count the bytes that a conversation writes to the terminal while an answer streams, besides the answer.

    python -m benchmarks.terminal_bytes [--tokens 2000] [--per-second 60] [--width 80] [--height 24]

A real prompt_toolkit application is below the transcript: live lines, an input line, a status line. Time
is counted in ticks, not waited for: each brings the tokens of its share of a second, prints what is finished
and draws the live region if that is due.
"""

from __future__ import annotations

import argparse
import asyncio
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from prompt_toolkit.application import Application, create_app_session, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window

from pure_agent_loop import Event
from pure_agent_loop.cli.chat.output import sparing_output
from pure_agent_loop.cli.chat.transcript import TranscriptView

FRAMES = 8  # ticks per second at which the live region may be drawn
PARAGRAPH = (
    "The **loop** asks the model, runs the tools it *wants* and shows the results, until there is nothing "
    "left to do. Each step is recorded in `sessions/`, so that a crash loses nothing; see "
    "[the notes](https://example.com/notes). "
)
ANSWER = f"""## What happens in a step

{PARAGRAPH}{PARAGRAPH}

- first, the limits are checked
- then the model is asked
- then the **calls** run, together

```python
def step(state, kit):
    prepare(state, kit)
    answer = respond(state, kit)  # under retry
    for call in answer.calls:
        state.results[call.id] = run(call)
    return state
```

| part | lines | what it does |
|---|--:|---|
| loop | 45 | the order of a step |
| gate | 240 | who may |

{PARAGRAPH}

1. one
2. two
3. three

"""


@dataclass
class Measurement:
    """The cost of a stream.

    Args:
        text: Bytes of the answer.
        written: Bytes written to the terminal.
        printed: Bytes of the finished blocks.
        frames: Number of drawings of the live region.
        prints: Number of prints above the live region.
    """

    text: int = 0
    written: int = 0
    printed: int = 0
    frames: int = 0
    prints: int = 0

    @property
    def times(self) -> float:
        """Bytes besides the answer, as a multiple of the answer."""
        return (self.written - self.text) / self.text


@dataclass
class Terminal(io.StringIO):
    """Forwards the output of prompt_toolkit, and counts it.

    Args:
        watch: Function called with each piece.
    """

    watch: Callable[[str], object] | None = None
    written: int = 0
    encoding: str = field(default="utf-8")

    def write(self, text: str) -> int:
        """Count a piece, and forward it."""
        self.written += len(text.encode())
        if self.watch:
            self.watch(text)
        return len(text)

    def isatty(self) -> bool:
        """Return True: the output stands for a terminal."""
        return True

    def fileno(self) -> int:
        """Raise an error, because there is no file."""
        raise OSError("no file")


def tokens(count: int) -> Iterator[str]:
    """Yield an answer of about this many tokens, of four characters each."""
    text = ANSWER * (count * 4 // len(ANSWER) + 1)
    for start in range(0, count * 4, 4):
        yield text[start : start + 4]


async def stream(
    pieces: Sequence[str],
    screen: TranscriptView,
    *,
    per_second: float,
    height: int = 24,
    watch: Callable[[str], object] | None = None,
    printed: Callable[[str], object] | None = None,
    each_frame: Callable[[int, Terminal], object] | None = None,
    size: Callable[[], Size] | None = None,
) -> Measurement:
    """Stream an answer through a real application.

    Args:
        pieces: The tokens.
        screen: The transcript.
        per_second: Tokens per second.
        height: Lines of the terminal.
        watch: Function called with each written piece.
        printed: Function called with each text before it is printed above the live region.
        each_frame: Called after each frame with its number.
        size: The size of the terminal, if it changes.
    """
    terminal, clock = Terminal(watch=watch), [0.0]
    result = Measurement(text=len("".join(pieces).encode()))
    output = sparing_output(terminal, size or (lambda: Size(height, screen.width)))
    with create_pipe_input() as keys, create_app_session(keys, output):
        application = _application(screen, clock)
        running = asyncio.ensure_future(application.run_async())

        async def draw() -> None:
            before = application.render_counter
            application.invalidate()
            while application.render_counter == before:
                await asyncio.sleep(0)

        async def put(text: str) -> None:
            if not text:
                return
            result.prints += 1
            result.printed += len(text.encode())
            if printed:
                printed(text)
            await run_in_terminal(lambda: output.write_raw(text.replace("\n", "\r\n")))

        await draw()
        for number, group in enumerate(_groups(pieces, per_second / FRAMES)):
            clock[0] = number / FRAMES
            events = (Event.text_delta(1, piece) for piece in group)
            at = 1_000.0 + clock[0]
            await put("".join(screen.feed(Event(e.type, 1, e.data, at)) for e in events))
            if screen.is_due(clock[0]):
                await draw()
                result.frames += 1
            if each_frame:
                each_frame(number, terminal)
        await put(screen.feed(Event.thought(1, "")))
        await draw()
        application.exit()
        await running
    result.written = terminal.written
    return result


def _groups(pieces: Sequence[str], per_frame: float) -> Iterator[Sequence[str]]:
    start, due = 0, 0.0
    while start < len(pieces):
        due += per_frame
        yield pieces[start : int(due)]
        start = int(due)


def _application(screen: TranscriptView, clock: list[float]) -> Application[None]:
    buffer = Buffer()

    def line(number: int) -> ANSI:
        lines = screen.live(clock[0])
        return ANSI(lines[number] if number < len(lines) else "")

    status = FormattedTextControl(lambda: ANSI(screen.status("a-model", "ask", seconds=clock[0])))
    body = HSplit(
        [
            *(
                Window(FormattedTextControl(partial(line, number)), height=1)
                for number in range(screen.live_lines)
            ),
            Window(BufferControl(buffer), height=1, get_line_prefix=lambda *_: "> "),
            Window(status, height=1),
        ]
    )
    return Application(Layout(body), key_bindings=KeyBindings(), full_screen=False)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name, default in (("tokens", 2_000), ("per-second", 60), ("width", 80), ("height", 24)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    columns = ("tokens/s", "colour", "text", "written", "printed", "frames", "prints", "times")
    print("".join(f"{column:>9}" for column in columns))
    for speed in sorted({options.per_second, 20, 200}):
        for color in (True, False):
            screen = TranscriptView(options.width, color=color)
            work = stream(list(tokens(options.tokens)), screen, per_second=speed, height=options.height)
            done = asyncio.run(work)
            row = (speed, color, done.text, done.written, done.printed, done.frames, done.prints)
            print("".join(f"{value!s:>9}" for value in row) + f"{done.times:>9.2f}")


if __name__ == "__main__":
    main()
