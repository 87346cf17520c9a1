"""What is different between two contents, in time and length that stay small."""

from __future__ import annotations

import difflib

MAX_DIFF_CHARS = 20_000
MAX_COMPARED_LINES = 1_000  # difflib needs the square of it
MAX_COMPARED_BYTES = 2_000_000
CONTEXT = 3


def text_of(data: bytes | None) -> str | None:
    """The text of a content, empty for none; None if it is not text."""
    if data is None:
        return ""
    if b"\0" in data[:8_000]:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def unified(path: str, before: str, after: str, most: int | None = MAX_DIFF_CHARS) -> tuple[str, int, int]:
    """A unified diff, cut if it is long, and how many lines were added and removed.

    The lines that are the same at both ends are not compared. If what is left is very long, it counts as
    replaced as a whole.

    Args:
        path: For the head of the diff.
        most: Greatest length in characters; None for all of it.
    """
    old, new = _lines(before), _lines(after)
    head = _same(old, new)
    tail = _same(old[head:][::-1], new[head:][::-1])
    start = max(0, head - CONTEXT)
    keep = max(0, tail - CONTEXT)
    a, b = old[start : len(old) - keep], new[start : len(new) - keep]
    hunks = _hunks(a, b, start)
    added = sum(line.startswith("+") for line in hunks)
    removed = sum(line.startswith("-") for line in hunks)
    if not hunks:
        return "", 0, 0
    lines = [f"--- a/{path}\n", f"+++ b/{path}\n", *hunks]
    return _cut("".join(_ended(line) for line in lines), most), added, removed


def _lines(text: str) -> list[str]:
    """With their ends. Only a newline ends a line, or a form feed would make two of one."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _hunks(a: list[str], b: list[str], offset: int) -> list[str]:
    if max(len(a), len(b)) > MAX_COMPARED_LINES or sum(map(len, a)) + sum(map(len, b)) > MAX_COMPARED_BYTES:
        groups = [[("replace", 0, len(a), 0, len(b))]]
    else:
        groups = list(difflib.SequenceMatcher(None, a, b).get_grouped_opcodes(CONTEXT))
    lines: list[str] = []
    for group in groups:
        first, last = group[0], group[-1]
        lines.append(f"@@ -{_range(first[1], last[2], offset)} +{_range(first[3], last[4], offset)} @@\n")
        for tag, a0, a1, b0, b1 in group:
            if tag == "equal":
                lines += [" " + line for line in a[a0:a1]]
                continue
            lines += ["-" + line for line in a[a0:a1]]
            lines += ["+" + line for line in b[b0:b1]]
    return lines


def _range(start: int, stop: int, offset: int) -> str:
    length = stop - start
    first = start + offset + (1 if length else 0)
    return str(first) if length == 1 else f"{first},{length}"


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _same(a: list[str], b: list[str]) -> int:
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count


def _cut(text: str, most: int | None) -> str:
    if most is None or len(text) <= most:
        return text
    head = text[:most].rpartition("\n")[0]
    missing = text.count("\n") - head.count("\n") - 1
    return f"{head}\n[... {missing} lines of the diff left out ...]\n"
