"""Python-Markdown extension of the documentation site, named in `mkdocs.yml`."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor
from scripts.reference import written


class Reference(Preprocessor):
    """Puts the reference in place of its directives."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines of a page with the reference in them."""
        return written(lines)


class Heads(Treeprocessor):
    """Removes empty heads of tables: a screen reader would announce them."""

    def run(self, root: Element) -> None:
        """Remove a head without a word; make an empty cell of another one a plain cell."""
        for table in root.iter("table"):
            if (head := table.find("thead")) is None:
                continue
            cells = [cell for cell in head.iter("th") if not "".join(cell.itertext()).strip()]
            if len(cells) == len([*head.iter("th")]):
                table.remove(head)
            for cell in cells:
                cell.tag = "td"


class SiteExtension(Extension):
    """The parts of the extension."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the extension's interface
        """Register them: the reference before code blocks are read, heads after everything."""
        md.preprocessors.register(Reference(md), "reference", 100)
        md.treeprocessors.register(Heads(md), "heads", 0)


def makeExtension(**options: Any) -> SiteExtension:  # noqa: N802 - the extension's interface
    """Return the extension."""
    return SiteExtension(**options)
