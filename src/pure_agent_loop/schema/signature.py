"""Read a tool function: its name, its parameters and their annotations. This works without pydantic."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from types import CellType, FrameType, GenericAlias, SimpleNamespace, UnionType
from typing import Any, ForwardRef, NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.tool_context import RunContext

_GUESSABLE = (bool, int, float, str, list, dict)
_BUILTINS = {kind.__name__: kind for kind in _GUESSABLE}
_CONTEXT_TEXT = lazy_pattern(r"(?:\w+\.)*RunContext\b")
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ToolParameter(NamedTuple):
    """Parameter that the model fills in.

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
        """True if a call must include the parameter."""
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
    """Return the name of a function, of the function in a ``partial``, or of a callable object's class."""
    if isinstance(function, functools.partial):
        return callable_name(function.func)
    name = getattr(function, "__name__", None)
    if isinstance(name, str):
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(function).__name__).lower()


def check_signature(function: Callable[..., Any]) -> ToolSignature:
    """Check that a function can be a tool: each parameter has a type and can be passed by name.

    The check is cheap enough to run when a function is decorated. Annotations that name classes of an
    enclosing function are resolved here, while that function is still running. Annotations that name later
    definitions of the module stay strings until the schema is built.

    Args:
        function: A function, bound method, ``partial`` or callable object. Arguments bound by a ``partial``
            are omitted, so the model neither sees nor sets them.

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
    """Return the deps type in a function's `RunContext` annotation; empty if the function needs no deps."""
    if not takes_context(function):
        return ""
    annotation = next(iter(inspect.signature(function).parameters.values())).annotation
    if isinstance(annotation, str):
        annotation, _ = _Scope(function, {}, look_around=True).try_resolve(annotation)
    # An annotation may stay unresolved if its names are imported under TYPE_CHECKING.
    if isinstance(annotation, str):
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
    if hasattr(deps_type, "__value__"):  # `type X = ...` creates an alias with a `__value__`
        return _takes_none(deps_type.__value__)
    origin = typing.get_origin(deps_type)
    if origin is typing.Annotated:
        return _takes_none(typing.get_args(deps_type)[0])
    return origin in (typing.Union, UnionType) and any(map(_takes_none, typing.get_args(deps_type)))


def _is_context(annotation: Any, function: Callable[..., Any]) -> bool:
    if isinstance(annotation, str):
        # Compare as a string, because `RunContext` may be imported under TYPE_CHECKING.
        if _CONTEXT_TEXT.match(annotation):
            return True
        annotation, _ = _Scope(function, {}, look_around=True).try_resolve(annotation)
    return _is_run_context(annotation)


def _is_run_context(annotation: Any) -> bool:
    return annotation is RunContext or (
        type(annotation) is not type and typing.get_origin(annotation) is RunContext
    )


def scope_of(function: Callable[..., Any] | None) -> _Scope:
    """Return the scope of a function's annotations; for None, of the classes in all callers' locals."""
    if function is not None:
        return _Scope(function, {}, look_around=True)
    frames = [frame.f_locals for frame in _callers()]
    kinds = {k: v for names in reversed(frames) for k, v in names.items() if isinstance(v, type)}
    return _Scope(scope_of, kinds)


def _refuse_unnamed(name: str, declared: list[inspect.Parameter]) -> None:
    if bad := [str(p).split(":")[0] for p in declared if p.kind in _VARIADIC]:
        raise ConfigError(
            f"Tool {name!r} takes {' and '.join(bad)}, which has no JSON Schema. Name every parameter "
            "(use a list or dict for open-ended input). Decorators of the function "
            "need functools.wraps."
        )
    if only := [p.name for p in declared if p.kind is inspect.Parameter.POSITIONAL_ONLY]:
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
    """Return the signature with annotations added, as an example."""
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
        # For a callable object, the docstring of `__call__` is more specific than that of the class.
        return inspect.getdoc(type(function).__call__) or inspect.getdoc(function) or ""
    own = function.__doc__  # still indented; the caller strips the indentation
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
        """Return the annotation, resolved if possible, and True if it was resolved."""
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
        # get_type_hints is the only public evaluator that also handles the string inside List["Item"].
        holder = SimpleNamespace(__annotations__={"it": annotation})
        return typing.get_type_hints(holder, self._globals, names, include_extras=True)["it"]


def _holds_classes(annotation: Any) -> bool:
    """Return True for ``list[str]`` and similar types."""
    return type(annotation) is GenericAlias and all(type(arg) is type for arg in annotation.__args__)


def _with_references(annotation: Any) -> Any:
    """Wrap strings in types such as ``list["Item"]`` as ForwardRef, because Python 3.10 does not."""
    if sys.version_info >= (3, 11) or not isinstance(annotation, GenericAlias):
        return annotation
    args = typing.get_args(annotation)
    better = tuple(ForwardRef(arg) if isinstance(arg, str) else _with_references(arg) for arg in args)
    origin: Any = typing.get_origin(annotation)
    return annotation if better == args else GenericAlias(origin, better)


def _innermost(function: Any) -> Any:
    """Return the function whose code and globals the annotations belong to."""
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
    """Return the names in a method's class and in the running functions in which `inner` was defined."""
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
