"""Count lines of code of examples, here and in their originals, without blank lines, comments and docstrings.

python -m benchmarks.example_lines FILE...

A file is Python, a notebook (its code cells) or Markdown (its Python blocks). Lines of a shell
or of a notebook's magic are left out.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import textwrap
import tokenize
from pathlib import Path

_BLOCK = re.compile(r"^[ ]*```(?:python|py)\b[^\n]*\n(.*?)^[ ]*```", re.M | re.S)
_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_of(path: Path) -> str:
    """Return the Python code in a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
    elif path.suffix == ".md":
        text = "\n".join(map(textwrap.dedent, _BLOCK.findall(text)))
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("%", "!")))


def lines_of(code: str) -> int:
    """Return the number of lines with code."""
    documents = set[int]()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                documents.update(range(first, last + 1))
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documents)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{lines_of(code_of(Path(name))):5} {name}")
