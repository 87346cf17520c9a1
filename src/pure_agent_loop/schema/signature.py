"""Read a tool function: its name, its parameters and their annotations. Needs no pydantic."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import CellType, FrameType, GenericAlias, MappingProxyType, SimpleNamespace, UnionType
from typing import Any, ForwardRef, NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.tool_context import RunContext

_GUESSABLE = (bool, int, float, str, list, dict)
_BUILTINS = {kind.__name__: kind for kind in _GUESSABLE}
_CONTEXT_TEXT = lazy_pattern(r"(?:\w+\.)*RunContext\b")
_POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_PARAMETERS = {
    *("args", "arguments", "parameters", "params", "keyword args", "keyword arguments"),
    *("other args", "other arguments", "other parameters", "keyword parameters"),
    *("参数", "参数说明", "参数列表"),
}
_OTHERS = {
    *("returns", "return", "yields", "yield", "receives", "raises", "raise", "exceptions", "warns"),
    *("example", "examples", "references", "see also", "attributes", "methods", "todo"),
    *("返回", "返回值", "异常", "抛出", "示例", "例子"),
}
_SECTIONS = _PARAMETERS | _OTHERS
_COLONS = ":："
_BRACKETS = {"(": 1, "（": 1, "[": 1, ")": -1, "）": -1, "]": -1}
_UNDERLINE = lazy_pattern(r"\s*(-{3,}|={3,})\s*$")
_NAME = lazy_pattern(r"\\?\*{0,2}(\w+)\s*")
_NUMPY_NAMES = lazy_pattern(r"(\\?\*{0,2}\w+(?:\s*,\s*\\?\*{0,2}\w+)*)\s*(?:[:：].*)?$")
_SPHINX = lazy_pattern(
    r":(?P<kind>param|parameter|arg|argument|key|keyword|kwarg|type|kwtype|raises?|except|exception|returns?|rtype"
    r"|yields?|ytype|var|ivar|cvar|vartype|meta)(?:\s+(?P<subject>[^:：]*))?[:：](?P<text>.*)$"
)
_SPHINX_PARAMETERS = {"param", "parameter", "arg", "argument", "key", "keyword", "kwarg"}
_BULLET = lazy_pattern(r"([-*•]|\d+[.)])\s")


class ToolParameter(NamedTuple):
    """One parameter that the model fills in.

    Args:
        annotation: The type; a string if it could not be resolved yet.
        default: The default, or ``inspect.Parameter.empty``.
        is_final: True if the annotation is fully resolved.
    """

    name: str
    annotation: Any
    default: Any
    is_final: bool = False

    @property
    def required(self) -> bool:
        """True if a call must include it."""
        return self.default is inspect.Parameter.empty


class ToolSignature(NamedTuple):
    """The result of :func:`check_signature`.

    Args:
        name: The name of the function, for messages.
        doc: The docstring; empty if missing.
        local_types: Classes of the enclosing functions, for annotations that name them.
    """

    name: str
    doc: str
    parameters: tuple[ToolParameter, ...]
    function: Callable[..., Any]
    local_types: dict[str, Any]

    def resolved(self) -> ToolSignature:
        """Return the signature with every annotation resolved.

        Raises:
            ConfigError: An annotation names something undefined.
        """
        if all(parameter.is_final for parameter in self.parameters):
            return self
        scope = _Scope(self.function, self.local_types)
        done = tuple(p._replace(annotation=self._final(p, scope)) for p in self.parameters)
        return self._replace(parameters=done)

    def _final(self, parameter: ToolParameter, scope: _Scope) -> Any:
        try:
            return scope.resolve(parameter.annotation)
        except Exception as error:
            raise ConfigError(
                f"Tool {self.name!r}: the annotation {parameter.annotation!r} of parameter "
                f"{parameter.name!r} cannot be resolved ({error}). Define or import the names in it at the "
                "top of the module, not under TYPE_CHECKING."
            ) from error


def callable_name(function: Callable[..., Any]) -> str:
    """Return the name of a function, of a ``partial``'s function, or of a callable object's class."""
    if isinstance(function, functools.partial):
        return callable_name(function.func)
    name = getattr(function, "__name__", None)
    if isinstance(name, str):
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(function).__name__).lower()


def check_signature(function: Callable[..., Any]) -> ToolSignature:
    """Check that a function can be a tool: each parameter has a type and can be passed by name.

    The check is cheap enough for decoration time. Annotations that name classes of an enclosing function
    are resolved here, while that function is still running; those that name later definitions of the
    module stay text until the schema is built.

    Args:
        function: A function, bound method, ``partial`` or callable object. Arguments bound by a ``partial``
            are omitted: the model neither sees nor sets them.

    Raises:
        ConfigError: The function cannot be a tool; the message names every invalid parameter and the fix.
    """
    name = callable_name(function)
    declared = _parameters(function, name)
    _refuse_unnamed(name, declared)
    _refuse_untyped(function, name, declared)
    scope = _Scope(function, {}, look_around=True)
    parameters = tuple(_parameter(parameter, scope) for parameter in declared)
    for parameter in parameters:
        if _is_run_context(parameter.annotation):
            raise ConfigError(f"Tool {name!r}: {parameter.name}, a RunContext, must be its first parameter.")
    return ToolSignature(name, _doc(function), parameters, function, scope.local_types)


def _parameter(declared: inspect.Parameter, scope: _Scope) -> ToolParameter:
    annotation, is_final = scope.try_resolve(declared.annotation)
    return ToolParameter(declared.name, annotation, declared.default, is_final)


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError, NameError) as error:
        raise ConfigError(
            f"Tool {name!r}: its signature cannot be read ({error}). "
            "Wrap it in a Python function with annotations."
        ) from error
    # Arguments bound by `partial` are often secrets or handles, which must not reach the model.
    bound = function.keywords if isinstance(function, functools.partial) else ()
    parameters = [p for p in signature.parameters.values() if p.name not in bound]
    return parameters[1:] if parameters and _is_context(parameters[0].annotation, function) else parameters


def takes_context(function: Callable[..., Any]) -> bool:
    """Return True if the first parameter of a function is annotated as a `RunContext`."""
    try:
        first = [*inspect.signature(function).parameters.values()][:1]
    except (TypeError, ValueError, NameError):
        return False
    return bool(first) and _is_context(first[0].annotation, function)


def wanted_deps(function: Callable[..., Any]) -> str:
    """Return the deps type in a function's `RunContext` annotation; empty if it needs none."""
    if not takes_context(function):
        return ""
    annotation = next(iter(inspect.signature(function).parameters.values())).annotation
    if isinstance(annotation, str):
        annotation, _ = _Scope(function, {}, look_around=True).try_resolve(annotation)
    if isinstance(annotation, str):  # its names may be imported under TYPE_CHECKING
        deps_type: Any = annotation.partition("[")[2].rpartition("]")[0]
    else:
        deps_type = next(iter(typing.get_args(annotation)), Any)
    deps_type = deps_type.__forward_arg__ if isinstance(deps_type, ForwardRef) else deps_type
    if _takes_none(deps_type):
        return ""
    words = deps_type if isinstance(deps_type, str) else inspect.formatannotation(deps_type)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", words)


def _takes_none(deps_type: Any) -> bool:
    if isinstance(deps_type, str):
        return not deps_type or bool(
            {"None", "Optional", "Any", "object"} & set(re.findall(r"\w+", deps_type))
        )
    if deps_type in (None, type(None), Any, object) or isinstance(deps_type, typing.TypeVar):
        return True
    if hasattr(deps_type, "__value__"):  # an alias of a `type` statement
        return _takes_none(deps_type.__value__)
    origin = typing.get_origin(deps_type)
    if origin is typing.Annotated:
        return _takes_none(typing.get_args(deps_type)[0])
    return origin in (typing.Union, UnionType) and any(map(_takes_none, typing.get_args(deps_type)))


def _is_context(annotation: Any, function: Callable[..., Any]) -> bool:
    if isinstance(annotation, str):
        if _CONTEXT_TEXT.match(annotation):  # even if imported under TYPE_CHECKING
            return True
        annotation, _ = _Scope(function, {}, look_around=True).try_resolve(annotation)
    return _is_run_context(annotation)


def _is_run_context(annotation: Any) -> bool:
    return annotation is RunContext or (
        type(annotation) is not type and typing.get_origin(annotation) is RunContext
    )


def around(function: Callable[..., Any] | None) -> _Scope:
    """Return the scope of a function's annotations; without a function, the classes of all callers."""
    if function is not None:
        return _Scope(function, {}, look_around=True)
    frames = [frame.f_locals for frame in _callers()]
    kinds = {k: v for names in reversed(frames) for k, v in names.items() if isinstance(v, type)}
    return _Scope(around, kinds)


def _refuse_unnamed(name: str, declared: list[inspect.Parameter]) -> None:
    bad = [str(p).split(":")[0] for p in declared if p.kind in _VARIADIC]
    if bad:
        raise ConfigError(
            f"Tool {name!r} takes {' and '.join(bad)}, which has no JSON Schema. Name every parameter "
            "(use a list or dict for open-ended input). Decorators of the function "
            "need functools.wraps."
        )
    only = [p.name for p in declared if p.kind is _POSITIONAL_ONLY]
    if only:
        raise ConfigError(
            f"Tool {name!r}: positional-only parameter {_quoted(only)} cannot be passed by name, "
            "as models do. Remove the '/' from the signature."
        )


def _refuse_untyped(function: Callable[..., Any], name: str, declared: list[inspect.Parameter]) -> None:
    untyped = [p.name for p in declared if p.annotation is inspect.Parameter.empty]
    if not untyped:
        return
    many = len(untyped) > 1
    hint = ""
    if untyped[0] in {"self", "cls"}:
        hint = f" (For a method, make the tool from the bound method: tool(obj.{name}).)"
    raise ConfigError(
        f"Tool {name!r}: parameter{'s' if many else ''} {_quoted(untyped)} "
        f"{'have' if many else 'has'} no type annotation, which the JSON Schema needs. "
        f"Write for example: {_corrected(function, name, declared)}{hint}"
    )


def _quoted(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _corrected(function: Callable[..., Any], name: str, declared: list[inspect.Parameter]) -> str:
    """Return the signature as it might look with annotations."""
    parts = []
    for parameter in declared:
        if parameter.name in {"self", "cls"}:
            continue
        text = f"{parameter.name}: {_type_text(parameter)}"
        if parameter.default is not inspect.Parameter.empty:
            text += f" = {_short(parameter.default)}"
        parts.append(text)
    start = "async def" if inspect.iscoroutinefunction(function) else "def"
    shown = name if name.isidentifier() else "my_tool"  # a lambda
    return f"{start} {shown}({', '.join(parts)}) -> str: ..."


def _type_text(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        kind = type(parameter.default)
        return kind.__name__ if kind in _GUESSABLE else "str"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _short(value: Any) -> str:
    plain = value is None or isinstance(value, (bool, int, float, str))
    return repr(value) if plain and len(str(value)) < 40 else "..."


def _doc(function: Callable[..., Any]) -> str:
    if isinstance(function, functools.partial):
        return _doc(function.func)
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        # For a callable object, the docstring of `__call__` is more specific than the class's.
        return inspect.getdoc(type(function).__call__) or inspect.getdoc(function) or ""
    own = function.__doc__  # with its indentation, which the caller strips
    return own if isinstance(own, str) else inspect.getdoc(function) or ""


class _Scope:
    """The names available to an annotation."""

    def __init__(
        self, function: Callable[..., Any], local_types: dict[str, Any], look_around: bool = False
    ) -> None:
        inner = _innermost(function)
        self._globals: dict[str, Any] = getattr(inner, "__globals__", {})
        self._locals = _closure(inner)
        self._around = _surroundings(function, inner) if look_around else {}
        # Keep only classes of enclosing functions: their other locals may be large.
        classes = {name: value for name, value in self._around.items() if isinstance(value, type)}
        self.local_types = local_types or classes

    def try_resolve(self, annotation: Any) -> tuple[Any, bool]:
        """Return the annotation, resolved if possible, and whether it was."""
        try:
            return self.resolve(annotation), True
        except Exception:  # noqa: BLE001 - evaluating text may raise anything; retried later
            return annotation, False

    def resolve(self, annotation: Any) -> Any:
        if type(annotation) is type or _holds_classes(annotation):  # already resolved
            return annotation
        if (
            type(annotation) is str
            and annotation in _BUILTINS
            and not any(annotation in names for names in self._known())
        ):
            return _BUILTINS[annotation]
        try:
            return self._evaluate(annotation, self._locals)
        except NameError:
            return self._evaluate(annotation, {**self.local_types, **self._around, **self._locals})

    def _known(self) -> tuple[dict[str, Any], ...]:
        return self._globals, self._locals, self._around, self.local_types

    def _evaluate(self, annotation: Any, names: dict[str, Any]) -> Any:
        evaluated = self._hint(annotation, names)
        referring = _with_references(evaluated)
        return evaluated if referring is evaluated else self._hint(referring, names)

    def _hint(self, annotation: Any, names: dict[str, Any]) -> Any:
        # get_type_hints is the only public evaluator that also handles text inside List["Item"].
        holder = SimpleNamespace(__annotations__={"it": annotation})
        return typing.get_type_hints(holder, self._globals, names, include_extras=True)["it"]


def _holds_classes(annotation: Any) -> bool:
    """Return True for ``list[str]`` and similar types."""
    return type(annotation) is GenericAlias and all(type(arg) is type for arg in annotation.__args__)


def _with_references(annotation: Any) -> Any:
    """Wrap texts such as ``list["Item"]`` as ForwardRef: Python 3.10 does not resolve them."""
    if sys.version_info >= (3, 11) or not isinstance(annotation, GenericAlias):
        return annotation
    args = typing.get_args(annotation)
    better = tuple(ForwardRef(arg) if isinstance(arg, str) else _with_references(arg) for arg in args)
    origin: Any = typing.get_origin(annotation)
    return annotation if better == args else GenericAlias(origin, better)


def _innermost(function: Any) -> Any:
    """Return the function object that owns the code and globals of the annotations."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if inspect.isclass(function):
        return function.__init__
    if not inspect.isroutine(function):
        function = inspect.unwrap(type(function).__call__)
    return getattr(function, "__func__", function)


def _closure(function: Any) -> dict[str, Any]:
    names = {t.__name__: t for t in getattr(function, "__type_params__", ())}
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or cells is None:
        return names
    # An unassigned cell has no contents; reading it raises ValueError.
    filled = {name: cell for name, cell in zip(code.co_freevars, cells, strict=True) if cell != CellType()}
    return names | {name: cell.cell_contents for name, cell in filled.items()}


def _surroundings(function: Any, inner: Any) -> dict[str, Any]:
    """Return names of a method's class and of the running functions in which `inner` was defined."""
    owner = getattr(function, "__self__", None)
    names: dict[str, Any] = {}
    if owner is not None:
        names = dict(vars(owner if inspect.isclass(owner) else type(owner)))
    enclosing = set(getattr(inner, "__qualname__", "").split(".<locals>")[:-1])
    if not enclosing:
        return names
    scopes = {part.rpartition(".")[2] for part in enclosing}
    for frame in _callers():
        if frame.f_code.co_name in scopes and frame.f_globals is getattr(inner, "__globals__", None):
            names = {**frame.f_locals, **names}
    return names


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


# -- parse docstrings into a function's description and the descriptions of its parameters ---------------
# Google, NumPy and Sphinx (reST) styles, also mixed, with ASCII or full-width colons. Sections about
# results, errors and examples are omitted. Unrecognized text stays prose.


class Docstring(NamedTuple):
    """A parsed docstring.

    Args:
        description: Summary and extended description, without the sections.
        params: Description of each parameter; names without leading stars.
    """

    description: str
    params: Mapping[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Parse a docstring. Never raises: a malformed docstring must not break a tool.

    Args:
        text: The docstring, indented or not, or None.
    """
    return _parsed(str(text or ""))  # a `str` subclass may not be hashable


@lru_cache(maxsize=1024)  # a service may create its agent, with the same functions, per request
def _parsed(text: str) -> Docstring:
    return _DocstringReader(inspect.cleandoc(text).splitlines()).read()


class _DocstringReader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._prose: list[str] = []
        self._params: dict[str, str] = {}

    def read(self) -> Docstring:
        while self._at < len(self._lines):
            if not (self._sphinx() or self._numpy() or self._google()):
                self._prose.append(self._lines[self._at].rstrip())
                self._at += 1
        description = re.sub(r"\n{3,}", "\n\n", "\n".join(self._prose)).strip()
        return Docstring(description, MappingProxyType(self._params))

    def _sphinx(self) -> bool:
        line = self._lines[self._at]
        text = line.strip()
        match = _SPHINX.match(text) if text.startswith(":") else None
        if match is None:
            return False
        self._at += 1
        body = [match["text"], *self._deeper_than(_indent(line))]
        subject = (match["subject"] or "").split()
        if match["kind"] in _SPHINX_PARAMETERS and subject:
            self._add(subject[-1], body)
        return True

    def _numpy(self) -> bool:
        title = self._lines[self._at].strip().lower()
        if title not in _SECTIONS or not self._underlined(self._at):
            return False
        margin = _indent(self._lines[self._at])
        self._at += 2
        body = []
        while self._at < len(self._lines) and not self._underlined(self._at):
            body.append(self._lines[self._at])
            self._at += 1
        if title in _PARAMETERS:
            self._numpy_items(body, margin)
        return True

    def _numpy_items(self, body: list[str], margin: int) -> None:
        names: list[str] = []
        items: dict[str, list[str]] = {}
        for line in body:
            match = _NUMPY_NAMES.match(line.strip()) if _indent(line) <= margin else None
            if match:
                names = match[1].split(",")
                items.update({name: [] for name in names})
            else:
                for name in names:
                    items[name].append(line)
        for name, lines in items.items():
            self._add(name, lines)

    def _google(self) -> bool:
        line = self._lines[self._at]
        title = line.strip().lower()
        if title[-1:] not in _COLONS or title[:-1].strip() not in _SECTIONS:
            return False
        self._at += 1
        body = self._deeper_than(_indent(line))
        if title[:-1].strip() in _PARAMETERS:
            self._google_items(body)
        return True

    def _google_items(self, body: list[str]) -> None:
        indents = [_indent(line) for line in body]
        margin = min(indents, default=0)
        name, items = "", dict[str, list[str]]()
        for line, indent in zip(body, indents, strict=True):
            item = _google_item(line.strip()) if indent == margin else None
            if item:
                name, first = item
                items[name] = [first]
            elif name:
                items[name].append(line)
        for key, lines in items.items():
            self._add(key, lines)

    def _deeper_than(self, margin: int) -> list[str]:
        """Consume the lines of the item at `margin`: blank and deeper ones."""
        start = self._at
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and _indent(line) <= margin:
                break
            self._at += 1
        return self._lines[start : self._at]

    def _underlined(self, at: int) -> bool:
        following = self._lines[at + 1 : at + 2]
        return bool(self._lines[at].strip() and following and _UNDERLINE.match(following[0]))

    def _add(self, name: str, lines: list[str]) -> None:
        name, text = name.strip().lstrip("\\*"), _joined(lines)
        if name and text:
            self._params[name] = text


def _indent(line: str) -> int:
    text = line.lstrip()
    return len(line) - len(text) if text else 10_000


def _google_item(line: str) -> tuple[str, str] | None:
    """Split ``name: text`` or ``name (type): text``, where the type may contain brackets and colons."""
    match = _NAME.match(line)
    if match is None:
        return None
    rest = line[match.end() :]
    if rest[:1] in {"(", "（"}:
        rest = rest[_closing(rest) :].lstrip()
    return (match[1], rest[1:]) if rest and rest[0] in _COLONS else None


def _closing(text: str) -> int:
    """Return the index after the bracket that closes the first one."""
    depth = 0
    for index, character in enumerate(text):
        depth += _BRACKETS.get(character, 0)
        if depth == 0:
            return index + 1
    return len(text)


def _joined(lines: list[str]) -> str:
    """Undo the wrapping: one line per paragraph or bullet."""
    result = ""
    gap = ""
    for line in (line.strip() for line in lines):
        if not line:
            gap = "\n\n" if result else ""
            continue
        if result:
            gap = gap or ("\n" if _BULLET.match(line) else " ")
        result, gap = result + gap + line, ""
    return result
