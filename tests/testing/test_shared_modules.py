"""The conformance kit's copies of modules of `pure_agent_loop.testing` are what the script writes."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from scripts.share_testing import TARGET, copies

KIT = Path(__file__).parents[2] / "conformance/src/llm_client_conformance"


def test_copies_equal_the_output_of_the_script():
    written = copies()
    kept = {path.name: path.read_text(encoding="utf-8") for path in TARGET.glob("*.py")}
    kept.pop("__init__.py")
    assert {name for name in {*written, *kept} if written.get(name) != kept.get(name)} == set()


def test_kit_imports_standard_library_and_itself_only():
    allowed = {"llm_client_conformance", "pytest", "typing_extensions"}
    for path in KIT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            roots = {name.partition(".")[0] for name in names}
            assert roots <= allowed | set(sys.stdlib_module_names), path
