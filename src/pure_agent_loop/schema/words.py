"""Texts for a model about invalid arguments, in English and Chinese."""

from __future__ import annotations

from typing import Any

from pure_agent_loop.support.language import Sentences

message = Sentences(
    {
        "required": ("field required", "必填"),
        "given": ("{problem}, got {value}", "{problem}，得到的是 {value}"),
        "or": (" or ", "，或"),
        "unknown_argument": ("unknown argument {name}", "未知参数 {name}"),
        "takes_none": ("{start} (this tool takes none)", "{start}（此工具没有参数）"),
        "did_you_mean": ("{start} (did you mean {name!r}?)", "{start}（是否指 {name!r}？）"),
        "known_arguments": ("{start} (known: {names})", "{start}（已知：{names}）"),
        "unknown_field": ("unknown field {name}", "未知字段 {name}"),
        "of_type": ("a value of type {kind}", "类型为 {kind} 的值"),
        "more_problems": ("and {count} more problems", "另有 {count} 个问题"),
    }
)

# Texts by pydantic's kind of error, with pydantic's placeholders. For other kinds the model reads `_UNFIT`;
# the argument's name and value are added in any case.
_UNFIT = "不符合要求"
_CHINESE = {
    "string_type": "应为文本",
    "string_too_short": "至少要有 {min_length} 个字符",
    "string_too_long": "最多 {max_length} 个字符",
    "string_pattern_mismatch": "应匹配 {pattern}",
    "int_type": "应为整数",
    "int_parsing": "应为整数",
    "int_from_float": "应为整数，不能有小数部分",
    "float_type": "应为数字",
    "float_parsing": "应为数字",
    "finite_number": "应为有限的数字",
    "bool_type": "应为 true 或 false",
    "bool_parsing": "应为 true 或 false",
    "list_type": "应为列表",
    "tuple_type": "应为列表",
    "set_type": "应为列表",
    "dict_type": "应为对象",
    "model_type": "应为对象",
    "dataclass_type": "应为对象",
    "too_short": "至少要有 {min_length} 项",
    "too_long": "最多 {max_length} 项",
    "greater_than": "应大于 {gt}",
    "greater_than_equal": "应大于或等于 {ge}",
    "less_than": "应小于 {lt}",
    "less_than_equal": "应小于或等于 {le}",
    "multiple_of": "应为 {multiple_of} 的倍数",
    "literal_error": "应为其中之一：{expected}",
    "enum": "应为其中之一：{expected}",
    "none_required": "应为 null",
    "date_parsing": "应为日期",
    "datetime_parsing": "应为日期和时间",
    "time_parsing": "应为时间",
    "url_parsing": "应为网址",
    "uuid_parsing": "应为 UUID",
    "value_error": "{error}",
    "assertion_error": "{error}",
}


def in_chinese(kind: str, context: dict[str, Any]) -> str:
    """Return an error of pydantic in Chinese.

    Args:
        context: The values of the placeholders; for a validator's own error the error itself.
    """
    text = _CHINESE.get(kind) or (_CHINESE["date_parsing"] if kind.startswith("date_") else _UNFIT)
    values = {name: str(value).replace(" or ", ", ") for name, value in context.items()}
    try:
        return text.format(**values)
    except KeyError:  # another version of pydantic has other placeholders
        return _UNFIT
