"""Calls of the toolbox, of what watches it, of the assistant and of durable runs, as users write them."""

from __future__ import annotations

from pure_agent_loop import (
    Agent,
    AgentLoop,
    ContextBuilder,
    Inbox,
    MemoryStore,
    Permission,
    PersonaConfig,
    SessionManager,
    SkillsLoader,
    Tool,
)
from pure_agent_loop.audit import AuditLog, history, verify
from pure_agent_loop.durable import Engine, Schedule, submit, to_file
from pure_agent_loop.permissions import JudgeContext
from pure_agent_loop.snapshots import WorkspaceSnapshots
from pure_agent_loop.subagents import EXPLORE, VERIFY, AgentDefinition, SubagentManager
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.testing import ScriptedLLM
from pure_agent_loop.toolbox import (
    Fetch,
    Limits,
    Shell,
    ShellPolicy,
    TodoList,
    ask_user_tool,
    workspace_tools,
)


def judge(args: dict[str, object], context: JudgeContext) -> Permission | None:
    return None if context.attended else Permission("deny", "nobody is there")


def ask(question: str, options: list[str]) -> str:
    return options[0] if options else question


def deploy(target: str) -> str:
    """Deploy."""
    return target


def an_agent() -> Agent:
    policy = ShellPolicy(allow=["npm test"], deny=["rm *"], root="/project")
    behavior: str = policy.judge("ls").behavior
    shell = Shell(".", policy=policy, sandbox="auto", network=False, limits=Limits(memory=10**9))
    tools: list[Tool] = [
        *workspace_tools(".", shell=False),
        shell.tool(),
        Fetch(allow_hosts=["x.org"]).tool(),
    ]
    tools += [*TodoList().tools(), ask_user_tool(ask), Tool(deploy, judge=judge)]
    return Agent(
        llm=ScriptedLLM([behavior]),
        tools=tools,
        name="worker",
        audit=AuditLog(notes={"team": "a"}),
        snapshots=WorkspaceSnapshots("."),
        subagents=SubagentManager([EXPLORE, VERIFY, AgentDefinition("poet", "Writes.", "Write verse.")]),
        redact=Redactor(["a secret value"]),
    )


async def what_happened(snapshots: WorkspaceSnapshots) -> tuple[bool, list[str], int]:
    report = await snapshots.undo("session", to_step=2, dry_run=True)
    return verify().ok, [each.tool for each in history(tool="shell")], len(report.restored)


async def an_assistant(agent: Agent) -> str:
    builder = ContextBuilder(".", MemoryStore("."), SkillsLoader(), PersonaConfig("Ada", "helps"))
    loop = AgentLoop(ScriptedLLM(["hello"]), ".", [], builder, SessionManager())
    pieces: list[str] = [piece async for piece in loop.process_message("hi", "session", media=["a.png"])]
    agent.run("Look.", media=["a.png", b"..."])
    return "".join(pieces)


async def leave(agent: Agent, engine: Engine) -> str:
    run = agent.prepare("hi", session_id="chat", sessions=engine.sessions)
    handle = await run.detach(engine, "worker", to_file("a.md"), grace=None)
    return handle.status()


def durable(agent: Agent) -> str:
    with Engine("sqlite:///runs.db", agents={"worker": agent}) as engine:
        engine.schedules.add(
            Schedule("daily", "worker", "Sum up.", cron="0 9 * * *", deliver=to_file("a.md"))
        )
        first: str = engine.submit("worker", "go").run_id
        inbox = Inbox()
        run = agent.prepare("hi", session_id="chat", sessions=engine.sessions, inbox=inbox)
        engine.bring_notices("chat", inbox, run.prompts)
        second: str = run.wait_sync().content
    return first + second + submit(agent, "go").status()
