"""The public names stand in a file: a change of one is a change of that file, to be seen in a review.

    python -m tests.compatibility.test_public_names   # writes public_names.txt

Public is what a package lists in ``__all__``, and what README, docs and examples import.
"""

from __future__ import annotations

import difflib
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_origin

from tests.compatibility.contract import packages

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("public_names.txt")
IMPORT = re.compile(r"^ *from (pure_agent_loop[\w.]*) import (\([^)]*\)|[^\n]*)", re.M)
PLAIN = (str, int, float, bool, tuple, type(None))  # types of defaults that are shown
LONGEST = 40  # characters of a default


def public_names() -> list[tuple[str, str]]:
    """Each module with each of its public names."""
    modules = {name: importlib.import_module(name) for name in packages()}
    names = {(module, name) for module, found in modules.items() for name in getattr(found, "__all__", ())}
    pages = [*ROOT.glob("README*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.py")]
    for page in pages:
        for module, listed in IMPORT.findall(page.read_text(encoding="utf-8")):
            words = re.sub(r"#.*|[()]| as \w+", "", listed).split(",")
            names |= {(module, word.strip()) for word in words if word.strip()}
    return sorted(names)


def annotation(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    value = getattr(value, "__forward_arg__", value)
    return value if isinstance(value, str) else inspect.formatannotation(value)


def signature(value: Any) -> str:
    """Parameters with their annotations; of defaults those that are plain values."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    words, is_keyword = [], False
    for parameter in found.parameters.values():
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            words.append("*")
        is_keyword |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        of_type = annotation(parameter.annotation)
        default = parameter.default
        is_plain = isinstance(default, PLAIN) and not isinstance(default, enum.Enum)
        shown = repr(default) if is_plain and len(repr(default)) <= LONGEST else "..."
        ending = "" if default is parameter.empty else f"={shown}"
        words.append(f"{star}{parameter.name}{f': {of_type}' if of_type else ''}{ending}")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            words.append("/")
    words = [word for at, word in enumerate(words) if word != "/" or "/" not in words[at + 1 :]]
    returned = annotation(found.return_annotation)
    return f"({', '.join(words)}){f' -> {returned}' if returned else ''}"


def members(value: type, public: set[type]) -> Iterator[str]:
    """The public members of a class with their signatures, but for those of a base that is public itself."""
    if issubclass(value, enum.Enum):
        yield from (f"{name} = {member.value!r}" for name, member in value.__members__.items())
        return
    names = {
        name: member
        for base in reversed(value.__mro__)
        if base.__module__.startswith("pure_agent_loop") and (base is value or base not in public)
        for name, member in {**dict.fromkeys(inspect.get_annotations(base)), **vars(base)}.items()
        if not name.startswith("_")
    }
    for name, member in sorted(names.items()):
        function = getattr(member, "__func__", member)
        yield f"{name}{signature(function)}" if inspect.isfunction(function) else name


def lines() -> Iterator[str]:
    """A line a name, and an indented one a member of a class. A name of several modules is described once."""
    values = {
        (module, name): getattr(importlib.import_module(module), name) for module, name in public_names()
    }
    classes = {value for value in values.values() if inspect.isclass(value)}
    described: dict[type, str] = {}
    for (module, name), value in values.items():
        if get_origin(value) is Literal:
            yield f"{module}.{name} = {', '.join(map(repr, value.__args__))}"
        elif not inspect.isclass(value):
            yield f"{module}.{name}{signature(value) if inspect.isroutine(value) else ''}"
        elif value in described:
            yield f"{module}.{name} = {described[value]}"
        else:
            described[value] = f"{module}.{name}"
            bases = [base.__name__ for base in value.__mro__[1:-1] if base in classes]
            is_plain = issubclass(value, (enum.Enum, BaseException)) and "__init__" not in vars(value)
            kind = f"class of {bases[0]}" if bases else "class"
            yield f"{module}.{name}: {kind}{'' if is_plain else signature(value)}"
            yield from (f"    {member}" for member in members(value, classes))


def test_the_public_names_are_those_of_the_file():
    """A name that goes or changes needs a deprecation first; see CONTRIBUTING.md."""
    changed = difflib.unified_diff(
        FILE.read_text(encoding="utf-8").splitlines(), [*lines()], n=0, lineterm=""
    )
    assert "\n".join(changed) == "", "if meant: python -m tests.compatibility.test_public_names"


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
