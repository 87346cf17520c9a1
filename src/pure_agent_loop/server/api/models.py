"""What is sent and answered, as types. They check requests, and the OpenAPI document is written from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_TEXT = 400_000
# Only data: a path would be read with the rights of the server, an address be fetched by it.
DATA_URL = (
    r"^data:(image/(png|jpeg|gif|webp)|application/pdf|audio/(wav|x-wav|mpeg|mp3));base64,[A-Za-z0-9+/]+=*$"
)

SessionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$", max_length=100)]
CallId = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(min_length=1, max_length=MOST_TEXT)]
AgentName = Annotated[str, Field(min_length=1, max_length=100)]
Media = Annotated[list[Annotated[str, Field(pattern=DATA_URL)]], Field(max_length=20)]
Count = Annotated[int, Field(ge=0)]


def _whole(given: Any) -> Any:
    return int(given) if isinstance(given, float) and given.is_integer() else given


# JSON Schema takes 3.0 for a whole number, and so do languages whose numbers are all floats.
WHOLE = BeforeValidator(_whole)
Step = Annotated[int, Field(ge=1, le=10_000_000), WHOLE]


class Body(BaseModel):
    """What is sent: nothing is guessed, and nothing that is not known is passed over."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    """What is answered."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def of(cls, value: object, **other: Any) -> Self:
        """What an object says of itself under the same names, and the rest.

        Args:
            value: The object.
            other: What it does not have, or has otherwise.
        """
        names = [name for name in cls.model_fields if name not in other]
        return cls(**{name: getattr(value, name) for name in names}, **other)


class Query(BaseModel):
    """What stands behind the question mark."""

    model_config = ConfigDict(extra="ignore")


class Login(Body):
    """A token, for a cookie."""

    token: Annotated[str, Field(min_length=1, max_length=500)]


class Message(Body):
    """A task for an agent."""

    text: Text
    agent: AgentName | None = None
    session: SessionId | None = None
    media: Media = []


class Steer(Body):
    """Something said to a run at work: it is read before its next step, or when it would have stopped."""

    text: Text
    when: Literal["step", "end"] = "step"


class Stop(Body):
    """A run is to stop."""

    reason: Annotated[str, Field(max_length=500)] = ""


class Verdict(Body):
    """The answer to a question."""

    call_id: CallId
    verdict: Literal["allow", "deny"]
    message: Annotated[str, Field(max_length=MOST_TEXT)] = ""
    always: bool = False


class Result(Body):
    """The result of a call that was made elsewhere."""

    call_id: CallId
    result: Annotated[str, Field(max_length=MOST_TEXT)]
    is_error: bool = False


class Fork(Body):
    """A new session that begins as this one did, up to a step; all of it without one."""

    step: Step | None = None


class Edit(Body):
    """Another message instead of the one behind a step, in a new session that begins as this one did."""

    step: Annotated[int, Field(ge=0, le=10_000_000), WHOLE]
    text: Text
    agent: AgentName | None = None
    media: Media = []


class Folder(Body):
    """The name of a folder; empty for none."""

    folder: Annotated[str, Field(max_length=60)]


class Undo(Body):
    """Files are to be what they were before the last step that changed some, or before any step."""

    step: Step | None = None
    redo: bool = False
    force: bool = False
    dry_run: bool = False


class Page(Query):
    """Which part of a list."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: Annotated[str, Field(max_length=300, description="`next` of the part before")] | None = None


class RunsQuery(Page):
    """Which runs."""

    state: Annotated[str, Field(max_length=30)] | None = None
    session: SessionId | None = None


class EntriesQuery(Query):
    """Which part of a session."""

    limit: Annotated[int, Field(ge=1, le=2_000)] = 500
    after: Annotated[int, Field(ge=0, le=10_000_000, description="how many entries are known")] = 0


class ExportQuery(Query):
    """In which form."""

    form: Literal["markdown", "html"] = "markdown"


class EventsQuery(Query):
    """From where on."""

    after: Annotated[
        int,
        Field(ge=0, le=1 << 53, description="the last number known, unless Last-Event-ID says it"),
    ] = 0


class Run(Answer):
    """A run, as it stands."""

    id: str
    session: str
    agent: str
    owner: str
    task: str
    state: str
    stop_reason: str
    content: str
    error: str
    steps: Count
    tokens: Count
    cost: float
    attempt: Count
    created: float
    updated: float
    first_event: Count


class Runs(Answer):
    """Some runs, the newest first."""

    runs: list[Run]
    next: str | None = None


class SessionSummary(Answer):
    """A session in a list."""

    id: str
    title: str
    created: float
    updated: float
    bytes: Count
    run: str | None = None
    state: str = ""
    folder: str = ""


class Sessions(Answer):
    """Some sessions, the one used last first."""

    sessions: list[SessionSummary]
    next: str | None = None


class SessionEntry(Answer):
    """One thing that happened in a session."""

    index: Count
    kind: str
    text: str
    time: float
    step: Count
    tool: str = ""
    failed: bool = False
    state: str = ""
    seconds: float | None = None


class Session(Answer):
    """What a session holds. `last_event` is what to ask for events behind."""

    id: str
    title: str
    model: str
    steps: Count
    stop_reason: str
    run: str | None
    state: str
    last_event: Count
    entries: list[SessionEntry]
    total: Count
    problems: list[str]


class Question(Answer):
    """Something that waits for a person."""

    session: str
    call_id: str
    tool: str
    args: dict[str, Any]
    commands: list[str] = []  # of a line for the shell, if there are several
    reason: str
    step: Count
    live: bool


class Questions(Answer):
    """What waits for a person."""

    questions: list[Question]


class Done(Answer):
    """It was done; `run` says where it goes on."""

    run: str | None = None


class Forked(Answer):
    """A new session."""

    session: str


class Undone(Answer):
    """Files that were changed back."""

    session: str
    steps: list[int]
    restored: list[str]
    removed: list[str]
    conflicts: list[dict[str, Any]]
    dry_run: bool


class ToolAbout(Answer):
    """A tool of an agent."""

    name: str
    description: str
    parameters: dict[str, Any]
    read_only: bool
    agents: list[str]


class Tools(Answer):
    """The tools of all agents."""

    tools: list[ToolAbout]


class ServerAbout(Answer):
    """An MCP server of an agent: `idle` before its first use, `ready` or `failed`; what went wrong last."""

    name: str
    place: str
    state: str
    error: str
    tools: Count


class Offered(Answer):
    """A resource by its address or a template of addresses, or a prompt with its arguments; what it is."""

    name: str
    about: str


class Begun(Body):
    """A prompt of an MCP server and the words behind it, the last of which is being written."""

    prompt: str
    words: list[str] = Field(min_length=1, max_length=50)


class Completions(Answer):
    """What a word may go on to."""

    values: list[str]


class ServerLook(ServerAbout):
    """An MCP server that was asked just now, and how long that took."""

    seconds: float
    resources: list[Offered]
    prompts: list[Offered]


class AgentAbout(Answer):
    """An agent."""

    name: str
    description: str
    model: str
    tools: list[str]
    permission_mode: str
    servers: list[ServerAbout]


class Agents(Answer):
    """The agents; the first one is asked if none is named."""

    agents: list[AgentAbout]


class Used(Answer):
    """What some runs used."""

    name: str
    runs: Count
    tokens: Count
    cost: float


class Usage(Answer):
    """What the runs that have ended used."""

    agents: list[Used]
    people: list[Used]
    tokens: Count
    cost: float


class Task(Answer):
    """A task that an agent gave to another one."""

    id: str
    agent: str
    state: str
    session: str
    own_session: str
    created: float
    ended: float
    last_tool: str
    calls: Count
    tokens: Count


class Tasks(Answer):
    """Tasks of subagents, the newest first."""

    tasks: list[Task]


class Me(Answer):
    """Who asks, and what this person may."""

    name: str
    roles: list[str]
    engine: bool
    version: str


class ProblemAbout(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
