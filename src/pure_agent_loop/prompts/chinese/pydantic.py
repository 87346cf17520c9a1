"""Errors of pydantic in Chinese, by their kind, with pydantic's placeholders."""

from __future__ import annotations

from collections.abc import Mapping

OTHER_ERROR = "不符合要求"  # for a kind that is missing below
ERRORS: Mapping[str, str] = {
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
    "path_type": "应为路径（文本）",
    "none_required": "应为 null",
    "date_parsing": "应为日期",
    "datetime_parsing": "应为日期和时间",
    "time_parsing": "应为时间",
    "url_parsing": "应为网址",
    "uuid_parsing": "应为 UUID",
    "value_error": "{error}",
    "assertion_error": "{error}",
}
