"""What the command line says to somebody who starts it for the first time, in English and Chinese."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from pure_agent_loop.support.language import LANGUAGE_VARIABLE, LANGUAGES, Pairs

_SENTENCES: Pairs = {
    "uses": ("It will use {model} at {place}: {why}.", "将使用 {place} 的 {model}：{why}。"),
    "embedded": (
        "It will use {model}, embedded here: {why}. It is a tiny demonstration model.",
        "将使用内置于本机的 {model}：{why}。这是很小的演示模型。",
    ),
    "using": ("using {model} at {place} ({why})", "使用 {place} 的 {model}（{why}）"),
    "using_embedded": ("using {model}, embedded here ({why})", "使用内置于本机的 {model}（{why}）"),
    "unencrypted": (
        "warning: the key and everything else go over the network unencrypted (http)",
        "警告：密钥和其他所有内容都以未加密方式（http）通过网络传输",
    ),
    "tiny": (
        "it is a tiny demonstration model and often wrong; for a real one: pal model pull qwen2.5-0.5b",
        "这是很小的演示模型，经常出错；要用真正的模型：pal model pull qwen2.5-0.5b",
    ),
    "nothing": ("There is no model to use: {why}", "没有可用的模型：{why}"),
    "may": (
        "It may read {folder} and asks before it changes anything; {shell}.",
        "它可以读取 {folder}，改动任何内容之前都会先询问；{shell}。",
    ),
    "asks": ("the model wants to call {tool}{reason}", "模型要调用 {tool}{reason}"),
    "wants": ("{tool} wants to know:", "{tool} 想知道："),
    "next": (
        'Next: pal "Which files are here?"  Settings: pal init  All else: pal --help',
        '下一步：pal "这里有哪些文件？"  设置：pal init  其余：pal --help',
    ),
    "next_nothing": (
        "Next: export OPENAI_API_KEY=...  or: ollama serve  or: pip install '.[local]'  Then: pal",
        "下一步：export OPENAI_API_KEY=...  或：ollama serve  或：pip install '.[local]'  然后：pal",
    ),
}

# What parts of the package that know no language of a person say, for one who reads Chinese. What is not here
# stays as it is.
_TOLD = (
    (r"asked for by (.+)", r"由 \1 指定"),
    (r"(\w+) is set", r"已设置 \1"),
    (
        r"no key is set; found here, on the usual port of (.+?): (.+)",
        r"未设置密钥；在本机 \1 的常用端口上找到：\2",
    ),
    (r"no key is set and no model server is running here(.*)", r"未设置密钥，本机也没有运行模型服务\1"),
    (r"shell: (.+), no network", r"shell：\1，无网络"),
    (r"shell: (.+), network allowed", r"shell：\1，可联网"),
    (r"no shell", "无 shell"),
    (r"Fetching (.+) \((\d+) MB\) from the package index \.\.\.", r"正在从软件包索引下载 \1（\2 MB）……"),
    (r"Model file ready: (.+)", r"模型文件已就绪：\1"),
    (r"Starting the local model (.+) \.\.\.", r"正在启动本地模型 \1 ……"),
    (r"Local model (.+): server ready \(process (\d+)\)\.", r"本地模型 \1：服务已就绪（进程 \2）。"),
)


def told(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """What another part of the package says, in the language of the person where we have it.

    Args:
        text: It, in English.
        environ: The environment.
    """
    if language_of(environ) == LANGUAGES[0]:
        return text
    found = ((re.fullmatch(pattern, text), words) for pattern, words in _TOLD)
    return next((match.expand(words) for match, words in found if match), text)


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
