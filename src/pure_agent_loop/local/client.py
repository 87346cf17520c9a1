"""The embedded model: one more server behind the ordinary client, with a profile that says what it needs."""

from __future__ import annotations

from dataclasses import replace

from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.local.engine import models
from pure_agent_loop.local.engine.fetch import Progress, quiet
from pure_agent_loop.local.engine.lease import Lease
from pure_agent_loop.local.engine.shared import ServerSettings, join_server

TINY_PARAMETERS = 300_000_000
# The engine closes a connection after a streamed answer without saying so; the next request on it would fail.
ONE_REQUEST_A_CONNECTION = {"Connection": "close"}
EMBEDDED = Profile("Embedded model", likelihoods=True, takes=())
# A model that goes on and on does so at once: what it has not said in so many tokens it does not say.
TINY = replace(EMBEDDED, tool_mode="json", able=False, max_output=120)


class EmbeddedClient(OpenAIClient):
    """A model in a server process of this machine.

    Args:
        lease: Keeps the server running; given back by `aclose`, and at the end of the process.
        name: What the model is called.
        context_window: Tokens of the window the server was started with.
    """

    def __init__(self, lease: Lease, name: str, context_window: int) -> None:
        state = lease.state
        self.is_tiny = state.parameters < TINY_PARAMETERS
        super().__init__(
            name,
            api_key=state.key,
            base_url=f"{state.url}/v1",
            profile=replace(TINY if self.is_tiny else EMBEDDED, window=context_window),
            default_headers=ONE_REQUEST_A_CONNECTION,
        )
        self.name = name
        self._lease = lease

    async def aclose(self) -> None:
        """Close the connections and let go of the server."""
        await super().aclose()
        self._lease.release()


def open_local(
    model: str | None = None, on_progress: Progress = quiet, settings: ServerSettings | None = None
) -> EmbeddedClient:
    """A client for a model on this machine: fetches the file if needed, starts or joins its server.

    Blocks until the model is loaded; call it outside the event loop, or in a thread.

    Args:
        model: A name of the table in `models`, the path of a ``.gguf`` file, or None for the default.
        on_progress: Called with short sentences meant for a person.
        settings: How to start the server.

    Returns:
        A client that is ready. `EmbeddedClient.aclose` lets go of the server; so does the end of the process.

    Raises:
        ConfigError: No such model or file, or it is no GGUF file.
        MissingExtraError: The engine is not installed.
        LLMError: The download or the server failed.
    """
    wanted = model or models.default_model()
    path = models.resolve(wanted) if models.is_path(wanted) else models.pull(wanted, on_progress)
    lease = join_server(path, on_progress, settings)
    try:
        return EmbeddedClient(lease, path.stem, (settings or ServerSettings()).context)
    except BaseException:
        lease.release()
        raise
