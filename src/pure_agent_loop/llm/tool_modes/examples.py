"""Worked examples of fictitious tools, for models that need them.

The examples precede each request of `choose` and `fill`. Those of `fill` are also a test: the model is given
each one without its solution, and a model that solves all of them is given more freedom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import JsonObject
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.language import in_language

_NO_TOOL = {
    "en": (("answer",),),
    "zh": (("answer",),),
}
_CHOSEN = {
    "en": (
        ("Get us a table for 4 at Blue Garden tonight.", "book_table", "Reserve a table at a restaurant."),
        ("Hello, how are you?", "answer", "No function is needed."),
        ("How much is a share of Siemens right now?", "get_stock_price", "Current price of a share."),
        ("Write a short poem about autumn.", "answer", "No function is needed."),
        ("Put on something by Miles Davis.", "play_music", "Play songs."),
        ("Who wrote Hamlet?", "answer", "No function is needed."),
        ("How many feet are 12.5 meters?", "convert_length", "Convert a length to another unit."),
    ),
    "zh": (
        ("请在蓝园订一张今晚四人的桌子。", "book_table", "在餐厅订桌。"),
        ("你好，最近怎么样？", "answer", "不需要函数。"),
        ("西门子的股票现在多少钱？", "get_stock_price", "查询股票现价。"),
        ("写一首关于秋天的短诗。", "answer", "不需要函数。"),
        ("放一首邓丽君的歌。", "play_music", "播放某人的歌。"),
        ("《红楼梦》是谁写的？", "answer", "不需要函数。"),
        ("12.5 米是多少英尺？", "convert_length", "换算长度单位。"),
    ),
}
_ANSWERED = {
    "en": (
        ("How much is 6 times 7?", "42", "6 times 7 is 42."),
        ("What does todo.txt say?", "Buy bread", "todo.txt says: Buy bread."),
        (
            "What is in the music folder?",
            "song.mp3\nlist.txt",
            "It holds song.mp3 and list.txt.",
        ),
    ),
    "zh": (
        ("6 乘以 7 是多少？", "42", "6 乘以 7 是 42。"),
        ("todo.txt 里写了什么？", "买面包", "todo.txt 里写着：买面包。"),
        ("music 文件夹里有什么？", "song.mp3\nlist.txt", "music 文件夹里有 song.mp3 和 list.txt。"),
    ),
}


class WorkedRequest(NamedTuple):
    """A request, with the calls that solve it.

    Args:
        function: The tool and its arguments, one line each.
    """

    function: str
    request: str
    calls: list[JsonObject]


_FILLED = {
    "en": (
        WorkedRequest(
            "book_table: Reserve a table at a restaurant.\n- restaurant (string): Name of the restaurant\n"
            "- people (integer): How many guests\n- outside (boolean, optional): Whether to sit outside",
            "Get us a table for 4 at Blue Garden tonight, outside please.",
            [{"restaurant": "Blue Garden", "people": 4, "outside": True}],
        ),
        WorkedRequest(
            "convert_length: Convert a length to another unit.\n- value (number): The length\n"
            "- from_unit (string): Its unit\n- to_unit (string): The unit wanted\n"
            "- digits (integer, optional): How many decimal places",
            "How many feet are 12.5 meters?",
            [{"value": 12.5, "from_unit": "meters", "to_unit": "feet"}],
        ),
        WorkedRequest(
            "play_music: Play songs.\n- artist (string): Who plays\n- volume (integer): In percent",
            "Put on Miles Davis and then Nina Simone, at 40 percent.",
            [{"artist": "Miles Davis", "volume": 40}, {"artist": "Nina Simone", "volume": 40}],
        ),
    ),
    "zh": (
        WorkedRequest(
            "book_table: 在餐厅订桌。\n- restaurant (string): 餐厅名\n- people (integer): 人数\n"
            "- outside (boolean，可省略): 是否坐室外",
            "请在蓝园订一张今晚四人的桌子，要室外的。",
            [{"restaurant": "蓝园", "people": 4, "outside": True}],
        ),
        WorkedRequest(
            "convert_length: 换算长度单位。\n- value (number): 长度\n- from_unit (string): 原单位\n"
            "- to_unit (string): 目标单位\n- digits (integer，可省略): 小数位数",
            "12.5 米是多少英尺？",
            [{"value": 12.5, "from_unit": "米", "to_unit": "英尺"}],
        ),
        WorkedRequest(
            "play_music: 播放某人的歌。\n- artist (string): 歌手\n- volume (integer): 音量百分比",
            "先放邓丽君，再放王菲，音量百分之四十。",
            [{"artist": "邓丽君", "volume": 40}, {"artist": "王菲", "volume": 40}],
        ),
    ),
}


class Chosen(NamedTuple):
    """A request, with the tool to choose."""

    request: str
    name: str
    description: str


def no_tool(prompts: Prompts) -> set[str]:
    """Return the names that stand for an answer in words."""
    return {name for (name,) in _examples(prompts, "no_tool", _NO_TOOL)}


def chosen_examples(prompts: Prompts) -> list[Chosen]:
    """Return example requests, each with the tool to choose or with one of the names in `no_tool`."""
    return [Chosen(*row) for row in _examples(prompts, "chosen", _CHOSEN)]


def answered_examples(prompts: Prompts) -> list[tuple[str, str, str]]:
    """Return examples of (question, tool result, answer)."""
    return [
        (question, result, answer) for question, result, answer in _examples(prompts, "answered", _ANSWERED)
    ]


def filled_examples(prompts: Prompts) -> list[WorkedRequest]:
    """Return example requests, each with the calls that solve it."""
    return [WorkedRequest(*row) for row in _examples(prompts, "filled", _FILLED)]


def check_worked_examples(prompts: Prompts) -> None:
    """Reject worked examples with an unknown kind or a wrong number of values.

    Raises:
        ConfigError: A kind or a row is invalid.
    """
    shapes = {"no_tool": 1, "chosen": 3, "filled": 3, "answered": 3}
    for kind, rows in prompts.worked_examples.items():
        if kind not in shapes:
            raise ConfigError(f"worked_examples has an unknown kind {kind!r}. Use: {', '.join(shapes)}.")
        for row in rows:
            if isinstance(row, str) or len(row) != shapes[kind]:
                raise ConfigError(
                    f"worked_examples[{kind!r}] needs {shapes[kind]} values per row, not {row!r}."
                )


def _examples(prompts: Prompts, kind: str, defaults: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
    return prompts.worked_examples.get(kind) or in_language(defaults, prompts.language)
