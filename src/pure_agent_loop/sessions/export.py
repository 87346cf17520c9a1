"""Export a session as Markdown or HTML, with the texts of models and tools escaped."""

from __future__ import annotations

import difflib
import html
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pure_agent_loop.sessions.stores.records import Record
from pure_agent_loop.sessions.story import Entry, Story, read_story, without_files
from pure_agent_loop.support.explained import failure_lines
from pure_agent_loop.support.parsing import parsed_object
from pure_agent_loop.support.prose import fenced, prose_to_html, prose_to_markdown
from pure_agent_loop.support.terminal import one_line, safe_text
from pure_agent_loop.support.text import counted

_FOLDED = ("call", "result", "thinking", "notice")
_MAX_TITLE = 80  # characters
_MAX_COMPARED = 1_000  # maximum lines, because difflib takes quadratic time
_EDIT = {"path", "old_text", "new_text", "content"}
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")
# Blocks that are indented on the left or the right, depending on the direction of their text.
_BLOCK = re.compile(r"<(ul|ol|blockquote|table)\b")
_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark;
  --ground: light-dark(#fbfaf8, #171817); --raised: light-dark(#ffffff, #1f2120);
  --sunk: light-dark(#f2f0ec, #121312);
  --line: light-dark(#e2dfd8, #333634); --ink: light-dark(#22241f, #e8e8e3);
  --dim: light-dark(#62655d, #a3a79e);
  --tint: light-dark(#e6f0ec, #22322d); --bad: light-dark(#a5302a, #f09a92);
  --add: light-dark(#14632e, #86d49d); }}
body {{ max-width: 46rem; margin: 2rem auto; padding: 0 1rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", sans-serif;
  overflow-wrap: anywhere; }}
h1 {{ font-size: 1.625rem; line-height: 1.25; margin: 0 0 .3rem; }}
section {{ margin: 1rem 0; }}
h2, summary, .about, .end {{ font-size: .875rem; font-weight: 400; color: var(--dim); margin: 0 0 .3rem; }}
h3, h4, h5, h6 {{ font-size: 1rem; margin: 1.2rem 0 .4rem; }}
h3 {{ font-size: 1.25rem; }}
p, ul, ol, table, blockquote {{ margin: .6rem 0; }}
pre {{ white-space: pre-wrap; margin: .3rem 0; padding: .6rem .8rem; border: 1px solid var(--line);
  border-radius: 10px; background: var(--sunk); }}
pre, code {{ font: .875rem/1.45 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }}
p code, li code, td code {{ background: var(--sunk); padding: .1em .3em; border-radius: 6px; }}
.task pre, .user pre {{ font: inherit; background: var(--tint); border-color: var(--tint); }}
.sent img {{ max-width: 100%; max-height: 16rem; border-radius: 6px; }}
.failed > details > summary {{ color: var(--bad); }}
blockquote {{ margin-inline: 0; padding-inline-start: 1rem; border-inline-start: 3px solid var(--line);
  color: var(--dim); }}
p, li, h1, h3, h4, h5, h6, th, td, .task pre, .user pre, .answer > pre, .thinking pre, .notice pre {{
  unicode-bidi: plaintext; text-align: start; }}
pre, code {{ direction: ltr; unicode-bidi: isolate; text-align: left; }}
table, math[display="block"] {{ overflow-x: auto; }}
table {{ border-collapse: collapse; display: block; }}
math {{ overflow-wrap: normal; }}
th, td {{ border: 1px solid var(--line); padding: .3rem .6rem; overflow-wrap: normal; }}
th, td code {{ white-space: nowrap; }}
li.box {{ list-style: none; margin-inline-start: -1.2em; }}
pre ins {{ color: var(--add); text-decoration: none; }}
pre del {{ color: var(--bad); text-decoration: none; }}
summary {{ cursor: pointer; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p class="about">{about}</p>
"""


def to_markdown(records: Sequence[Record], title: str = "") -> str:
    """Return a session as Markdown: answers as prose, edits as diffs, results folded below their calls.

    The document loads no resources, and has no raw HTML except ``details``, ``summary`` and ``code``.

    Args:
        records: Records of the session, in the order they were written.
        title: Title of the document; the task if empty.
    """
    story = read_story(records)
    blocks = [f"# {_plain(_title(story, title))}", _plain(about(story, records))]
    for entry, result in _in_pairs(story.entries):
        name = heading(entry, result)
        bodies = [_body(part) for part in (entry, result) if part is not None]
        if entry.kind in ("end", "shortened"):
            blocks.append(f"*{_plain(name)}*")
        elif entry.kind in _FOLDED:
            tag = "<details open>" if bodies[0][0] == "diff" else "<details>"
            parts = ["\n".join(fenced(text, language)) for language, text in bodies if language]
            blocks.append("\n\n".join([f"{tag}<summary>{_escaped(name)}</summary>", *parts, "</details>"]))
        else:
            body = prose_to_markdown(bodies[0][1])
            quoted = "\n".join(f"> {line}".rstrip() for line in body.split("\n"))
            level = "##" if entry.kind == "task" else "###"
            blocks += [f"{level} {_plain(name)}", body if entry.kind == "answer" else quoted]
    return "\n\n".join(blocks) + "\n"


def to_html(
    records: Sequence[Record], title: str = "", seen: Callable[[Entry], Entry | None] = lambda entry: entry
) -> str:
    """Return a session as one HTML page without scripts or external resources; see `to_markdown`.

    Args:
        records: Records of the session, in the order they were written.
        title: Title of the document; the task if empty.
        seen: Function that returns what the reader may see of an entry, or None to leave the entry out.
    """
    story = read_story(records)
    entries = [shown for entry in story.entries if (shown := seen(entry)) is not None]
    parts = [_HEAD.format(title=_escaped(_title(story, title)), about=_escaped(about(story, records)))]
    parts += [_section(entry, result) for entry, result in _in_pairs(entries)]
    return "\n".join([*parts, "</body>", "</html>", ""])


def _title(story: Story, title: str) -> str:
    return one_line(title or story.title, _MAX_TITLE) or "Session"


def _in_pairs(entries: Sequence[Entry]) -> list[tuple[Entry, Entry | None]]:
    """Return the entries to show, each call paired with its result."""
    pairs: list[tuple[Entry, Entry | None]] = []
    calls: dict[str, int] = {}  # indexes of the calls that have no result yet, by call id
    for entry in entries:
        place = calls.pop(entry.call_id, None) if entry.kind == "result" else None
        if place is not None:
            pairs[place] = (pairs[place][0], entry)
            continue
        if entry.kind == "end" and entry.text == "completed":
            continue  # a normal end needs no entry
        if entry.kind == "call":
            calls[entry.call_id] = len(pairs)
        pairs.append((entry, None))
    return pairs


def _body(entry: Entry) -> tuple[str, str]:
    """Return an entry's language and text, without control characters; both "" if its heading is enough."""
    if entry.kind != "call":
        return "text", safe_text(entry.text)
    arguments = parsed_object(entry.text) or {}
    path, old, new = (arguments.get(name) for name in ("path", "old_text", "new_text"))
    if entry.tool == "write_file":
        old, new = "", arguments.get("content")
    is_edit = entry.tool in ("edit_file", "write_file") and set(arguments) <= _EDIT
    if is_edit and isinstance(path, str) and isinstance(old, str) and isinstance(new, str):
        return "diff", _diff(one_line(path), safe_text(old), safe_text(new))
    if entry.tool == "todo_write" and (plan := _plan(arguments.get("items"))):
        return "text", safe_text(plan)
    if list(arguments) == ["path"] and isinstance(path, str) and one_line(path, 80) == path:
        return "", ""
    values = list(arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return "text", safe_text(values[0])
    return "json", safe_text(entry.text)


def _plan(items: Any) -> str:
    """Return a plan as a list with one task per line; empty if the items are not a plan."""
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return ""
    marks = {"done": "\u2611", "in_progress": "\u25b8", "pending": "\u2610"}
    shown = [(marks.get(str(item.get("status")), marks["pending"]), item.get("task")) for item in items]
    return "\n".join(f"{mark} {task}" for mark, task in shown)


def _diff(path: str, old: str, new: str) -> str:
    # Ignore the final newline unless only one of the texts ends with it.
    if all(text.endswith("\n") for text in (old, new) if text):
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    before, after = old.split("\n") if old else [], new.split("\n") if new else []
    if len(before) + len(after) > _MAX_COMPARED:
        lines = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    else:  # drop the diff's line numbers, which count from the start of the fragment, not of the file
        found = list(difflib.unified_diff(before, after, lineterm=""))[2:]
        lines = ["..." if line.startswith("@@") else line for line in found][1:]
    return "\n".join([f"--- {path}", f"+++ {path}", *lines])


def heading(entry: Entry, result: Entry | None = None) -> str:
    """Return an entry's heading, with the outcome if it is a call: one line, escaped for terminals."""
    last = entry if result is None else result
    told = " ".join(failure_lines(entry.told, "en") if entry.told.get("said") else ())
    reason = f"error: {told}" if told else entry.text
    words = {
        "task": "Task",
        "user": "User",
        "notice": "Notice to the model",
        "thinking": "Thinking",
        "answer": "Answer",
        "call": _call(entry),
        "result": f"Result of {one_line(entry.tool, 80)}" if entry.tool else "Result",
        "shortened": "Earlier messages were shortened for the model.",
        "end": f"The run ended: {one_line(reason, 400).removesuffix('.')}.",
    }[entry.kind]
    ended = "denied" if last.verdict == "deny" else "failed" if last.failed else last.state
    ended = "not asked" if last.unasked else ended
    if last.exit_code:
        ended = f"exit code {last.exit_code}"
    if ended and last.seconds is not None and last.seconds >= 1:
        ended += f" after {last.seconds:.1f} s"
    ended = f" ({one_line(ended)})" if ended else ""
    ended += f" \u2014 {one_line(last.why, 400)}" if last.why else ""
    step = f"Step {entry.step}: " if entry.step and entry.kind not in ("end", "shortened") else ""
    return f"{step}{words}{ended}"


def _call(entry: Entry) -> str:
    """Describe a call by its title, or by its tool and the call's path or only string argument."""
    arguments = parsed_object(entry.text) or {}
    texts = [value for value in arguments.values() if isinstance(value, str)]
    subject = arguments.get("path", texts[0] if len(texts) == 1 else "")
    named = f"{one_line(entry.tool, 80)} {one_line(subject, 80) if isinstance(subject, str) else ''}"
    return one_line(entry.title).rstrip("\u2026") or named.rstrip()


def about(story: Story, records: Sequence[Record]) -> str:
    """Return the counts, times and model of a session: one line, escaped for terminals."""
    facts = [counted(story.steps, "step"), counted(story.messages, "message")]
    if records:
        facts.append(f"{_span(moment(records[0].time), moment(records[-1].time))} UTC")
    if story.model:
        facts.append(one_line(story.model, 80))
    return ", ".join(facts)


def moment(seconds: float) -> str:
    """Format a time in UTC, to the minute; ``?`` if it is out of range for a date.

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


def _plain(text: str) -> str:
    """Return one line with the special characters of Markdown and HTML escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&])", r"\\\1", one_line(text))


def _section(entry: Entry, result: Entry | None) -> str:
    name = _escaped(heading(entry, result))
    if entry.kind in ("end", "shortened"):
        return f'<p class="end">{name}</p>'
    bodies = [_body(part) for part in (entry, result) if part is not None]
    body = "\n".join(
        f"<pre>{_coloured(text) if language == 'diff' else html.escape(text)}</pre>"
        for language, text in bodies
        if language
    )
    if entry.kind == "answer":
        body = _BLOCK.sub(r'<\1 dir="auto"', prose_to_html(entry.text))
    if entry.kind in ("task", "user"):
        body = _message(entry)
    kind = f"{entry.kind} failed" if (result or entry).failed else entry.kind
    if entry.kind in _FOLDED:
        tag, last = "<details open>" if bodies[0][0] == "diff" else "<details>", result or entry
        section = f'<section class="{kind}">{tag}<summary>{name}</summary>\n{body}</details></section>'
        if last.verdict == "deny" and last.said:  # show what the person wrote with a denial as a message
            section += f'\n<section class="user"><h2>User</h2>\n<pre>{_escaped(last.said)}</pre></section>'
        return section
    return f'<section class="{kind}"><h2>{name}</h2>\n{body}</section>'


def _message(entry: Entry) -> str:
    """Return a person's message as HTML: pictures, files collapsed to their names, and the text."""
    text, files = without_files(safe_text(entry.text))
    sent = [
        f"<details><summary>{_escaped(name)} ({counted(len(content.splitlines()), 'line')})</summary>"
        f"<pre>{html.escape(content)}</pre></details>"
        for name, content in files
    ]
    for part in entry.media:
        kind = str(part.get("type"))
        inner = part.get(kind)
        url = inner.get("url") if isinstance(inner, Mapping) else None
        if isinstance(url, str) and _PICTURE.fullmatch(url):
            sent.append(f'<img src="{url}" alt="picture">')
        else:
            name = inner.get("filename") if isinstance(inner, Mapping) else None
            sent.append(f"<p>{_escaped(one_line(str(name or kind), 80))}</p>")
    shown = f'<div class="sent">{"".join(sent)}</div>' if sent else ""
    return f"{shown}<pre>{html.escape(text)}</pre>"


def _coloured(diff: str) -> str:
    lines = [html.escape(line) for line in diff.split("\n")]
    tags = [{"+": "ins", "-": "del"}.get(line[:1], "") for line in lines]
    return "\n".join(f"<{tag}>{line}</{tag}>" if tag else line for tag, line in zip(tags, lines, strict=True))


def _escaped(text: str) -> str:
    return html.escape(safe_text(text), quote=True)
