"""Recovery of tool calls that a model or its server left in the text. Pure: no I/O.

Rules:

1.  A call must name an available tool, and its arguments must fit the tool's schema. Anything else stays part
    of the text.
2.  After a tag with no other use (such as ``<tool_call>``) a call is recognized anywhere except inside a code
    block or quotes.
3.  A fenced or bare JSON object or list, and a call in a ReAct line (``Action:`` with ``Action Input:``) or
    in Python syntax (``look(word="a")``), are recognized only at the end of the text, because in the middle
    of an explanation they are examples. All but the fenced ones begin on a separate line. A model's own text
    after ``Observation:`` is invented, and is dropped.
4.  Text is buffered only while it can still become a call, so responses stream as usual. How the text was
    split into deltas has no effect, because a candidate is rejected only when no further text could complete
    it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from pure_agent_loop.llm.arguments import loads_strictly, parse_arguments
from pure_agent_loop.llm.response import ThinkSplitter, split_unopened
from pure_agent_loop.llm.tool_modes.forms import ACTION, INPUT, OBSERVATION, Element, Marker, forms_in_use
from pure_agent_loop.llm.tool_modes.positions import TextPosition
from pure_agent_loop.llm.values import JsonFields, ToolCall
from pure_agent_loop.support.lazy import lazy_pattern

# -- checks of JSON from a model: the call it spells, and whether arguments could fit a JSON Schema ------
# These checks support the part of JSON Schema that tools use. Values are checked as leniently as by a tool's
# validation: ``"7"`` is accepted for 7, and unknown keywords pass.

NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "action")
ARGUMENT_KEYS = (
    "arguments",
    "parameters",
    "args",
    "input",
    "tool_input",
    "action_input",
    "tool_args",
    "params",
)
OTHER_KEYS = ("id", "type", "index", "tool_calls", "call_id", "thought", "reasoning")
_TOKEN = lazy_pattern(r'"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|[{}\[\]]', re.S)

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
MAX_HOPS = 50  # limit on nested references and choices, because a schema may refer to itself
_FUNCTION_WORDS = ("function<｜tool▁sep｜>", "function<｜tool_sep｜>")
_JUNK = " \t\r\n}])"
_FENCE = lazy_pattern(r"```(?:json|tool_calls?|tool|xml)?\s*(?=[{\[<])", re.I)
_FENCE_BEGUN = lazy_pattern(r"`{1,2}|```(\w*)(\s*)")
_FENCE_WORDS = ("json", "tool_calls", "tool_call", "tool", "xml")
_BRACKETS = lazy_pattern(r"[\[{][\s\[{]*")
_KEY = lazy_pattern(r'"([^"\\]*)("?)')
_VALUE = lazy_pattern(r'"[^"\\]*"\s*:\s*"([^"\\]*)("?)')
_GAP = lazy_pattern(r"[\s;,]*")
_XML_NAME = lazy_pattern(r"[\w.:-]*")
_WORD = lazy_pattern(r"(?:function<｜tool[▁_]sep｜>)?([\w.-]+)(?::\d*)?")
_SEPARATOR = lazy_pattern(
    r"\s*(?:\[CALL_ID\]\w+)?(?:\[ARGS\]|<｜tool▁sep｜>|<\|tool_call_argument_begin\|>"
    r"|(?:<\|channel\|>commentary)?\s*(?:<\|constrain\|>)?(?:json)?\s*<\|message\|>)?\s*(?:```(?:json)?\s*)?"
)
_NAME_ENDS = (
    *("[CALL_ID]", "[ARGS]", "<｜tool▁sep｜>", "<|tool_call_argument_begin|>", "```", "<arg_key>"),
    *("<|constrain|>json<|message|>", "json<|message|>", "<|message|>", "<|channel|>commentary"),
)
_PAIRS = lazy_pattern(r"\s*(?:<arg_key>[^<]*</arg_key>\s*<arg_value>.*?</arg_value>\s*)*", re.S)
_PAIR = lazy_pattern(r"<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.S)
_HALF_A_TAG = lazy_pattern(r"<(?:\S[^<>]*)?\Z")
_LINE_NAME = lazy_pattern(r"[\w.-]+")
_LINE_GAP = lazy_pattern(r"[ \t]*\r?\n\s*")
_LINE_END = lazy_pattern(r"[ \t]*(?:\r?\n|\Z)")
_PYTHON = lazy_pattern(
    r"(?P<quote>\"{3}|'{3})(?:\\.|(?!(?P=quote))[^\\])*(?P<end>(?P=quote)|\\?\Z)"
    r"|(?P<one>[\"'])(?:\\.|(?!(?P=one))[^\\\n])*(?P<close>(?P=one)|\\?\Z)|[()\[\]{}\"']",
    re.S,
)
_MARKER_CHARS = 64  # longer than every marker
_RESCAN_GROWTH = 1.1  # rescan a long call only after it has grown by this factor, to keep the time linear


def could_fit(value: object, schema: object, root: object = None, hops: int = 0) -> bool:
    """Return True unless `value` clearly violates `schema`.

    Args:
        schema: A JSON Schema, or True or False; ``type``, ``enum``, ``const``, ``properties``, ``required``,
            ``additionalProperties``, ``items``, ``anyOf``, ``oneOf``, ``allOf``, local ``$ref`` are checked.
        root: The schema that a ``$ref`` points into; `schema` if None.
    """
    if not isinstance(schema, Mapping):
        return schema is not False
    root = schema if root is None else root
    if hops >= MAX_HOPS:
        return True
    reference = schema.get("$ref")
    if isinstance(reference, str) and not could_fit(value, _resolved(reference, root), root, hops + 1):
        return False
    if not _choices_fit(value, schema, root, hops + 1):
        return False
    if isinstance(schema.get("enum"), list) and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    return _type_fits(value, schema.get("type")) and _parts_fit(value, schema, root)


def _choices_fit(value: object, schema: JsonFields, root: object, hops: int) -> bool:
    for key, needed in (("anyOf", any), ("oneOf", any), ("allOf", all)):
        choices = schema.get(key) or [True]
        if not needed(could_fit(value, choice, root, hops) for choice in choices):
            return False
    return True


def _type_fits(value: object, wanted: object) -> bool:
    names = wanted if isinstance(wanted, list) else [wanted] if wanted else []
    return not names or any(_is(value, name) for name in names)


def _is(value: object, name: object) -> bool:
    if name not in _TYPES:
        return True
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    if isinstance(value, str) and name in ("integer", "number", "boolean"):
        return _spells(value, name)
    return isinstance(value, _TYPES[name])


def _spells(text: str, name: str) -> bool:
    if name == "boolean":
        return text.lower() in ("true", "false")
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parts_fit(value: object, schema: JsonFields, root: object) -> bool:
    if isinstance(value, list):
        items = schema.get("items")
        return items is None or isinstance(items, list) or all(could_fit(item, items, root) for item in value)
    if not isinstance(value, dict):
        return True
    properties = schema.get("properties") or {}
    if any(name not in value for name in schema.get("required") or ()):
        return False
    extra = True if "patternProperties" in schema else schema.get("additionalProperties", True)
    return all(could_fit(item, properties.get(name, extra), root) for name, item in value.items())


def _resolved(reference: str, root: object) -> Any:
    """Return the target of a local reference; True, which accepts everything, if unknown."""
    target: Any = root
    if not reference.startswith("#"):
        return True
    for part in filter(None, reference[1:].split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        target = target.get(key, True) if isinstance(target, Mapping) else True
    return target


def name_and_arguments(value: object) -> tuple[str, Any] | None:
    """Return the name and arguments of a JSON object that may be a call, in any common spelling."""
    if not isinstance(value, Mapping):
        return None
    inner = value.get("function")
    if isinstance(inner, Mapping):  # {"type": "function", "function": {"name": ..., "arguments": ...}}
        value = inner
    name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is None:
        if len(value) != 1:
            return None
        name, arguments = next(iter(value.items()))  # {"get_weather": {"city": ...}}
        return (name, arguments) if isinstance(arguments, Mapping) else None
    key = next((key for key in ARGUMENT_KEYS if key in value), None)
    if key is None and set(value) - {*NAME_KEYS, *OTHER_KEYS}:
        return None  # an object with a name and unknown keys is not a call
    return name, None if key is None else value[key]


def end_of_json(text: str, start: int) -> int | None:
    """Return the end of the object or list that begins at `start`; None if it is incomplete."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token.group() in ("{", "["):
            depth += 1
        elif token.group() in ("}", "]"):
            depth -= 1
            if depth == 0:
                return token.end()
        elif token.group(1) != '"':
            return None
    return None


def items_in(value: object) -> list[Any]:
    """Return the candidate calls of a JSON value: the items in a list or ``tool_calls``, else the value."""
    items = value.get("tool_calls", [value]) if isinstance(value, dict) else value
    return items if isinstance(items, list) else [value]


Schemas: TypeAlias = "Mapping[str, JsonFields]"


class _Match(NamedTuple):
    """Calls, and the position where their text ends.

    A match without calls is undecided; None in place of a match means that there is no call.
    """

    calls: tuple[ToolCall, ...]
    end: int


_NOT_YET = _Match((), 0)


class TextCalls:
    """Scans streamed text for calls. Pass the text to `feed`, then call `finish`.

    Args:
        extra: Schemas of additional tools, by name.
    """

    def __init__(self, tools: Sequence[JsonFields], extra: Schemas | None = None) -> None:
        self._schemas = {**schemas_of(tools), **(extra or {})}
        self._shown: list[str] = []
        self._place = TextPosition()
        self.held = ""  # the buffered text
        self._rescan_at = 0

    def feed(self, text: str) -> str:
        """Add text; return the text that is certainly not part of a call."""
        if not self.held and not self._place.may_hold_call(text):  # the usual case
            self._shown.append(text)
            self._place.move(text)
            return text
        self.held += text
        if len(self.held) < self._rescan_at:
            return ""
        reader = _CallReader(self._schemas, self.held, is_final=False)
        places = self._place.candidates(self.held)
        start = next((place for place in places if reader.read(place) is not None), len(self.held))
        shown, self.held = self.held[:start], self.held[start:]
        self._shown.append(shown)
        self._place.move(shown)
        self._rescan_at = int(len(self.held) * _RESCAN_GROWTH) if len(self.held) > 2000 else 0
        return shown

    def finish(self, *, is_cut: bool = False, has_thought: bool = False) -> tuple[list[ToolCall], str]:
        """Return the calls in the buffered text, and the rest of that text.

        Args:
            is_cut: Whether the response ended at a limit, so that an unfinished call is ignored.
            has_thought: True if reasoning tags have already been removed. If not, text before a lone
                ``</think>`` is reasoning, and calls in it are ignored.
        """
        held, self.held = self.held, ""
        thinking, close, answer = held.partition(ThinkSplitter.CLOSE)
        if has_thought or not close or not split_unopened("".join([*self._shown, held]))[1]:
            thinking, close, answer = "", "", held
        self._place.move(thinking + close)
        reader = _CallReader(self._schemas, answer, is_final=True, is_cut=is_cut)
        calls, rest = reader.read_all(self._place)
        if calls and not rest.strip():
            rest = ""
        return calls, thinking + close + rest


def find_calls(text: str, schemas: Schemas, *, is_cut: bool = False) -> tuple[list[ToolCall], str]:
    """Find all calls in a finished text.

    Args:
        schemas: JSON Schema of each tool's arguments, by tool name.
        is_cut: Whether the text ended at a limit, so that an unfinished call is ignored.

    Returns:
        The calls, and the text without them.
    """
    calls, rest = _CallReader(schemas, text, is_final=True, is_cut=is_cut).read_all(TextPosition())
    return calls, rest.strip() if calls else text


def schemas_of(tools: Sequence[JsonFields]) -> dict[str, JsonFields]:
    """Return the JSON Schema of each tool's arguments, by tool name."""
    return {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}


class _CallReader:
    """Reads the calls at given positions of a text.

    Args:
        schemas: JSON Schema of each tool's arguments, by tool name.
    """

    def __init__(self, schemas: Schemas, text: str, *, is_final: bool, is_cut: bool = False) -> None:
        self._schemas = schemas
        self._text = text
        self._is_final = is_final
        self._is_cut = is_cut
        self._forms = forms_in_use()
        self._no_lines: set[int] = set()  # starts of lines at which `_lines` found no calls

    def read_all(self, place: TextPosition) -> tuple[list[ToolCall], str]:
        """Return all calls in a text that begins at `place`, and the text without them."""
        calls: list[ToolCall] = []
        kept, done = [], 0
        for position in place.candidates(self._text):
            match = self.read(position) if position >= done else None
            if match is not None and match.calls:
                calls += match.calls
                kept.append(self._text[done:position])
                done = match.end
        return calls, "".join([*kept, self._text[done:]])

    def read(self, start: int) -> _Match | None:
        """Return the calls that begin at `start`; None if none can begin there."""
        text = self._text
        if text[start] == "*" or text[start] == "_" or text[start].isalnum():
            return self._lines(start)
        if text[start] == "`" or (text[start] in "{[" and not text.startswith("[T", start)):
            return self._untagged(start)
        forms = self._forms
        if forms.element_at(text, start) or forms.opening.match(text, start):
            return self._tagged(start)
        return self._pending(_begins((*forms.openings, *forms.elements), text[start:]))

    def _pending(self, condition: bool = True) -> _Match | None:
        return _NOT_YET if condition and not self._is_final else None

    def _untagged(self, start: int) -> _Match | None:
        """Read consecutive JSON values and code blocks up to the end of the text."""
        calls: list[ToolCall] = []
        position = start
        while position < len(self._text):
            is_block = self._text[position] == "`"
            match = self._block(position) if is_block else self._json(position)
            if match is None or not match.calls:
                return match
            calls += match.calls
            position = self._after_gap(match.end)
        return _Match(tuple(calls), position)

    def _lines(self, start: int) -> _Match | None:
        """Read consecutive calls on separate lines up to the end of the text."""
        calls: list[ToolCall] = []
        position, visited, acts = start, list[int](), False
        while position < len(self._text) and position not in self._no_lines:
            if acts and OBSERVATION.at.match(self._text, position):
                return _Match(tuple(calls), len(self._text))
            match = self._line(position) or self._pending(acts and self._may_be(OBSERVATION, position))
            if match is not None and not match.calls:
                return match
            visited.append(position)
            acts = ACTION.at.match(self._text, position) is not None
            if match is None:
                break
            calls += match.calls
            position = self._after_gap(match.end)
        else:
            if position == len(self._text):
                return _Match(tuple(calls), position)
        self._no_lines.update(visited)  # all these lines lead to the same text, which is not a call
        return None

    def _may_be(self, marker: Marker, start: int) -> bool:
        return marker.may_begin(self._text[start : start + _MARKER_CHARS])

    def _line(self, start: int) -> _Match | None:
        """Read ``name(...)``, ``Action: name(...)``, or ``Action: name`` followed by ``Action Input:``."""
        text, action = self._text, ACTION.at.match(self._text, start)
        begin = action.end() if action else start
        word = _LINE_NAME.match(text, begin)
        end = word.end() if word else begin
        if end == len(text):
            is_name = word is not None and self._may_be_name(word.group(), is_whole=False)
            return self._pending(is_name or end == begin or (not action and self._may_be(ACTION, start)))
        name = self._known(text[begin:end])
        if name is None:
            return self._pending(not action and self._may_be(ACTION, start))
        if text[end] == "(":
            return self._python_line(name, end)
        gap = _LINE_GAP.match(text, end) if action else None
        if gap is None:
            return self._pending(action is not None and not text[end:].strip())
        label = INPUT.at.match(text, gap.end())
        if label is None:
            return self._pending(self._may_be(INPUT, gap.end()))
        return self._input(name, label.end())

    def _input(self, name: str, start: int) -> _Match | None:
        """Read the JSON after ``Action Input:``, or take the line as the tool's only argument."""
        text = self._text
        body = start + len(text[start:]) - len(text[start:].lstrip())
        fence = _FENCE.match(text, body)
        body = fence.end() if fence else body
        if text.startswith("{", body):
            match = self._arguments(name, body)
            rest = text[match.end :].strip() if match else ""
            return _NOT_YET if fence and rest in ("`", "``") and not self._is_final else match
        if text.startswith("`", body):
            return self._pending(_FENCE_BEGUN.fullmatch(text, body) is not None)
        line = text[start:].partition("\n")[0].strip()
        if not self._is_final and (body == len(text) or "\n" not in text[body:]):
            return _NOT_YET
        only = only_argument(self._schemas[name])
        if self._is_cut or (line and only is None):
            return None
        return self._checked(name, {only: value_in_line(line)} if line else {}, start + len(line) + 1)

    def _python_line(self, name: str, bracket: int) -> _Match | None:
        """Read a call in Python syntax, with literals or one JSON object, to the end of its line."""
        text, depth = self._text, 0
        for token in _PYTHON.finditer(text, bracket):
            if token["close"] is None and token.group() in "'\"":
                return None
            if token["end"] in ("", "\\") or token["close"] in ("", "\\"):
                break
            depth += (token.group() in "([{") - (token.group() in ")]}")
            if depth == 0:
                end, inside = token.end(), text[bracket + 1 : token.end() - 1].strip()
                names = list(self._schemas[name].get("properties") or ())
                is_json = inside.startswith("{")
                arguments = inside if is_json else python_arguments(f"f{text[bracket:end]}", names)
                is_alone = _LINE_END.match(text, end) is not None
                return self._checked(name, arguments, end) if is_alone and arguments is not None else None
        return self._pending()

    def _block(self, start: int) -> _Match | None:
        text = self._text
        fence = _FENCE.match(text, start)
        if fence is None:
            begun = _FENCE_BEGUN.fullmatch(text, start)
            word = (begun[1] or "").lower() if begun else "?"
            is_whole = begun is not None and bool(begun[2])
            return self._pending(
                word in ("", *_FENCE_WORDS) or (not is_whole and _begins(_FENCE_WORDS, word))
            )
        calls: list[ToolCall] = []
        position = fence.end()
        while position < len(text) and text[position] != "`":
            is_tag = text[position] == "<" or text.startswith("[T", position)
            match = self.read(position) if is_tag else self._json(position)
            if match is None or not match.calls:
                return match
            calls += match.calls
            position = self._after_gap(match.end)
        if text.startswith("```", position):
            return _Match(tuple(calls), position + 3)
        if "```".startswith(text[position:]):
            return _Match(tuple(calls), len(text))
        return None

    def _after_gap(self, position: int) -> int:
        gap = _GAP.match(self._text, position)
        return gap.end() if gap else position

    def _json(self, start: int) -> _Match | None:
        """Read one JSON value that is a call, or holds only calls."""
        if self._text[start] not in "{[" or not self._may_be_json_call(start):
            return None
        end = end_of_json(self._text, start)
        if end is None:
            return self._pending()
        try:
            items = items_in(loads_strictly(self._text[start:end]))
        except ValueError:
            return None
        calls = [self._call_of(item) for item in items]
        good = tuple(call for call in calls if call is not None)
        return _Match(good, end) if good and len(good) == len(calls) else None

    def _may_be_json_call(self, start: int) -> bool:
        """Return False if the first key, or the tool name in its value, rules out a call."""
        brackets = _BRACKETS.match(self._text, start)
        rest = brackets.end() if brackets else start
        if rest == len(self._text):
            return True
        key = _KEY.match(self._text, rest)
        if key is None:
            return False
        keys = (*NAME_KEYS, *ARGUMENT_KEYS, *OTHER_KEYS, *self._schemas)
        if not key.group(2):
            return _begins(keys, key.group(1))
        value = _VALUE.match(self._text, rest)
        if value is None or key.group(1) not in NAME_KEYS:
            return key.group(1) in keys
        return self._may_be_name(value.group(1), is_whole=bool(value.group(2)))

    def _may_be_name(self, name: str, *, is_whole: bool) -> bool:
        if is_whole:
            return self._known(name) is not None
        return _begins([*self._schemas, *(f"functions.{tool}" for tool in self._schemas)], name)

    def _known(self, name: str) -> str | None:
        short = name.removeprefix("functions.")
        return name if name in self._schemas else short if short in self._schemas else None

    def _tagged(self, start: int) -> _Match | None:
        """Read all calls after opening tags."""
        calls: list[ToolCall] = []
        position = end = start
        while True:
            between = self._forms.between.match(self._text, position)
            position = between.end() if between else position
            match = self._body(position)
            if match is None or not match.calls:
                if match is None and calls:
                    pending = self._pending(_begins(self._forms.closings, self._text[end:].lstrip(_JUNK)))
                    return pending or _Match(tuple(calls), end)
                return match
            calls += match.calls
            closing = self._forms.closers.match(self._text, match.end)
            position = end = closing.end() if closing else match.end

    def _body(self, start: int) -> _Match | None:
        """Read one value after a tag: JSON, XML, or a name followed by JSON or pairs."""
        text = self._text
        if start == len(text):
            return self._pending()
        if (element := self._forms.element_at(text, start)) is not None:
            return self._element(element, start)
        if text[start] in "{[" and not text.startswith("[T", start):
            match = self._json(start)
            return self._python(start) if match is None and text[start] == "[" else match
        if text[start] in "<[":
            return self._pending(_begins(self._forms.tags, text[start:]))
        return self._named(start)

    def _python(self, start: int) -> _Match | None:
        """Read a list of calls in Python syntax: ``[look(word="a"), now()]``."""
        ends = [at for tag in self._forms.closings if (at := self._text.find(tag, start)) >= 0]
        if not ends:
            return self._pending()
        try:
            parsed = ast.parse(self._text[start : min(ends)].strip(), mode="eval").body
            parts = [
                self._checked(node.func.id, {k.arg: ast.literal_eval(k.value) for k in node.keywords}, 0)
                for node in (parsed.elts if isinstance(parsed, ast.List) else ())
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args
            ]
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return None
        calls = tuple(call for part in parts if part is not None for call in part.calls)
        is_whole = isinstance(parsed, ast.List) and len(calls) == len(parsed.elts)
        return _Match(calls, min(ends)) if calls and is_whole else None

    def _named(self, start: int) -> _Match | None:
        """Read ``name{...}``, ``name[ARGS]{...}``, or ``name`` with ``<arg_key>``/``<arg_value>`` pairs."""
        text = self._text
        word = _WORD.match(text, start)
        if word is None:
            return None
        if word.end() == len(text):
            return self._pending("function".startswith(word[1]) or self._may_be_name(word[1], is_whole=False))
        name = self._known(word[1])
        if name is None:
            return self._pending(_begins(_FUNCTION_WORDS, text[start:]))
        separator = _SEPARATOR.match(text, word.end())
        after = separator.end() if separator else word.end()
        if text.startswith("{", after):
            return self._arguments(name, after)
        pairs = _PAIRS.match(text, word.end())
        after = pairs.end() if pairs else word.end()
        if any(text.startswith(tag, after) for tag in self._forms.closings):
            properties = self._schemas[name].get("properties") or {}
            arguments = {
                k.strip(): _typed(v, properties.get(k.strip())) for k, v in _PAIR.findall(text, start, after)
            }
            return self._checked(name, arguments, after)
        rest, ends = text[word.end() :].lstrip(), (*_NAME_ENDS, *self._forms.closings)
        return self._pending(_begins(ends, rest) or rest.startswith(ends))

    def _arguments(self, name: str, start: int) -> _Match | None:
        end = end_of_json(self._text, start)
        if end is None:
            return self._pending()
        closing = re.compile(r"\s*```").match(self._text, end)
        return self._checked(name, self._text[start:end], closing.end() if closing else end)

    def _element(self, form: Element, start: int) -> _Match | None:
        """Read a call in a tag of its own, with JSON inside or with a tag for each argument."""
        text, begin = self._text, start + len(form.prefix)
        named = _XML_NAME.match(text, begin)
        end = named.end() if named else begin
        is_whole = text.startswith(form.suffix, end)
        if not self._may_be_name(text[begin:end], is_whole=is_whole):
            return None
        name = self._known(text[begin:end]) if is_whole else None
        if name is None:
            return self._pending(form.suffix.startswith(text[end:]))
        inner = end + len(form.suffix)
        close = text.find(form.close, inner)
        if close < 0 and (not self._is_final or self._is_cut):
            return self._pending()
        inside = text[inner:] if close < 0 else text[inner:close]
        if close < 0 and _HALF_A_TAG.search(inside):  # truncated inside a tag, so the rest is unknown
            return None
        end = len(text) if close < 0 else close + len(form.close)
        properties = self._schemas[name].get("properties") or {}
        parameters = form.arguments(inside)
        if not parameters:
            return self._checked(name, inside.strip(), end)
        arguments = {
            key: value if is_text == "true" else _typed(value, {} if is_text else properties.get(key))
            for key, value, is_text in parameters
        }
        return self._checked(name, arguments, end)

    def _call_of(self, value: object) -> ToolCall | None:
        named = name_and_arguments(value)
        match = self._checked(*named, 0) if named else None
        return match.calls[0] if match else None

    def _checked(self, name: str, raw_arguments: object, end: int) -> _Match | None:
        """Return the call if it obeys rule 1 of this module, else None."""
        known = self._known(name)
        if known is None:
            return None
        arguments, invalid = parse_arguments(raw_arguments)
        if invalid or not could_fit(arguments, self._schemas[known]):
            return None
        return _Match((ToolCall("", known, arguments),), end)


def python_arguments(call: str, names: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of a call in Python syntax; None if some are not literals, or too many.

    Args:
        names: Names for the positional arguments.
    """
    try:
        parsed = ast.parse(call, mode="eval").body
        if not isinstance(parsed, ast.Call):
            return None
        arguments = dict(zip(names, map(ast.literal_eval, parsed.args), strict=False))
        arguments |= {kw.arg: ast.literal_eval(kw.value) for kw in parsed.keywords if kw.arg}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return arguments if len(arguments) == len(parsed.args) + len(parsed.keywords) else None


def only_argument(schema: JsonFields) -> str | None:
    """Return the name of the only argument that a tool has or requires; None for several or none."""
    names = list(schema.get("required") or schema.get("properties") or ())
    return names[0] if len(names) == 1 else None


def value_in_line(text: str) -> Any:
    """Return a value that is written as JSON or as text, optionally in quotes."""
    try:
        return loads_strictly(text)
    except ValueError:
        return text.strip("\"'`")


def _begins(words: Sequence[str], text: str) -> bool:
    return any(word.startswith(text) for word in words)


def _typed(text: str, schema: object) -> Any:
    """Parse a value without quotes: as text if the schema requires a string, else as JSON."""
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return text
    try:
        return loads_strictly(text)
    except ValueError:
        return text
