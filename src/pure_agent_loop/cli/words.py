"""What the command line says to somebody who starts it for the first time, in English and Chinese."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pure_agent_loop.support.language import LANGUAGE_VARIABLE, LANGUAGES, Pairs

_SENTENCES: Pairs = {
    "uses": ("It will use {model} at {place}: {why}.", "将使用 {place} 的 {model}：{why}。"),
    "embedded": (
        "It will use {model}, embedded here: {why}. It is a tiny demonstration model.",
        "将使用内置于本机的 {model}：{why}。这是很小的演示模型。",
    ),
    "nothing": ("There is no model to use: {why}", "没有可用的模型：{why}"),
    "may": (
        "It may read {folder} and asks before it changes anything; {shell}.",
        "它可以读取 {folder}，改动任何内容之前都会先询问；{shell}。",
    ),
    "asks": ("the model wants to call {tool}{reason}", "模型要调用 {tool}{reason}"),
    "next": (
        'Next: pal "Which files are here?"  Settings: pal init  All else: pal --help',
        '下一步：pal "这里有哪些文件？"  设置：pal init  其余：pal --help',
    ),
    "next_nothing": (
        "Next: export OPENAI_API_KEY=...  or: ollama serve  or: pip install '.[local]'  Then: pal",
        "下一步：export OPENAI_API_KEY=...  或：ollama serve  或：pip install '.[local]'  然后：pal",
    ),
}


def language_of(environ: Mapping[str, str] = os.environ) -> str:
    """The language that is set, else that of the system."""
    wanted = (environ.get(each, "") for each in (LANGUAGE_VARIABLE, "LC_ALL", "LC_MESSAGES", "LANG"))
    language = next((each for each in wanted if each), "")[:2].lower()
    return language if language in LANGUAGES else LANGUAGES[0]


def say(name: str, environ: Mapping[str, str] = os.environ, /, **values: object) -> str:
    """A sentence for a person; see `language_of`.

    Args:
        name: Of the sentence.
        environ: The environment.
        values: For the names in braces.
    """
    return _SENTENCES[name][LANGUAGES.index(language_of(environ))].format(**values)
