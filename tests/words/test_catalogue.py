"""Every message of the catalogue exists in both languages, once, and is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import pure_agent_loop
from pure_agent_loop.support.language import placeholders, table

SOURCE = Path(pure_agent_loop.__file__).parent
TABLES = SOURCE / "prompts"
SECTIONS = sorted(path.stem for path in (TABLES / "english").glob("*.py") if path.stem != "__init__")
MESSAGES = [(section, name) for section in SECTIONS for name in table(section, "en")]
IDS = {name if section == "model" else f"{section}.{name}" for section, name in MESSAGES}
# Placeholders of the Chinese text alone: the English one has the words of an error instead.
IN_CHINESE_ONLY = {"code", "kind", "line", "column", "command"}
LOOKUPS = {"model_text", "user_text", "notice", "message_in", "in_each_language", "TranslatedText"}
SUBAGENT_LOOKUPS = {"words", "self.words", "self._words"}  # see `subagents.words.words_for`


@lru_cache
def trees() -> list[ast.Module]:
    paths = (path for path in SOURCE.rglob("*.py") if path.parent.parent != TABLES)
    return [ast.parse(path.read_text(encoding="utf-8")) for path in paths]


def patterns(node: ast.AST) -> Iterator[str]:
    """The ids that an expression may give, also those chosen by a condition or built from a part."""
    inside = {id(part) for node in ast.walk(node) if isinstance(node, ast.JoinedStr) for part in node.values}
    for part in ast.walk(node):
        if isinstance(part, ast.JoinedStr):
            texts = (getattr(value, "value", "") for value in part.values)
            yield "".join(re.escape(text) if isinstance(text, str) else r".+" for text in texts)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in inside:
            yield re.escape(part.value)


def looked_up() -> set[str]:
    """Patterns of the ids in calls that look a message up."""
    names: set[str] = set()
    for node in (node for tree in trees() for node in ast.walk(tree)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in LOOKUPS:
            for argument in node.args:
                names.update(patterns(argument))
    return names


def faults_of(section: str, name: str) -> Iterator[str]:
    """What is wrong with a message."""
    english, chinese = (table(section, language).get(name, "") for language in ("en", "zh"))
    if not english or not chinese:
        yield "missing in a language"
    if not re.sub("[·✔✘°“”’…]", "", english).isascii():
        yield "the English text is not ASCII"
    if chinese.isascii() and re.search(r"[a-z]{3}", re.sub(r"{.*?}", "", english)):
        yield "the Chinese text is not translated"
    if not placeholders(chinese) - placeholders(english) <= (
        IN_CHINESE_ONLY if section == "model" else set()
    ):
        yield "placeholders in Chinese only"
    if section != "model" and placeholders(english) != placeholders(chinese):
        yield "other placeholders in Chinese"


def test_each_message_exists_in_both_languages():
    wrong = [f"{section}.{name}: {fault}" for section, name in MESSAGES for fault in faults_of(section, name)]
    assert wrong == []


@pytest.mark.parametrize("section", SECTIONS)
def test_both_languages_have_the_same_messages_in_the_same_order(section):
    assert list(table(section, "en")) == list(table(section, "zh"))


def test_no_message_is_written_twice():
    for path in TABLES.glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            keys = [key.value for key in getattr(node, "keys", ()) if isinstance(key, ast.Constant)]
            assert len(keys) == len(set(keys)), path


def test_every_message_that_is_looked_up_exists():
    plain = {name.replace("\\", "") for name in looked_up() if ".+" not in name}
    dotted = {name for name in plain if re.fullmatch(rf"({'|'.join(SECTIONS)})\..+", name)}
    assert dotted <= IDS
    for pattern in (name for name in looked_up() if ".+" in name):
        assert any(re.fullmatch(pattern, name) for name in IDS), pattern


def test_every_message_is_used():
    used = re.compile("|".join(sorted(looked_up())))
    texts = {node.value for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    fields = {"subagents", "assistant", "screen"}  # fields of a dataclass, or looked up by an event
    unused = [
        name for name in sorted(IDS) if not used.fullmatch(name) and name.partition(".")[0] not in fields
    ]
    assert [name for name in unused if "." in name or name not in texts] == []
    assert [
        name
        for name in table("screen", "en")
        if name not in texts and not name.startswith(("todo_", "do_", "did_", "one_"))
    ] == []


def test_every_lookup_fills_in_the_placeholders():
    """A missing value would be a KeyError in place of an error message."""
    wrong = []
    for node in (node for tree in trees() for node in ast.walk(tree)):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in LOOKUPS or not node.args:
            continue
        name = node.args[-1]
        names = {keyword.arg for keyword in node.keywords}
        if isinstance(name, ast.Constant) and name.value in IDS and None not in names:
            section, _, key = name.value.rpartition(".")
            wanted = placeholders(table(section or "model", "zh")[key])
            if not wanted <= names or not placeholders(table(section or "model", "en")[key]) <= names:
                wrong.append(ast.unparse(node))
    assert wrong == []


def test_the_texts_of_subagents_are_looked_up_with_their_placeholders():
    messages = table("subagents", "en")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCE / "subagents").glob("*.py")]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in SUBAGENT_LOOKUPS:
            name, values = node.args[0], {keyword.arg for keyword in node.keywords}
            if isinstance(name, ast.Constant) and None not in values:
                assert placeholders(messages[name.value]) <= values, ast.unparse(node)
