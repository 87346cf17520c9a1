"""Messages to people exist in both languages; no English text is matched to translate it."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pure_agent_loop
from pure_agent_loop import ConfigError, MissingExtraError
from pure_agent_loop.cli.output import error_text
from pure_agent_loop.cli.translated_help import help_text
from pure_agent_loop.errors import AlreadyAnsweredError, AuditError, SessionLockedError, SessionWriteError
from pure_agent_loop.runs.choose import plan_model
from pure_agent_loop.support.language import TranslatedText, in_user_language, message_in, notice, table
from pure_agent_loop.toolbox import Shell, check_workspace

SOURCE = Path(pure_agent_loop.__file__).parent
CHINESE = {"LANG": "zh_CN.UTF-8"}


@pytest.fixture
def chinese(monkeypatch):
    monkeypatch.setenv("PAL_LANG", "zh")


LOOKUPS = {"model_text", "user_text", "notice", "message_in", "TranslatedText"}
SHOWING = {
    "info",
    "fail",
    "progress",
    "print_notice",
    "confirm",
    "notify",
    "_notify",
    "line",
    "result",
    "note",
}
PROSE = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")
# Errors for the authors of programs that speak a protocol of ours, or that use the library: by file, how
# many texts are English only. Lower a number; never raise one. `cli` has none, and gets none.
FOR_PROGRAMS = {
    "acp/connection.py": 4,
    "acp/session.py": 2,
    "acp/prompts.py": 4,
    "acp/wire.py": 4,
    "server/api/about.py": 1,
    "server/api/operation.py": 1,
    "server/api/runs.py": 2,
    "server/api/sockets.py": 4,
    "server/api/streams.py": 1,
    "server/app.py": 2,
    "server/entries.py": 1,
    "server/foreign/history.py": 5,
    "server/foreign/run_request.py": 2,
    "server/gate.py": 3,
    "server/hub.py": 1,
    "server/people.py": 1,
    "server/settings.py": 1,
    "mcp/asking.py": 1,
    "mcp/forms.py": 1,
    "mcp/server.py": 2,
    "mcp/serving/changes.py": 2,
    "mcp/serving/published.py": 5,
    "mcp/serving/server.py": 5,
}
# Sentences of `cli` that no person reads in their own language, with the reason.
NOT_SHOWN = {
    "the person stopped it": "told to the model",
    "What the prompt is about.": "described to a model by pal mcp",
    "You are a careful engineer.": "an example of a setting",
    "Answer in one paragraph.": "an example of a setting",
    "<file name=": "told to the model",
    "pal mcp": "a command",
    "bold cyan": "a style",
    "bold blue": "a style",
    "bold red": "a style",
    "reverse green": "a style",
    "reverse red": "a style",
    "invalid choice: '([^']*)' \\(choose from (.*)\\)": "a pattern",
}


def prose(node: ast.AST) -> Iterator[str]:
    """The English sentences below a node, without those of the catalogue."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in LOOKUPS:
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and PROSE.search(node.value):
        yield node.value
    for inner in ast.iter_child_nodes(node):
        yield from prose(inner)


def shown(tree: ast.Module) -> Iterator[ast.expr]:
    """What is raised, or handed to what shows it."""
    for node in ast.walk(tree):
        function = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield node.exc
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
            if ast.unparse(node.value.func).endswith("Error"):
                yield node.value
        elif function.rpartition(".")[2] in SHOWING and not function.startswith("LOG."):
            yield from node.args


def english_only(tree: ast.Module) -> list[str]:
    return [text for expression in shown(tree) for text in prose(expression)]


def test_text_for_people_is_in_the_catalogue():
    """A sentence in an error, or as an argument of what shows it, is English whatever the user speaks."""
    counts = {
        path.relative_to(SOURCE).as_posix(): len(english_only(ast.parse(path.read_text(encoding="utf-8"))))
        for room in ("cli", "acp", "server", "mcp")
        for path in sorted((SOURCE / room).rglob("*.py"))
    }
    assert {place: count for place, count in counts.items() if count} == FOR_PROGRAMS


@pytest.mark.parametrize(
    "statement",
    [
        'raise ConfigError(f"{path} is broken beyond repair.")',
        'raise ConfigError("one " f"more {thing} is missing")',
        'output.info(f"there are {count} more of them")',
        'self._output.fail("it did not work" if once else again)',
        'raise invalid(f"The session {name} has gone away.")',
    ],
)
def test_a_new_sentence_outside_the_catalogue_is_found(statement):
    assert english_only(ast.parse(statement)) != []


def test_a_message_of_the_catalogue_is_not_taken_for_english():
    assert english_only(ast.parse('raise ConfigError(notice("cli.x", why="a b c d"))')) == []


def docstrings(tree: ast.Module) -> set[str]:
    return {
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def as_shown(text: str) -> str:
    """The pattern of a help text with its default filled in."""
    return re.escape(text).replace(re.escape("{default}"), "[a-z0-9]+")


@pytest.mark.usefixtures("chinese")
def test_every_sentence_of_the_command_line_has_a_translation():
    """Also what is put together before it is shown, and the parts of help texts."""
    texts = "\n".join(table("help", "zh"))
    left = set()
    for path in sorted((SOURCE / "cli").rglob("*.py")):
        if path.parent.name != "shell_integration":  # scripts for shells
            tree = ast.parse(path.read_text(encoding="utf-8"))
            parts = {
                part for text in {*prose(tree)} - docstrings(tree) for part in text.strip("\n").split("\n\n")
            }
            left |= {
                part for part in parts if not re.search(as_shown(part), texts) and help_text(part) == part
            }
    assert left == NOT_SHOWN.keys()


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
        ({"sandbox": "landlock"}, "shell：Landlock，无 TCP，受保护的名称事后恢复（按设置）"),
        ({"network": True}, "shell：bubblewrap，可联网"),
    ],
)
def test_the_sandbox_is_described_in_both_languages(tmp_path, options, chinese):
    assert in_user_language(Shell(tmp_path, **options).describe(), CHINESE) == chinese


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    ("folder", "words"), [("/root", "是主目录"), ("/tmp", "是共享的临时文件夹"), ("/", "是系统文件夹")]
)
def test_the_reason_against_a_workspace_is_in_the_language_of_the_user(folder, words):
    with pytest.raises(ConfigError) as caught:
        check_workspace(Path(folder))
    assert words in error_text(caught.value)
    assert str(caught.value).isascii()


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


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    ("error", "shown_text"),
    [
        (
            MissingExtraError(notice("library.feature_server"), "server"),
            "缺少附加依赖 [server]（用于：服务器）",
        ),
        (SessionLockedError("s", notice("library.another_process")), "会话 's' 正由另一个进程写入。"),
        (SessionWriteError("/x", "full"), "无法写入 /x：full"),
        (AuditError("/x", "why", "Fix."), "审计日志 /x：why。Fix."),
        (AlreadyAnsweredError("c", "Ada", "allow"), "调用 'c' 没有待定的内容：Ada 已经回答 'allow'。"),
        (ConfigError(notice("cli.cwd", error=ConfigError(notice("cli.yes_no")))), "cwd：[y] 是，[n] 否："),
    ],
)
def test_an_error_is_shown_in_the_language_of_the_user(error, shown_text):
    assert error_text(error).startswith(shown_text)
    assert str(error).isascii()
