"""The embedded model: a local server behind the ordinary client, with a profile for its settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pure_agent_loop.budget import Price
from pure_agent_loop.llm.openai_client import OpenAIClient
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.local.engine import models
from pure_agent_loop.local.engine.joining import StartSettings, check_engine, join_server
from pure_agent_loop.local.engine.leases import Lease
from pure_agent_loop.local.engine.models import Progress, quiet

TINY_PARAMETERS = 300_000_000
# After a streamed response, the engine closes the connection without notice, so reusing it would fail.
ONE_REQUEST_A_CONNECTION = {"Connection": "close"}
EMBEDDED = Profile("Embedded model", likelihoods=True, takes=())
# Useful answers end within this number of tokens; a longer one is usually a model that repeats itself
# endlessly.
TINY = replace(EMBEDDED, tool_mode="json", able=False, max_output=120)


class EmbeddedClient(OpenAIClient):
    """Client of a model in a server process on this machine.

    Args:
        lease: Lease that keeps the server running; released by `aclose`, and at the end of the process.
        name: Name of the model.
        context_window: Context window of the server, in tokens.
    """

    price = Price(0.0, 0.0)  # free of charge

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
        """Close the connections and release the server."""
        await super().aclose()
        self._lease.release()


def open_local(
    model: str | None = None, on_progress: Progress = quiet, settings: StartSettings | None = None
) -> EmbeddedClient:
    """Return a client for a model on this machine; fetch its file if missing, and start or join its server.

    The call blocks until the model is loaded, so make it outside the event loop or in a thread.

    Args:
        model: A name in the table of `models`, the path of a ``.gguf`` file, or None for the default.
        on_progress: Function called with short progress messages.
        settings: Start settings of the server.

    Returns:
        A ready client. `EmbeddedClient.aclose`, or the end of the process, releases the server.

    Raises:
        ConfigError: The model or file is missing, or the file is not a GGUF file.
        MissingExtraError: The engine is not installed.
        LLMError: The download or the server failed.
    """
    lease, path = join_model(model, on_progress, settings)
    try:
        return EmbeddedClient(lease, path.stem, (settings or StartSettings()).context)
    except BaseException:
        lease.release()
        raise


def join_model(
    model: str | None = None, on_progress: Progress = quiet, settings: StartSettings | None = None
) -> tuple[Lease, Path]:
    """Fetch a model's file if missing, and start or join the server for it; see `open_local`.

    Returns:
        The lease of the server, which the caller must release, and the model's file.
    """
    source = model or models.default_model()
    if models.is_path(source):
        path = models.resolve(source)
    else:
        check_engine()  # check before the model is downloaded
        path = models.pull_model(source, on_progress)
    return join_server(path, on_progress, settings), path
