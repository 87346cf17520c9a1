"""Export a session as Markdown or HTML, with the texts of models and tools escaped."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Sequence

from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.story import Entry, Story, read_story
from pure_agent_loop.support.terminal import one_line, safe_text
from pure_agent_loop.support.text import counted

_TITLE = "Session"
_BACKTICKS = re.compile("`+")
_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 50rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }}
h2 {{ font-size: 1rem; margin: 1.5rem 0 .3rem; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0; padding: .6rem .8rem;
  border-left: 3px solid #8888; background: #8881; font: .9rem/1.45 ui-monospace, monospace; }}
.task pre {{ border-color: #36c; }}
.answer pre {{ border-color: #383; font-family: inherit; font-size: 1rem; }}
.failed pre {{ border-color: #c33; }}
.about, .end {{ opacity: .7; }}
summary {{ cursor: pointer; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p class="about">{about}</p>
"""


def to_markdown(records: Sequence[Record], title: str = _TITLE) -> str:
    """Return a session as Markdown. All texts are in fenced blocks that they cannot close.

    Args:
        records: Records of the session, in the order they were written.
    """
    story = read_story(records)
    blocks = [f"# {_plain(title)}", _plain(about(story, records))]
    for entry in story.entries:
        if entry.kind in ("end", "shortened"):
            blocks.append(f"*{_plain(heading(entry))}*")
        else:
            level = "##" if entry.kind == "task" else "###"
            blocks.append(f"{level} {_plain(heading(entry))}\n\n{_fenced(entry)}")
    return "\n\n".join(blocks) + "\n"


def to_html(records: Sequence[Record], title: str = _TITLE) -> str:
    """Return a session as one HTML page: escaped, without scripts, without external resources.

    Args:
        records: Records of the session, in the order they were written.
    """
    story = read_story(records)
    parts = [_HEAD.format(title=_escaped(one_line(title)), about=_escaped(about(story, records)))]
    parts += [_section(entry) for entry in story.entries]
    return "\n".join([*parts, "</body>", "</html>", ""])


def heading(entry: Entry) -> str:
    """Return the heading of an entry: one line, escaped for terminals."""
    words = {
        "task": "Task",
        "user": "User",
        "notice": "Notice to the model",
        "thinking": "Thinking",
        "answer": "Answer",
        "call": f"Call of {one_line(entry.tool, 80)}",
        "result": f"Result of {one_line(entry.tool, 80)}" if entry.tool else "Result",
        "shortened": "Earlier messages were shortened for the model.",
        "end": f"The run ended: {one_line(entry.text, 80)}.",
    }[entry.kind]
    ended = "failed" if entry.failed else entry.state
    if ended and entry.seconds is not None:
        ended += f" after {entry.seconds:.2f} s"
    ended = f" ({one_line(ended)})" if ended else ""
    step = f"Step {entry.step}: " if entry.step and entry.kind not in ("end", "shortened") else ""
    return f"{step}{words}{ended}"


def about(story: Story, records: Sequence[Record]) -> str:
    """Return the counts, times and model of a session: one line, escaped for terminals."""
    facts = [counted(story.steps, "step"), counted(story.messages, "message")]
    if records:
        facts.append(f"{_span(moment(records[0].time), moment(records[-1].time))} UTC")
    if story.model:
        facts.append(one_line(story.model, 80))
    return ", ".join(facts)


def moment(seconds: float) -> str:
    """Format a time in UTC, to the minute; ``?`` if it is outside the calendar.

    Args:
        seconds: Seconds since the epoch.
    """
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "?"


def _span(first: str, last: str) -> str:
    if first == last:
        return first
    day, _, clock = last.partition(" ")
    return f"{first} to {clock if clock and first.startswith(day) else last}"


def _fenced(entry: Entry) -> str:
    text = safe_text(entry.text)
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{'json' if entry.kind == 'call' else 'text'}\n{text}\n{fence}"


def _plain(text: str) -> str:
    """Return one line with the special characters of Markdown and HTML escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&])", r"\\\1", one_line(text))


def _section(entry: Entry) -> str:
    name = _escaped(heading(entry))
    if entry.kind in ("end", "shortened"):
        return f'<p class="end">{name}</p>'
    body = f"<pre>{_escaped(entry.text)}</pre>"
    kind = f"{entry.kind} failed" if entry.failed else entry.kind
    if entry.kind in ("result", "thinking", "notice"):
        return f'<section class="{kind}"><details><summary>{name}</summary>\n{body}</details></section>'
    return f'<section class="{kind}"><h2>{name}</h2>\n{body}</section>'


def _escaped(text: str) -> str:
    return html.escape(safe_text(text), quote=True)
