"""Python blocks of README and docs pass strict mypy; on most pages a function may lack annotations."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("README*.md"), *ROOT.glob("conformance/*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^( *)```(?:python|py)\b[^\n]*\n(.*?)^\1```", re.M | re.S)
WHOLLY_TYPED = {"docs/extending.md"}
LOOSE = [f"--allow-{what}" for what in ("untyped-defs", "incomplete-defs", "untyped-calls")]
STRICT = "# mypy: disallow-untyped-defs, disallow-incomplete-defs, disallow-untyped-calls\n"
OPTIONS = [*("--strict", *LOOSE), *("--config-file=", "--ignore-missing-imports", "--follow-imports=silent")]
WRONG = "from pure_agent_loop import Agent\n\nAgent(temperature='warm')\nAgent().run('q').content + 1\n"


def errors_in(pages: dict[str, str], folder: Path) -> list[str]:
    """Run mypy once; each error with its page and line. The lines of a file are those of its page."""
    files: dict[str, str] = {}
    for page, text in pages.items():
        for block in BLOCK.finditer(text):
            name = re.sub(r"\W", "_", f"{page}_{block.start()}") + ".py"
            files[name] = page
            before = "\n" * (text.count("\n", 0, block.start(2)) - (page in WHOLLY_TYPED))
            strict = STRICT if page in WHOLLY_TYPED else ""
            (folder / name).write_text(strict + before + textwrap.dedent(block[2]), encoding="utf-8")
    cache = ROOT / ".mypy_cache" / "docs"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *OPTIONS, "--no-error-summary", f"--cache-dir={cache}", *files],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^(\w+\.py)(:\d+: error: .*)$", done.stdout, re.M)
    assert len(found) == done.stdout.count("error: "), done.stdout  # none outside the blocks
    assert done.returncode == bool(found), done.stdout + done.stderr
    return [files[name] + error for name, error in found]


def test_blocks_pass_a_type_checker(tmp_path):
    pages = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
    wrong = {"wrong.md": f"# Wrong\n\n```python\n{WRONG}```\n"}
    found = errors_in({**pages, **wrong}, tmp_path)
    assert [error for error in found if not error.startswith("wrong.md")] == []
    assert [error.split(": ")[0] for error in found] == ["wrong.md:6", "wrong.md:7"]
    assert sum(len(BLOCK.findall(text)) for text in pages.values()) > 150
