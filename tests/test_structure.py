"""The shape of the package: who may import whom, and what an import may cost."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pure_agent_loop

ROOT = Path(pure_agent_loop.__file__).parent
PACKAGE = "pure_agent_loop"

# A module imports only from its own layer or one above it in this list. docs/architecture.md says why.
LAYERS = [
    (
        "vocabulary",
        """
        support.secrets kernel.tools llm.tool_modes llm.http runs kernel schema support.front_matter
         support.lazy support.disk support.writer_lock support _version errors support.text support.abilities
         stop_reasons schema.forms support.terminal prompts support.clock cancel events inbox
         kernel.journal output
        support.threads support.paths parts hooks tool_context support.locking media
        support.shared_file llm llm.values support.secrets.redaction support.secrets.secret_shapes
        support.secrets.secret_keys support.secrets.secret_forms llm.addresses support.child support.numbers
        support.secrets.looks support.numbers support.typed support.language prompts.words
        prompts.values prompts.english prompts.chinese
        prompts.frames event_data support.images
        """,
    ),
    (
        "policies",
        """
        limits budget retry kernel.doom permissions renderer llm.profiles llm.arguments
        """,
    ),
    (
        "ports",
        """
        llm.think llm.sse llm.wire llm.body llm.calls llm.response llm.types llm.base
        llm.tool_modes.json_check llm.tool_modes.place llm.tool_modes.recover llm.tool_modes.react
        llm.tool_modes.json_action llm.tool_modes.client llm.tool_modes.ask llm.tool_modes.choose
        llm.tool_modes.refusals llm.tool_modes.typed_answer output.reading output.form
        output.typed output.wanted
        schema.context
        llm.tool_modes.chooser llm.tool_modes.examples llm.tool_modes.fill llm.tool_modes.native
        llm.tool_modes.tool_choice
        schema.examples schema.calling schema.described schema.given schema.plain
        llm.messages llm.tokens tool toolsets schema.build schema.signature schema.docstrings schema.tidy
        schema.problems llm.adapt llm.lessons kernel.tools.long_results kernel.tools.observers
        schema.words schema.outcome kernel.tools.run_tools
        """,
    ),
    (
        "kernel.state",
        """
        kernel.settings kernel.tools.ledger kernel.permission_ledger kernel.answer kernel.state kernel.kit
        kernel.request kernel.window
        """,
    ),
    (
        "actors",
        """
        kernel.typed_output
        kernel.redacting kernel.part_events kernel.tools.hook_calls kernel.tools.contexts kernel.tools.gate
        kernel.overflow compaction kernel.equip kernel.model_call kernel.tools.observer_calls
        kernel.tools.marking kernel.tools.tool_round kernel.tools.rules
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
        result runs.stream support.portal runs.options runs.run runs.start conversation explain
        runs.checks runs.fields runs.words runs.together runs.settings runs.live runs.handoff runs.tracing
        runs.ways runs.variants agent_options agent ai_client loop
        llm.http.errors llm.http.plain llm.http.pool
        llm.http.sdk llm.http.aio llm.http.direct llm.http.choice llm.openai_client local
        runs.choose sessions session
        subagents.words subagents.definitions subagents.rights subagents.tasks subagents.table
        subagents.places subagents.child subagents.run_tasks subagents.root
        subagents.agent_tool subagents.account
        """,
    ),
    (
        "batteries",
        """
        toolbox snapshots audit assistant subagents subagents.manager durable testing evaluation doctor server
        mcp acp otel
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
    "server",
    "mcp",
    "acp",
    "otel",
    "cli",
}  # they stand in one layer each
ORDER = list(dict.fromkeys(layer for layer, _ in LAYERS))
LAYER_OF = {name: ORDER.index(layer) for layer, names in LAYERS for name in names.split()}


PUBLIC = [
    "AIClient",
    "AfterToolHook",
    "Agent",
    "AgentLoop",
    "AgentMode",
    "AgentOptions",
    "AgentResult",
    "AnyEvent",
    "AskFunction",
    "BaseLLMClient",
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
    "File",
    "Handoff",
    "HistoryError",
    "HookContext",
    "Hooks",
    "Image",
    "ImageError",
    "Inbox",
    "JsonLinesRenderer",
    "Judge",
    "LLMError",
    "LLMResponse",
    "Language",
    "LimitChecker",
    "LimitExceededError",
    "LimitResult",
    "LoopLimits",
    "MediaItem",
    "MemoryStore",
    "Message",
    "MissingExtraError",
    "ModelSettings",
    "OpenAIClient",
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
    "Retry",
    "RetryAttempt",
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
    "__version__",
    "current_call",
    "prompts_for",
    "react_prompt",
    "tool",
]


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name inside it; a package stands for its `__init__`."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] == "__init__" and len(parts) > 1:
            parts.pop()
        found[".".join(parts)] = path
    return found


def imports_of(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of the package that a file imports, at its top or inside a function, for types or for real."""
    return set(_imports(ast.parse(path.read_text(encoding="utf-8")), known))


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


def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: imports_of(path, known) - {name} for name, path in known.items()}


def layer_of(module: str) -> int:
    package = module.partition(".")[0]
    known = package if package in WHOLE_PACKAGES else module
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


def test_every_layer_entry_exists():
    names = set(modules())
    assert [name for name in LAYER_OF if name not in names] == []


def test_importing_the_package_loads_no_heavy_dependency():
    heavy = {"openai", "pydantic", "pydantic_core", "rich", "xllamacpp", "httpx", "httpx2"}
    code = f"import sys, pure_agent_loop; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_file_is_too_long_to_read():
    long = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules().items()}
    assert {name: lines for name, lines in long.items() if lines > 420} == {}


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
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id for each in targets if isinstance(each, ast.Name)}
    return found


def test_a_room_can_be_taken_in_at_a_glance():
    rooms = Counter(path.parent for path in modules().values() if path.name != "__init__.py")
    del rooms[ROOT]  # it has the rule above
    assert {str(room.relative_to(ROOT)): count for room, count in rooms.items() if count > 18} == {}


def test_the_kernel_reads_in_one_screen():
    tree = ast.parse((ROOT / "kernel" / "loop.py").read_text(encoding="utf-8"))
    loop = next(n for n in tree.body if isinstance(n, ast.AsyncFunctionDef) and n.name == "run_loop")
    assert loop.end_lineno is not None
    assert loop.end_lineno - loop.lineno < 45


def test_public_names_are_the_documented_ones():
    assert sorted(pure_agent_loop.__all__) == sorted(PUBLIC)
    assert all(hasattr(pure_agent_loop, name) for name in PUBLIC)


def test_the_module_paths_of_the_contract_hold():
    import importlib

    contract = {
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
    for path, names in contract.items():
        module = importlib.import_module(f"{PACKAGE}.{path}")
        assert [name for name in names.split() if not hasattr(module, name)] == [], path
