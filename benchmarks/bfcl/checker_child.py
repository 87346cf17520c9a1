"""Run the leaderboard's own checker; started by `checker` as a program, never imported.

It reads one JSON object per line and writes one result each. It runs isolated (``python -I -S``), so that
nothing but the standard library and the leaderboard's package can be imported.

The checker's module imports one thing from the rest of its package: a table of the leaderboard's models, to
learn whether a model needs dots in function names replaced. That table's module imports the clients of
every vendor, so it is replaced by a table with one entry. All checks remain the leaderboard's code.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import types
from typing import Any

MODEL = "openai-style"  # no underscore: the checker would look it up with a slash instead
TABLE_MODULE = "bfcl_eval.constants.model_config"


def _load(folder: str) -> tuple[Any, Any]:
    sys.path.insert(0, folder)
    table: Any = types.ModuleType(TABLE_MODULE)
    table.MODEL_CONFIG_MAPPING = {MODEL: types.SimpleNamespace(underscore_to_dot=True)}
    sys.modules[TABLE_MODULE] = table
    checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
    enums = importlib.import_module("bfcl_eval.constants.enums")
    return checker.ast_checker, enums.Language


def _check(ast_checker: Any, language: Any, task: dict[str, Any]) -> dict[str, Any]:
    try:
        verdict = ast_checker(
            task["functions"], task["calls"], task["answers"], language(task["language"]), task["set"], MODEL
        )
    except Exception as error:  # noqa: BLE001 - the checker may fail on unusual values of a model
        kind = type(error).__name__
        return {"valid": False, "error": [f"{kind}: {error}"], "error_type": f"checker_crashed:{kind}"}
    return {
        "valid": verdict["valid"] is True,
        "error": verdict.get("error", []),
        "error_type": verdict.get("error_type", ""),
    }


def main() -> None:
    """Answer tasks until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes standard input
    out, sys.stdout = sys.stdout, sys.stderr  # output that the package prints is not a result
    ast_checker, language = _load(sys.argv[1])
    for line in sys.stdin:
        verdict = _check(ast_checker, language, json.loads(line))
        out.write(json.dumps(verdict, default=repr) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
