"""Run the cells of a notebook in one namespace, where a cell may await, and print what each prints.

python -m tests.docs.notebook FILE.ipynb     prints a list of JSON: the text of each code cell
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import sys
from pathlib import Path
from typing import Any


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that are run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs_of(cell: dict[str, Any]) -> str:
    """The text that a cell shows, as it stands in the file."""
    return "".join("".join(output["text"]) for output in cell["outputs"])


async def run_cells(notebook: dict[str, Any]) -> list[str]:
    """Run the cells in an event loop, as a kernel does."""
    namespace = vars(sys.modules["__main__"])  # where types of a notebook are found
    printed = []
    for number, cell in enumerate(code_cells(notebook), 1):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile("".join(cell["source"]), f"cell {number}", "exec", flags, dont_inherit=True)
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            waited = eval(code, namespace)
            if inspect.isawaitable(waited):
                await waited
        printed.append(stream.getvalue())
    return printed


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run_cells(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))))
