"""The shape of the package: who may import whom, and what an import may cost."""

from __future__ import annotations

import ast
import configparser
import importlib
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from benchmarks.shape import statements

import pure_agent_loop
from pure_agent_loop.testing import ScriptedLLM

ROOT = Path(pure_agent_loop.__file__).parent
PACKAGE = "pure_agent_loop"

# A module imports only from its own layer or one above it in this list. docs/architecture.md says why.
LAYERS = [
    (
        "vocabulary",
        """
        support.failures support.secrets llm.tool_modes llm.http llm.anthropic llm.gemini llm.responses
        kernel schema
        support.front_matter support.lazy support.disk support.folders support.locking support _version errors
        support.parsing support.text support.install support.abilities stop_reasons schema.forms
        support.terminal prompts
        support.clock cancel events inbox kernel.journal output support.threads support.numbers
        support.account support.explained parts hooks
        tool_context media llm llm.message_types llm.values support.secrets.redaction
        support.secrets.secret_shapes
        support.secrets.secret_keys llm.addresses support.child support.typed support.language
        prompts.values prompts.english prompts.chinese prompts.frames
        support.images support.globs support.formulas support.prose support.secrets.decoded support.variables
         support.prometheus support.repository support.control support.screen support.quoted_paths
        support.inflate support.checks support.bounded
        """,
    ),
    (
        "policies",
        """
        limits budget retry kernel.doom permissions guard renderer llm.profiles
        llm.anthropic.families
        """,
    ),
    (
        "ports",
        """
        llm.bounds llm.key_file
        llm.calls llm.response llm.wire llm.completions llm.failures llm.arguments llm.types llm.base
        llm.waits llm.tool_modes.recover
        llm.tool_modes.forms llm.tool_modes.react llm.tool_modes.json_action
        llm.tool_modes.client llm.tool_modes.choose llm.tool_modes.typed_answers
        output.form output.json_text output.wanted schema.build schema.titles llm.tool_modes.examples
        llm.tool_modes.fill schema.described schema.mended schema.plain schema.tidy llm.extra
        llm.histories
        llm.foreign llm.messages llm.tokens tool toolsets schema.signature schema.problems llm.adapt
        llm.control_tokens llm.property_names llm.lessons kernel.long_results schema.outcome schema.calling
        schema.docstrings schema.typed_dicts
        kernel.run_tools llm.anthropic.request llm.anthropic.stream
        llm.gemini.request llm.gemini.stream llm.protocol_reader llm.responses.request llm.responses.stream
        llm.prices llm.options llm.cache_marks
        llm.tool_modes.positions llm.tool_modes.refusals llm.tool_modes.tool_choice
        """,
    ),
    (
        "kernel.state",
        """
        kernel.observers kernel.prefix kernel.origins
        kernel.permission_ledger kernel.tool_ledger kernel.state kernel.kit
        kernel.request
        """,
    ),
    (
        "actors",
        """
        kernel.model_call kernel.step kernel.contexts kernel.guarding kernel.gate
        compaction kernel.bind kernel.calls
        kernel.checks kernel.rule_checks kernel.results kernel.redacting kernel.answer_parts kernel.answers
        """,
    ),
    (
        "kernel.loop",
        """
        kernel.loop
        """,
    ),
    (
        "facades",
        """
        result runs runs.run support.portal runs.options runs.stream runs.tracing conversation explain
        runs.settings
        runs.together runs.current_run runs.handoff agent_options agent ai_client loop
        llm.http.bodies llm.http.plain llm.http.httpx llm.http.choice
        llm.http.aio llm.http.connections llm.openai_client llm.protocol_client
        llm.http_client llm.learning
        llm.anthropic.client llm.anthropic.clouds llm.gemini.client llm.responses.client llm.fallback local
        runs.choose sessions session subagents.words subagents.definitions subagents.child
        subagents.tasks subagents.run_tasks subagents.places subagents.agent_tool
        """,
    ),
    (
        "batteries",
        """
        toolbox snapshots audit assistant subagents subagents.manager durable testing evaluation
         doctor server mcp acp otel ray restate
        """,
    ),
    (
        "surfaces",
        """
        cli __main__ __init__
        """,
    ),
]
WHOLE_PACKAGES = {
    "toolsets",
    "audit",
    "compaction",
    "local",
    "toolbox",
    "testing",
    "evaluation",
    "doctor",
    "sessions",
    "snapshots",
    "assistant",
    "durable",
    "restate",
    "server",
    "mcp",
    "acp",
    "otel",
    "ray",
    "cli",
}  # they stand in one layer each
ORDER = list(dict.fromkeys(layer for layer, _ in LAYERS))
LAYER_OF = {name: ORDER.index(layer) for layer, names in LAYERS for name in names.split()}


PUBLIC = [
    "AIClient",
    "AfterToolHook",
    "Agent",
    "AgentConfig",
    "AgentLoop",
    "AgentMode",
    "AgentOptions",
    "AgentResult",
    "AlreadyAnsweredError",
    "AnthropicClient",
    "AnyEvent",
    "AskFunction",
    "BaseLLMClient",
    "BedrockClient",
    "BeforeTool",
    "BeforeToolHook",
    "Behavior",
    "Budget",
    "CancelToken",
    "ChatModel",
    "ConfigError",
    "ContextBuilder",
    "Conversation",
    "Delta",
    "ErrorKind",
    "Event",
    "EventType",
    "Explanation",
    "Fallback",
    "File",
    "GeminiClient",
    "GuardedCall",
    "Handoff",
    "HistoryError",
    "HookContext",
    "Hooks",
    "Image",
    "ImageError",
    "Inbox",
    "Journal",
    "JsonLinesRenderer",
    "Judge",
    "KeyFile",
    "LLMError",
    "LLMResponse",
    "Language",
    "LimitChecker",
    "LimitExceededError",
    "Limiter",
    "LimitResult",
    "LoopLimits",
    "MediaItem",
    "MemoryJournal",
    "MemoryStore",
    "Message",
    "MissingExtraError",
    "ModelSettings",
    "OpenAIClient",
    "Origin",
    "Origins",
    "Part",
    "PartState",
    "PartTransitionError",
    "PartType",
    "Permission",
    "PermissionContext",
    "PermissionFunction",
    "PermissionMode",
    "PermissionRequest",
    "PermissionRules",
    "PersonaConfig",
    "PlainRenderer",
    "Price",
    "Profile",
    "Prompts",
    "PureAgentLoopError",
    "QueryState",
    "ReactLoop",
    "Renderer",
    "ReadText",
    "Retry",
    "RetryAttempt",
    "ResponsesClient",
    "RetryConfig",
    "RetryHandler",
    "RunInterrupted",
    "RichRenderer",
    "RunContext",
    "RunOptions",
    "SendOptions",
    "SessionManager",
    "SkillsLoader",
    "StopHook",
    "StopReason",
    "StreamingClient",
    "TaskState",
    "ThinkingLevel",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolExecutionError",
    "ToolLike",
    "ToolMode",
    "ToolRegistry",
    "Toolset",
    "Verdict",
    "VertexClient",
    "__version__",
    "current_call",
    "prompts_for",
    "provenance",
    "react_prompt",
    "tool",
]

# Module paths that callers import from, with names that they define.
CONTRACT = {
    "agent": "Agent AgentResult",
    "tool": "tool Tool ToolRegistry",
    "events": "Event EventType",
    "renderer": "Renderer",
    "limits": "LoopLimits LimitChecker LimitResult",
    "retry": "RetryConfig RetryHandler",
    "errors": "PureAgentLoopError ToolExecutionError LLMError LimitExceededError",
    "loop": "ReactLoop",
    "session": "SessionManager",
    "llm.base": "BaseLLMClient",
    "llm.types": "LLMResponse ToolCall TokenUsage",
    "llm.openai_client": "OpenAIClient",
}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name inside it; a package stands for its `__init__`."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] == "__init__" and len(parts) > 1:
            parts.pop()
        found[".".join(parts)] = path
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def imports_of(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of the package that a file imports, at its top or inside a function, for types or for real."""
    return set(_imports(tree_of(path), known))


def _imports(tree: ast.AST, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.split(".")[0] == PACKAGE:
                yield _module(name.removeprefix(PACKAGE).lstrip("."), known)


def _module(name: str, known: dict[str, Path]) -> str:
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or "__init__"


@cache
def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: imports_of(path, known) - {name} for name, path in known.items()}


def layer_of(module: str) -> int:
    package = module.partition(".")[0]
    known = package if package in WHOLE_PACKAGES else module
    if known.startswith(("prompts.english.", "prompts.chinese.")):
        known = "prompts"  # the tables of the catalogue
    assert known in LAYER_OF, f"{module} stands in no layer: add it to LAYERS"
    return LAYER_OF[known]


def test_the_import_graph_has_no_cycle():
    edges, finished, path = graph(), set(), []

    def visit(module: str) -> None:
        assert module not in path, f"import cycle: {' -> '.join([*path[path.index(module) :], module])}"
        if module in finished:
            return
        path.append(module)
        for target in sorted(edges[module]):
            visit(target)
        path.pop()
        finished.add(module)

    for module in sorted(edges):
        visit(module)


def test_imports_go_one_way():
    wrong = [
        f"{module} imports {target}"
        for module, targets in graph().items()
        for target in targets
        if layer_of(target) > layer_of(module)
    ]
    assert wrong == []


# The wall: `cli` and `acp` are the application, everything else is the library it is built on.
APPLICATION = {"cli", "acp"}
# Small mechanisms that the application shares with the library.
SUPPORT = {
    "support.child",
    "support.clock",
    "support.control",
    "support.explained",
    "support.folders",
    "support.front_matter",
    "support.install",
    "support.language",
    "support.lazy",
    "support.numbers",
    "support.parsing",
    "support.portal",
    "support.prose",
    "support.quoted_paths",
    "support.secrets.secret_shapes",
    "support.terminal",
    "support.text",
    "support.threads",
    "support.variables",
}
# Imports of the application that reach past what the library exports, by module. The list may only shrink:
# export the name from its package under a good name, and take it out here.
THROUGH_THE_WALL: dict[str, str] = {
    "kernel.kit": "Kit compact_now",
    "kernel.rule_checks": "check_rules",
    "llm.tokens": "estimate_message estimate_tokens",
    "schema.calling": "checked_in_run",
    "sessions.stores.file_names": "file_name",
    "snapshots.ignore": "Rules is_left_out",
    "snapshots.report": "unified",
    "subagents.definitions": "in_language",
    "toolbox.complaints": "shown",
    "toolbox.files.replacing": "require_replaceable",
    "toolbox.files.folder": "FolderHandle unlinked_folder",
    "toolbox.sandbox.process": "Finished",
    "toolbox.shell.syntax": "read_line simple_commands",
}


def in_application(module: str) -> bool:
    return module.partition(".")[0] in APPLICATION


def test_the_library_never_imports_the_application():
    wrong = [
        f"{module} imports {target}"
        for module, targets in graph().items()
        for target in targets
        if module != "__main__" and not in_application(module) and in_application(target)
    ]
    assert wrong == []


def documented_modules() -> set[str]:
    """The module paths that the docs import from, and those of the contract."""
    base = Path(__file__).parents[1]
    texts = [path.read_text(encoding="utf-8") for path in [base / "README.md", *base.glob("docs/**/*.md")]]
    return {*CONTRACT, *re.findall(rf"from {PACKAGE}\.([\w.]+) import", "".join(texts))}


def exports_of(path: Path) -> list[str]:
    for node in tree_of(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def imports_past_the_exports() -> dict[str, str]:
    """What the application imports from inside the library: names by module."""
    known, open_modules = modules(), documented_modules() | SUPPORT
    inside: dict[str, set[str]] = {}
    for path in (path for module, path in known.items() if in_application(module)):
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] != PACKAGE:
                continue
            for name in (alias.name for alias in node.names):
                package = known[_module((node.module or "").removeprefix(PACKAGE).lstrip("."), known)]
                module = _module(f"{node.module}.{name}".removeprefix(PACKAGE).lstrip("."), known)
                is_open = known[module].parent == ROOT or module in open_modules or in_application(module)
                if not is_open and name not in exports_of(package):
                    inside.setdefault(module, set()).add(name)
    return {module: " ".join(sorted(names)) for module, names in sorted(inside.items())}


def test_application_imports_only_exports():
    assert imports_past_the_exports() == THROUGH_THE_WALL


def test_private_attributes_of_an_agent_stay_private():
    """Other rooms use `Agent.config`, or `kit_of` to make a run of their own."""
    agent = pure_agent_loop.Agent(llm=ScriptedLLM([]))
    private = {name for name in dir(agent) if name.startswith("_") and not name.startswith("__")}
    assert {"_kit", "_builder"} <= private
    wrong = [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module, path in modules().items()
        if module != "agent" and module.partition(".")[0] not in {"runs", "kernel", "support"}
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr in private and ast.unparse(node.value) != "self"
    ]
    assert wrong == []


def test_every_layer_entry_exists():
    names = set(modules())
    assert [name for name in LAYER_OF if name not in names] == []


def test_importing_the_package_loads_no_heavy_dependency():
    heavy = {"openai", "pydantic", "pydantic_core", "rich", "xllamacpp", "httpx", "httpx2"}
    code = f"import sys, pure_agent_loop; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


_CODES = r"(: *[A-Z]+[0-9]+(, *[A-Z]+[0-9]+)*)?"
SUPPRESSION = re.compile(
    rf"#\s*(ruff: *)?(noqa{_CODES}|(type|pyright|mypy): *ignore(\[[^]]*\])?|pragma: no \w+)"
)


def without_reason(path: Path) -> list[int]:
    """The lines whose suppression is not followed by a word about it."""
    if not SUPPRESSION.search(path.read_text(encoding="utf-8")):
        return []
    with path.open("rb") as file:
        comments = [each for each in tokenize.tokenize(file.readline) if each.type == tokenize.COMMENT]
    return [
        each.start[0]
        for each in comments
        if SUPPRESSION.search(each.string) and not re.search(r"\w", SUPPRESSION.sub("", each.string))
    ]


# Ceilings that only fall: `Any` per thousand lines of a room, and `type: ignore` in all of `src`.
MAX_ANY = {"llm": 16, "kernel": 20, "compaction": 4}
MAX_TYPE_IGNORES = 22


def tokens_of(path: Path) -> Iterator[tokenize.TokenInfo]:
    with path.open("rb") as file:
        yield from tokenize.tokenize(file.readline)


@pytest.mark.parametrize("room", MAX_ANY)
def test_a_room_is_typed(room):
    paths = list((ROOT / room).rglob("*.py"))
    untyped = sum(token.string == "Any" for path in paths for token in tokens_of(path))
    lines = sum(len(path.read_bytes().splitlines()) for path in paths)
    assert untyped / lines * 1000 <= MAX_ANY[room]


def test_type_ignores_stay_few():
    texts = (path.read_text(encoding="utf-8") for path in modules().values())
    assert sum(text.count("# type: ignore") for text in texts) <= MAX_TYPE_IGNORES


def test_a_suppression_carries_its_reason():
    base = Path(__file__).parents[1]
    paths = [path for name in ("src", "tests", "examples") for path in sorted((base / name).rglob("*.py"))]
    assert len(paths) > 500
    assert {str(path): lines for path in paths if (lines := without_reason(path))} == {}


def test_a_module_at_the_root_defines_a_public_name():
    """Everything else has a room named after its matter."""
    own = {"__init__", "__main__", "_version"}
    at_root = {name: path for name, path in modules().items() if path.parent == ROOT and name not in own}
    assert {
        name for name, path in at_root.items() if not definitions_of(path) & set(pure_agent_loop.__all__)
    } == set()


def definitions_of(path: Path) -> set[str]:
    """What a module itself defines at its top: classes, functions and assigned names, not imported ones."""
    found: set[str] = set()
    for node in tree_of(path).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id for each in targets if isinstance(each, ast.Name)}
    return found


def statements_of_rooms() -> Counter[str]:
    """Count statements by room, as `python -m benchmarks.shape` does; the modules at the root are `.`."""
    rooms: Counter[str] = Counter()
    for path in modules().values():
        first, *below = path.relative_to(ROOT).parts
        rooms[first if below else "."] += statements(tree_of(path))
    return rooms


def test_a_class_name_is_unique():
    places: dict[str, list[str]] = {}
    for module, path in modules().items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{module}:{node.lineno}")
    assert len(places) > 800
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_test_file_has_a_name_of_its_own():
    """Python imports a file in a folder without `__init__.py` by its bare name: two would clash."""
    tests = Path(__file__).parent
    paths: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("*.py")):
        is_bare = not (path.parent / "__init__.py").exists() and path.name != "conftest.py"
        if is_bare and path.parent.name != "typing":  # only mypy reads these, by path
            paths.setdefault(path.name, []).append(str(path.relative_to(tests)))
    assert len(paths) > 200
    assert {name: where for name, where in paths.items() if len(where) > 1} == {}


def test_a_room_keeps_its_budget():
    budgets = configparser.ConfigParser()
    budgets.read(Path(__file__).parent / "budgets.toml", encoding="utf-8")
    over = {
        room: n
        for room, n in statements_of_rooms().items()
        if n > budgets.getint("statements", room, fallback=0)
    }
    assert over == {}


def test_the_kernel_reads_in_one_screen():
    tree = ast.parse((ROOT / "kernel" / "loop.py").read_text(encoding="utf-8"))
    loop = next(n for n in tree.body if isinstance(n, ast.AsyncFunctionDef) and n.name == "run_loop")
    assert loop.end_lineno is not None
    assert loop.end_lineno - loop.lineno < 45


def test_public_names_are_the_documented_ones():
    assert sorted(pure_agent_loop.__all__) == sorted(PUBLIC)
    assert all(hasattr(pure_agent_loop, name) for name in PUBLIC)


def test_the_module_paths_of_the_contract_hold():
    for path, names in CONTRACT.items():
        module = importlib.import_module(f"{PACKAGE}.{path}")
        assert [name for name in names.split() if not hasattr(module, name)] == [], path


_PARSERS = ("json.loads", "json.load", "json.JSONDecoder")


def test_json_is_parsed_by_the_decoder_that_limits_its_depth():
    """Else a hundred thousand brackets raise an error that no handler of invalid JSON catches."""
    apart = {
        ROOT / "support/parsing.py",
        ROOT / "toolbox/sandbox/reaper.py",
    }  # the latter runs without the package
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in modules().values()
        if path not in apart and ROOT / "testing" not in path.parents
        for line in _lines_of_other_parsers(tree_of(path))
    ]
    assert not found


def _lines_of_other_parsers(tree: ast.AST) -> list[int]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    limited = {id(call.func) for call in calls if "cls" in {keyword.arg for keyword in call.keywords}}
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and id(node) not in limited)
    return [node.lineno for node in names if ast.unparse(node) in _PARSERS]
