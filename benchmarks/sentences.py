"""Print random sentences of the source, for a reader who has not seen them.

    python -m benchmarks.sentences [--seed 1] [--count 200] [--all] [PATH ...]

Read the sample and count the sentences at which you stop: an unclear referent, a metaphor instead of the
technical word, a missing noun. The aim is at most 4 in 200. Sentences come from docstrings of names without
an underscore, from messages (texts of three words or more) and from comments. `--all` prints every sentence
in order, those of private docstrings too.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "pure_agent_loop"
DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
END = re.compile(r"(?<=[.!?])(?<!e\.g\.)\s+(?=[A-Z`'\"])")
ENTRY = re.compile(r"\s*(?:[-*]|\d+\.|(?:[\w`*,/<>├└│─ ]|\.(?=\w)){1,40}:)\s")
COLUMNS = re.compile(r"(?<=\S) {2,}(?=\S)")
CODE = re.compile(r"\s*(?:noqa|type:|pragma|fmt:|ruff:|mypy:|--+|[=-]+$)")


@dataclass(frozen=True)
class Sentence:
    """A sentence and its place."""

    path: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(SOURCE)}:{self.line} [{self.kind}] {self.text}"


def prose(text: str) -> Iterator[str]:
    """Yield the sentences of a docstring without examples; an entry of a list or table is a paragraph."""
    paragraphs: list[list[str]] = [[]]
    base = in_example = None
    for line in text.expandtabs().splitlines():
        indent = len(line) - len(line.lstrip())
        if base is None and indent:
            base = indent
        if in_example is not None and line.strip() and indent <= in_example:
            in_example = None
        if in_example is None and re.match(r"\s*(?:Examples?:$|>>>|\w+ = )", line):
            in_example = indent
        if in_example is not None:
            continue
        row = COLUMNS.sub(": ", line.strip())
        if not row or ENTRY.match(row):
            paragraphs.append([])
        paragraphs[-1].append(row)
    for paragraph in paragraphs:
        yield from END.split(" ".join(paragraph).strip())


def docstrings(tree: ast.Module, *, private: bool) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module, each with its line."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, *DEFINITION)):
            continue
        hidden = isinstance(node, DEFINITION) and node.name.startswith("_")
        if (private or not hidden) and (text := ast.get_docstring(node, clean=False)):
            yield node.body[0].lineno, text


def as_text(part: ast.expr) -> str:
    """Return a part of an f-string, with placeholders as written."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    return f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else ""


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that are not docstrings, with placeholders as written."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in ast.walk(node))
            yield node.lineno, "".join(map(as_text, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module; successive lines are one comment."""
    begin, last, words = 0, -2, ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        alone = not token.line[: token.start[1]].strip()
        content = token.string.lstrip("#").strip()
        if alone and token.start[0] == last + 1:
            words += " " + content
        else:
            if words:
                yield begin, words
            begin, words = token.start[0], content
        last = token.start[0] if alone else -2
    if words:
        yield begin, words


def sentences_of(path: Path, *, private: bool = False) -> list[Sentence]:
    """Return all sentences of a module, in the order of their lines."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    sources = (
        ("docstring", docstrings(tree, private=private)),
        ("message", messages(tree)),
        ("comment", comments(text)),
    )
    result = [
        Sentence(path, line, kind, " ".join(sentence.split()))
        for kind, texts in sources
        for line, content in texts
        for sentence in (prose(content) if kind == "docstring" else END.split(content))
        if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= 3 and " " in sentence.strip()
        if kind != "comment" or not CODE.match(sentence)
    ]
    return sorted(result, key=lambda sentence: sentence.line)


def main() -> None:
    """Print a sample, or all sentences."""
    parser = argparse.ArgumentParser(description="Print sentences of the source, drawn at random.")
    parser.add_argument("paths", nargs="*", type=Path, default=[SOURCE], help="files or folders [all]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--all", action="store_true", help="all sentences, in order")
    options = parser.parse_args()
    paths = [path.resolve() for path in options.paths]
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    sentences = [sentence for file in files for sentence in sentences_of(file, private=options.all)]
    if not options.all:
        count = min(options.count, len(sentences))
        sentences = random.Random(options.seed).sample(sentences, count)
    print(*sentences, sep="\n")


if __name__ == "__main__":
    main()
