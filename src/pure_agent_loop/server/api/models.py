"""Request and response bodies: they validate requests and define the schemas of the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from pure_agent_loop.sessions.links import MAX_LINK_DAYS, LinkFolder
from pure_agent_loop.sessions.store import MAX_ID, check_session_name

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_TEXT = 400_000
# Only data URLs: the server must not read paths or fetch URLs on behalf of clients.
DATA_URL = (
    r"^data:(image/(png|jpeg|gif|webp)|application/pdf|audio/(wav|x-wav|mpeg|mp3));base64,[A-Za-z0-9+/]+=*$"
)

# The schema is for the document only: `check_session_name` also accepts the longer names of repaired
# sessions.
_FIT = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$"
_SESSION_ID = {"type": "string", "minLength": 1, "maxLength": MAX_ID, "pattern": _FIT}
SessionId = Annotated[str, AfterValidator(check_session_name), WithJsonSchema(_SESSION_ID)]
CallId = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
ModelName = Annotated[str, Field(min_length=1, max_length=200)]
AgentName = Annotated[str, Field(min_length=1, max_length=100)]
Media = Annotated[list[Annotated[str, Field(pattern=DATA_URL)]], Field(max_length=20)]
Count = Annotated[int, Field(ge=0)]


def _to_int(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# JSON Schema accepts 3.0 as an integer, and languages that only have floats may send it.
INTEGER = BeforeValidator(_to_int)
Step = Annotated[int, Field(ge=1, le=10_000_000), INTEGER]


class Body(BaseModel):
    """A request body: types are strict and unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _rule(condition: dict[str, Any], consequence: dict[str, Any]) -> ConfigDict:
    """Return a configuration that adds a rule about several fields to a schema; the operation enforces it."""
    return ConfigDict(json_schema_extra={"if": condition, "then": consequence})


class ApiModel(BaseModel):
    """A response body."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def of(cls, value: object, **other: Any) -> Self:
        """Create a model from the attributes of an object that match the model's fields."""
        names = [name for name in cls.model_fields if name not in other]
        return cls(**{name: getattr(value, name) for name in names}, **other)


class Query(BaseModel):
    """Query parameters."""

    model_config = ConfigDict(extra="ignore")


class Login(Body):
    """A token to exchange for a cookie."""

    token: Annotated[str, Field(min_length=1, max_length=500)]


class Message(Body):
    """A task for an agent."""

    text: Text
    agent: AgentName | None = None
    session: SessionId | None = None
    media: Media = []
    model: ModelName | None = None


class Steer(Body):
    """A message to a running run, delivered before the run's next step or when the run would end."""

    text: Text
    when: Literal["step", "end"] = "step"


class Stop(Body):
    """A request to stop a run."""

    reason: Annotated[str, Field(max_length=500)] = ""


class VerdictBody(Body):
    """The answer to a question."""

    model_config = _rule(
        {"properties": {"verdict": {"const": "deny"}}},
        {"properties": {"always": {"const": False}, "similar": {"const": False}}},
    )

    call_id: CallId
    verdict: Literal["allow", "deny"]
    message: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    always: bool = False
    similar: bool = False


class Result(Body):
    """The result of a call executed elsewhere."""

    call_id: CallId
    result: Annotated[str, Field(max_length=MAX_TEXT)]
    is_error: bool = False


class Fork(Body):
    """A request to copy a session, up to a step if given; `files` also restores the files of that step."""

    model_config = _rule(
        {"properties": {"files": {"const": True}}, "required": ["files"]},
        {"properties": {"step": {"type": "integer"}}, "required": ["step"]},
    )

    step: Step | None = None
    files: bool = False


class Edit(Body):
    """A message that replaces the message after a step, in a copy of the session."""

    step: Annotated[int, Field(ge=0, le=10_000_000), INTEGER]
    text: Text
    agent: AgentName | None = None
    media: Media = []
    model: ModelName | None = None


class Title(Body):
    """The name of a session in the list; empty to show its first task."""

    title: Annotated[str, Field(max_length=200)]


class Pin(Body):
    """Pin or unpin a session in the list."""

    pinned: bool


class Folder(Body):
    """The name of a session's folder; empty for none."""

    folder: Annotated[str, Field(max_length=60)]


class Undo(Body):
    """A request to restore files as they were before a step, by default the last step that changed files."""

    step: Step | None = None
    redo: bool = False
    force: bool = False
    dry_run: bool = False


class PageQuery(Query):
    """A page of a list."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: Annotated[str, Field(max_length=300, description="`next` of the previous page")] | None = None


class SessionsQuery(PageQuery):
    """A search and page of sessions."""

    q: Annotated[str, Field(max_length=200, description="words of a title, a task or an answer")] = ""


class RunsQuery(PageQuery):
    """A filter and page of runs."""

    state: Annotated[str, Field(max_length=30)] | None = None
    session: SessionId | None = None


class EntriesQuery(Query):
    """A page of a session's entries."""

    limit: Annotated[int, Field(ge=1, le=2_000)] = 500
    after: Annotated[int, Field(ge=0, le=10_000_000, description="number of entries to skip")] = 0
    before: Annotated[
        int | None,
        Field(ge=0, le=10_000_000, description="the entries before this number instead, in whole turns"),
    ] = None


class StepQuery(Query):
    """A step of a session, counted from 1 over the whole session."""

    step: Annotated[int, Field(ge=1, le=10_000_000)]


class ExportQuery(Query):
    """The format of an export."""

    form: Literal["markdown", "html"] = "markdown"


class Share(Body):
    """A request for a link to a session, for a number of days."""

    days: Annotated[int, Field(ge=1, le=MAX_LINK_DAYS), INTEGER] = LinkFolder.DAYS


class EventsQuery(Query):
    """The start of an event stream."""

    after: Annotated[
        int,
        Field(ge=0, le=1 << 53, description="the last received number; Last-Event-ID takes precedence"),
    ] = 0


class RunBody(ApiModel):
    """The current state of a run."""

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
    cost: float | None
    attempt: Count
    created: float
    updated: float
    first_event: Count


class Runs(ApiModel):
    """A page of runs, newest first."""

    runs: list[RunBody]
    next: str | None = None


class SessionSummary(ApiModel):
    """A session in a list."""

    id: str
    title: str
    created: float
    updated: float
    bytes: Count
    run: str | None = None
    state: str = ""
    folder: str = ""
    pinned: bool = False
    versions: list[str] = Field([], description="sessions with other versions of this conversation")
    found: str = Field("", description="the text around the search result, if that is not in the title")


class Sessions(ApiModel):
    """A page of sessions, last used first."""

    sessions: list[SessionSummary]
    next: str | None = None


class SentFile(ApiModel):
    """An image or a file that a person sent. `number` is its number in the list of files."""

    number: Count
    media_type: str
    name: str
    bytes: Count


class SessionEntry(ApiModel):
    """An entry of a session, such as a message or a call."""

    index: Count
    kind: str
    text: str
    time: float
    step: Count
    tool: str = ""
    failed: bool = False
    state: str = ""
    seconds: float | None = None
    exit_code: int | None = None
    by: str = ""
    verdict: str = ""
    answered_at: float | None = None
    call_id: str = ""
    command: dict[str, Any] = {}
    said: str = Field("", description="the words with the answer to a question")
    media: list[SentFile] = Field([], description="what a person sent with a message")
    used: dict[str, Any] = Field({}, description="steps, tokens, cost and waiting time of a run that ended")
    unasked: bool = False
    title: str = ""


class Versions(ApiModel):
    """A message with several versions: its entry's number, the shown version, and each version's session."""

    index: Count
    at: Count
    sessions: list[str]


class SessionBody(ApiModel):
    """A session and a page of its entries. To continue, stream the session's events after `last_event`."""

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
    versions: list[Versions] = []


class LinkAbout(ApiModel):
    """A link to a session as it was at `created`; `id` identifies the link, but does not open it."""

    id: str
    title: str
    by: str
    created: float
    until: float


class NewLink(LinkAbout):
    """A new link. Only this response has its path, because the server keeps only a digest of it."""

    path: str


class Links(ApiModel):
    """A session's active links, newest first."""

    links: list[LinkAbout]


class Question(ApiModel):
    """A pending question."""

    session: str
    call_id: str
    tool: str
    title: str = Field("", description="the question in the words of the tool, if it has them")
    args: dict[str, Any]
    commands: list[str] = Field([], description="the commands of a shell line, if it has several")
    line: int | None = Field(
        None, description="line of the file where the passage that an edit replaces begins"
    )
    around: list[str] = Field(
        [], description="the text before and after that passage, with its line and three more on each side"
    )
    rules: list[str] = Field(
        [], description="further calls that an answer with `similar` allows; empty for only the same call"
    )
    origins: list[dict[str, Any]] = Field(
        [], description="in the mode `guard`: where each value comes from, the strange ones first"
    )
    reason: str
    step: Count
    live: bool
    asked_at: float | None
    agent: str
    owner: str = Field(description="who started the run")
    conversation: str = Field(description="the title of the session")


class QuestionsBody(ApiModel):
    """Pending questions."""

    questions: list[Question]


class Done(ApiModel):
    """The action succeeded. `run` is the affected run."""

    run: str | None = None


class UndoBody(ApiModel):
    """The result of an undo or redo."""

    session: str
    steps: list[int]
    restored: list[str]
    removed: list[str]
    conflicts: list[dict[str, Any]]
    dry_run: bool


class Forked(ApiModel):
    """A new session, and the files that were restored."""

    session: str
    files: UndoBody | None = None


class FileDifference(ApiModel):
    """How a file differs now from its state at a step. `diff` is empty without full visibility."""

    path: str
    kind: str
    diff: str
    added: Count
    removed: Count
    is_binary: bool


class StepFiles(ApiModel):
    """The files that a session changed after a step. `known` is false without snapshots."""

    session: str
    step: Count
    time: float
    known: bool
    changes: list[FileDifference]


class ChangedStep(ApiModel):
    """A step that changed files: when it began, and whether it was undone."""

    time: float
    is_undone: bool


class ChangedSteps(ApiModel):
    """Steps that changed files, in order."""

    changes: list[ChangedStep]


class ToolBody(ApiModel):
    """An agent's tool."""

    name: str
    description: str
    parameters: dict[str, Any]
    read_only: bool
    agents: list[str]


class Tools(ApiModel):
    """The tools of all agents."""

    tools: list[ToolBody]


class ServerAbout(ApiModel):
    """An agent's MCP server: its state (at first `idle`, then `ready` or `failed`) and its last error."""

    name: str
    place: str
    state: str
    error: str
    tools: Count


class Offered(ApiModel):
    """An MCP resource (URI or URI template) or prompt (with arguments), and its description."""

    name: str
    about: str


class PartialPrompt(Body):
    """An MCP server's prompt and its arguments so far; the last argument is to be completed."""

    prompt: str
    words: list[str] = Field(min_length=1, max_length=50)


class CompletionsBody(ApiModel):
    """Completions of an argument."""

    values: list[str]


class ServerCheck(ServerAbout):
    """An MCP server that was just contacted, and how many seconds that took."""

    seconds: float
    resources: list[Offered]
    prompts: list[Offered]


class AgentAbout(ApiModel):
    """An agent."""

    name: str
    description: str
    model: str
    models: list[str] = Field(description="models that a person may choose; the first is the agent's own")
    tools: list[str]
    permission_mode: str
    can_undo: bool = Field(description="whether changes to files can be undone from snapshots")
    servers: list[ServerAbout]
    starters: list[str] = Field(description="tasks that the page offers; those of the server if empty")


class Agents(ApiModel):
    """The agents, the default agent first. `starters`: tasks that the page offers."""

    agents: list[AgentAbout]
    starters: list[str]


class Used(ApiModel):
    """The summed usage of several runs."""

    name: str
    runs: Count
    tokens: Count
    cost: float


class Usage(ApiModel):
    """Usage of ended runs."""

    agents: list[Used]
    people: list[Used]
    tokens: Count
    cost: float


class Task(ApiModel):
    """A task of a subagent."""

    id: str
    agent: str
    state: str
    session: str
    own_session: str
    call_id: str = Field(description="the call of the parent that started the task")
    created: float
    ended: float
    last_tool: str
    calls: Count
    tokens: Count
    cost: float


class Tasks(ApiModel):
    """Tasks of subagents, newest first."""

    tasks: list[Task]


class SignedInUser(ApiModel):
    """The authenticated user and its roles."""

    name: str
    roles: list[str]
    engine: bool
    share: bool = Field(description="whether sessions may be shared by links")
    version: str


class ProblemAbout(BaseModel):
    """Problem details (RFC 9457). The last four fields describe the earlier answer to a question."""

    type: str
    title: str
    status: int
    detail: str
    call_id: str | None = None
    by: str | None = None
    answer: str | None = None
    answered_at: float | None = None
