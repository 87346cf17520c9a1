"""Measure how hard the pages of the documentation are to read, and list their intended readers.

    python -m benchmarks.reading [--longest 20] [--since COMMIT] [PAGE ...]

Each row has a page's words (all of them, as `wc -w` counts), the mean words of a sentence, the share of
sentences of more than 30 words, the Flesch-Kincaid grade, and the line that tells for whom the page is.
Sentences are those of paragraphs and lists: code, tables and headings are left out, and a name in backticks
counts as one short word. `--since` adds the words of the same page at a commit. `--longest` prints the
longest sentences instead.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
END = re.compile(r"(?<=[.!?])[)*\"]*\s+(?=[A-Z`\[(*\"'])")
LONG = 30


@dataclass(frozen=True)
class Page:
    """The text of a page."""

    name: str
    text: str

    @property
    def words(self) -> int:
        """All words, those of code and tables too."""
        return len(self.text.split())

    @property
    def audience(self) -> str:
        """The line below the title."""
        return self.text.split("\n", 3)[2].strip("*")

    def sentences(self) -> Iterator[str]:
        """The sentences of paragraphs and lists."""
        text = re.sub(r"(?s)^---\n.*?\n---\n", "", self.text)
        for paragraph in re.split(r"\n\s*\n|\n\s*(?=(?:[-*]|\d+\.)\s)", without_blocks(text)):
            joined = " ".join(re.sub(r"^\s*(?:[-*]|\d+\.)\s", "", paragraph).split())
            for sentence in END.split(joined):
                if len(words_of(sentence)) > 2:
                    yield sentence


def without_blocks(text: str) -> str:
    """A page without code blocks, tables, headings and pictures."""
    text = re.sub(r"^\s*(```|~~~).*?^\s*\1\s*$", "\n", text, flags=re.M | re.S)
    text = re.sub(r"^\s*[|#!<].*$|^:::.*(?:\n    .*)*", "", text, flags=re.M)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def words_of(sentence: str) -> list[str]:
    """The words of a sentence, a name in backticks as one."""
    return re.findall(r"[A-Za-z0-9][\w'’.,%-]*", re.sub(r"`[^`]*`", "name", sentence))


def syllables(word: str) -> int:
    """The syllables of a word, by its groups of vowels."""
    word = word.lower()
    groups = len(re.findall(r"[aeiouy]+", word))
    silent = re.search(r"(?<![aeiouy])e[sd]?$", word) and not re.search(r"(le|[td]ed|[sxz]es)$", word)
    return max(1, groups - bool(silent))


def measures(page: Page) -> tuple[float, float, float]:
    """The mean words of a sentence, the share of long sentences, and the grade."""
    counted = [words_of(sentence) for sentence in page.sentences()] or [["none"]]
    words = [word for sentence in counted for word in sentence]
    mean = len(words) / len(counted)
    long = sum(len(sentence) > LONG for sentence in counted) / len(counted)
    return mean, long, 0.39 * mean + 11.8 * sum(map(syllables, words)) / len(words) - 15.59


def words_at(commit: str, name: str) -> int:
    """Return the number of words of a page at a commit; 0 if the page did not exist."""
    command = ["git", "show", f"{commit}:docs/{name}"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return len(shown.stdout.split())


def main() -> None:
    """Print a row for each page, or the longest sentences."""
    parser = argparse.ArgumentParser(description="Print how hard the documentation is to read.")
    parser.add_argument("pages", nargs="*", help="pages below docs [all English ones]")
    parser.add_argument("--longest", type=int, default=0, metavar="N", help="print the N longest sentences")
    parser.add_argument("--since", metavar="COMMIT", help="show the words at this commit too")
    options = parser.parse_args()
    names = options.pages or [
        path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "zh" not in path.parts
    ]
    pages = [Page(name, (DOCS / name).read_text(encoding="utf-8")) for name in names]
    if options.longest:
        found = [(len(words_of(each)), page.name, each) for page in pages for each in page.sentences()]
        for length, name, sentence in sorted(found, reverse=True)[: options.longest]:
            print(f"{length:4} {name}: {sentence}")
        return
    print(f"{'page':34}{'before' if options.since else '':>7} words   mean  long  grade  for whom")
    for page in sorted(pages, key=lambda page: page.words, reverse=True):
        mean, long, grade = measures(page)
        before = f"{words_at(options.since, page.name):7}" if options.since else " " * 7
        print(f"{page.name:34}{before}{page.words:6}{mean:7.1f}{long:6.0%}{grade:7.1f}  {page.audience}")
    print(f"{len(pages)} pages, {sum(page.words for page in pages)} words")


if __name__ == "__main__":
    main()
