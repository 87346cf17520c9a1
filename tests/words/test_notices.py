"""Messages to people exist in both languages; no English text is matched to translate it."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import pure_agent_loop
from pure_agent_loop import ConfigError
from pure_agent_loop.cli.output import error_text
from pure_agent_loop.runs.choose import plan_model
from pure_agent_loop.support.language import TranslatedText, in_user_language, message_in, notice
from pure_agent_loop.toolbox import Shell

SOURCE = Path(pure_agent_loop.__file__).parent
CHINESE = {"LANG": "zh_CN.UTF-8"}


@pytest.fixture
def chinese(monkeypatch):
    monkeypatch.setenv("PAL_LANG", "zh")


def trees(room: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((SOURCE / room).rglob("*.py")):
        yield path.relative_to(SOURCE / room).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def calls(tree: ast.AST, names: Collection[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names and node.args:
            yield node


# Texts of the command line that are not in the catalogue yet. Lower a number; never raise one.
STILL_ENGLISH = {
    "arguments.py": 1,
    "chat/output.py": 2,
    "chat/questions.py": 3,
    "commands/agents.py": 5,
    "commands/audit.py": 4,
    "commands/chat.py": 1,
    "commands/init.py": 4,
    "commands/doctor.py": 2,
    "commands/durable.py": 4,
    "commands/worker.py": 5,
    "commands/evaluate.py": 6,
    "commands/models.py": 3,
    "commands/replay.py": 3,
    "commands/run.py": 2,
    "commands/schedule.py": 1,
    "commands/serve.py": 3,
    "commands/sessions.py": 12,
    "commands/undo.py": 4,
    "load.py": 9,
    "settings/files.py": 8,
    "settings/layers.py": 4,
    "settings/servers.py": 1,
    "task.py": 2,
    "toolset.py": 1,
    "which_session.py": 4,
}
SHOWING = {"info", "fail", "progress", "print_notice", "confirm", "notify", "line", "ConfigError"}
PROSE = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")


def test_text_for_people_stands_in_the_catalogue():
    """A sentence as an argument of what shows it is English whatever the language of the user is."""
    english: Counter[str] = Counter()
    for place, tree in trees("cli"):
        for call in calls(tree, SHOWING):
            texts = [node.value for node in ast.walk(call.args[0]) if isinstance(node, ast.Constant)]
            english[place] += any(isinstance(text, str) and PROSE.search(text) for text in texts)
    assert {place: count for place, count in english.items() if count} == STILL_ENGLISH


@pytest.mark.parametrize(
    ("environ", "model", "english", "chinese"),
    [
        ({"OPENAI_API_KEY": "k"}, None, "OPENAI_API_KEY is set", "已设置 OPENAI_API_KEY"),
        ({"PAL_MODEL": "local"}, None, "selected by PAL_MODEL", "由 PAL_MODEL 指定"),
        ({}, "local", "selected by --model", "由 --model 指定"),
    ],
)
def test_the_reason_for_a_model_is_a_message(environ, model, english, chinese):
    plan = plan_model(model, None, environ)
    assert plan.why == english
    assert in_user_language(plan.why, CHINESE) == chinese
    assert chinese in message_in("zh", "cli.embedded", model="m", why=plan.why)


def test_a_value_that_is_a_message_is_translated_too():
    reason = notice("library.refused", reason="x", also=notice("library.refused", reason="y", also=""))
    assert (
        notice("library.no_server", also=reason)
        .translated("zh")
        .endswith("；x（--base-url）；y（--base-url）")
    )


@pytest.mark.parametrize(
    ("options", "chinese"),
    [
        ({"sandbox": "none"}, "shell：无沙箱（按设置），每条命令都需批准"),
        ({"sandbox": "none", "unsandboxed": True}, "shell：无沙箱（按设置），命令按策略运行"),
        ({"sandbox": "landlock"}, "shell：Landlock，无 TCP，受保护的名称不受强制保护（按设置）"),
        ({"network": True}, "shell：bubblewrap，可联网"),
    ],
)
def test_the_sandbox_is_described_in_both_languages(tmp_path, options, chinese):
    assert in_user_language(Shell(tmp_path, **options).describe(), CHINESE) == chinese


@pytest.mark.usefixtures("chinese")
def test_an_error_of_the_library_is_shown_in_the_language_of_the_user():
    with pytest.raises(ConfigError, match="No API key for") as caught:
        plan_model(None, "https://models.example/v1", {})
    assert error_text(caught.value).startswith("没有用于 https://models.example/v1 的 API 密钥")
    assert error_text(ConfigError("plain")) == "plain"


def test_a_stored_message_is_plain_english():
    written = notice("library.is_set", variable="X")
    assert isinstance(written, TranslatedText)
    for other in (pickle.loads(pickle.dumps(written)), copy.deepcopy(written)):
        assert (other, type(other)) == ("X is set", str)
