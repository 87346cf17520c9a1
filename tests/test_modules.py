"""The inside of a module: one matter, constants first, and docstrings that name what exists."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pure_agent_loop

ROOT = Path(pure_agent_loop.__file__).parent
RULER = re.compile(r"# -- .+? -*$")
CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*$")
BACKTICKED = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(?:\(\))?`(?!`)")
DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def sources() -> dict[str, str]:
    """Return the text of every module, by its path in the package."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(ROOT.rglob("*.py"))
    }


def sections_of(text: str) -> list[list[ast.stmt]]:
    """Return the statements of a module by section: a ruled line begins the next one."""
    begins = [number for number, line in enumerate(text.split("\n"), 1) if RULER.match(line)]
    sections: list[list[ast.stmt]] = [[] for _ in range(len(begins) + 1)]
    for node in ast.parse(text).body:
        sections[sum(line <= node.lineno for line in begins)].append(node)
    return sections


def groups_of_sections(text: str) -> int:
    """Count the groups of sections that share no function and no class: 1 is one matter."""
    sections = [
        section for section in sections_of(text) if any(isinstance(node, DEFINITION) for node in section)
    ]
    defined = [{node.name for node in section if isinstance(node, DEFINITION)} for section in sections]
    known = set[str]().union(*defined)
    named = [
        own | known & {node.id for top in section for node in ast.walk(top) if isinstance(node, ast.Name)}
        for section, own in zip(sections, defined, strict=True)
    ]
    groups: list[set[str]] = []
    for names in named:
        joined = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names] + [names.union(*joined)]
    return len(groups)


def test_a_module_has_one_matter():
    several = {path for path, text in sources().items() if "\n# -- " in text and groups_of_sections(text) > 1}
    assert several == set()


def test_unrelated_sections_are_counted():
    related = "# -- one ---\ndef f(): ...\n\n# -- two ---\ndef g(): f()\n"
    unrelated = "X = 1\n\n# -- one ---\ndef f(): return X\n\n# -- two ---\ndef g(): return X\n"
    assert groups_of_sections(related) == 1
    assert groups_of_sections(unrelated) == 2


def late_constants(text: str) -> Iterator[str]:
    """Find the constants after the first definition whose value uses no definition of the module."""
    late, own = False, set[str]()
    for node in ast.parse(text).body:
        if isinstance(node, DEFINITION):
            late = True
            own.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            value = node.value or ast.Constant(None)
            used = {name.id for name in ast.walk(value) if isinstance(name, ast.Name)}
            constant = names and all(map(CONSTANT.match, names))
            if own & used or (late and not constant):
                own |= set(names)
            elif late:
                yield names[0]


def test_constants_stand_above_the_first_definition():
    late = {path: names for path, text in sources().items() if (names := [*late_constants(text)])}
    assert late == {}


def test_a_late_constant_is_found():
    assert [*late_constants("def f(): ...\n\nX = 1\nY = f()\nZ = (X, Y)\n")] == ["X"]


def docstrings_of(tree: ast.Module) -> Iterator[str]:
    """Iterate over the docstrings of a module."""
    for node in ast.walk(tree):
        if isinstance(node, (*DEFINITION, ast.Module)):
            yield ast.get_docstring(node) or ""


def names_in(tree: ast.Module) -> Iterator[str]:
    """Iterate over what a module calls by name: variables, attributes, parameters, modules, plain strings."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name):
                yield from name.split(".")
            case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.-]+", text):
                yield text
            case _:
                pass


def test_names_in_docstrings_exist():
    trees = {path: ast.parse(text) for path, text in sources().items()}
    known = {*dir(builtins), *(part for path in trees for part in re.split(r"[/.]", path))}
    known |= {name for tree in trees.values() for name in names_in(tree)} | {"py"}
    gone = defaultdict(set)
    for path, tree in trees.items():
        for text in docstrings_of(tree):
            for name in BACKTICKED.findall(text):
                if not known.issuperset(filter(None, name.split("."))):
                    gone[path].add(name)
    assert dict(gone) == {}


def test_modules_listed_by_a_package_exist():
    rows = {
        (path.parent.relative_to(ROOT).as_posix(), name)
        for path in ROOT.rglob("__init__.py")
        for name in re.findall(
            r"^    ([a-z]\w*)/?  +\w", ast.get_docstring(ast.parse(path.read_bytes())) or "", re.M
        )
    }
    assert len(rows) > 50
    gone = {
        (folder, name)
        for folder, name in rows
        if not (ROOT / folder / f"{name}.py").exists() and not (ROOT / folder / name).is_dir()
    }
    assert gone == set()
