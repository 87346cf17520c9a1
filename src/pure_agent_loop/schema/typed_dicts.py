"""Replace each TypedDict in a type with the variant that pydantic requires before Python 3.12."""

from __future__ import annotations

import sys
import types
import typing
from typing import Annotated, Any, Union


def is_annotated(annotation: Any) -> bool:
    """Return True for ``Annotated[...]``."""
    return type(annotation) is not type and typing.get_origin(annotation) is Annotated


def annotated(inner: Any, metadata: tuple[Any, ...]) -> Any:
    """Return ``Annotated[inner, *metadata]``."""
    make: Any = Annotated
    parts = (inner, *metadata)
    return make[parts]


def portable(annotation: Any) -> Any:
    """Replace TypedDict with the variant of typing_extensions, which pydantic requires before 3.12."""
    return annotation if sys.version_info >= (3, 12) else _replaced(annotation, frozenset())


def _replaced(annotation: Any, inside: frozenset[Any]) -> Any:
    if typing.is_typeddict(annotation):
        is_typing = type(annotation).__module__ == "typing" and annotation not in inside
        return _typed_dict(annotation, inside | {annotation}) if is_typing else annotation
    if is_annotated(annotation):
        return annotated(_replaced(annotation.__origin__, inside), annotation.__metadata__)
    args = typing.get_args(annotation)
    better = tuple(_replaced(arg, inside) for arg in args)
    if all(new is old for new, old in zip(better, args, strict=True)):
        return annotation
    origin: Any = typing.get_origin(annotation)
    if origin is Union or origin is types.UnionType:
        return Union[better]  # noqa: UP007 - a tuple of any length
    return origin[better]


def _typed_dict(original: Any, inside: frozenset[Any]) -> Any:
    import typing_extensions as extensions

    marks = {extensions.Required: True, extensions.NotRequired: False}
    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(original, include_extras=True).items():
        marked = marks.get(typing.get_origin(hint))
        inner = hint if marked is None else typing.get_args(hint)[0]
        required = name in original.__required_keys__ if marked is None else marked
        mark: Any = extensions.Required if required else extensions.NotRequired
        fields[name] = mark[_replaced(inner, inside)]
    make: Any = extensions.TypedDict
    copy = make(original.__name__, fields)
    copy.__doc__ = original.__doc__
    return copy
