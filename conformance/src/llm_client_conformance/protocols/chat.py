"""Chat-completions server with the rules of a vendor, which plays a script."""

from __future__ import annotations

from typing import Any

from llm_client_conformance.protocols.chat_answers import ChatWriting
from llm_client_conformance.protocols.chat_dialects import DIALECTS, ChatDialect
from llm_client_conformance.protocols.chat_rules import check_chat_request
from llm_client_conformance.scripted.completions import Writing
from llm_client_conformance.scripted.request import ServerRequest
from llm_client_conformance.scripted.server import ScriptedServer
from llm_client_conformance.values import ConfigError


class ChatServer(ScriptedServer):
    """Chat-completions server of a named vendor, on loopback, that plays a script; see `ScriptedServer`.

    The `base_url` contains the vendor's host name, so that clients which look for that name recognize the
    vendor.

    Args:
        script: See `ScriptedServer`.
        dialect: ``deepseek``, ``kimi``, ``qwen``, ``glm``, ``mistral``, ``openrouter``, ``gemini``, or a
            custom `ChatDialect`.
        options: Further arguments of `ScriptedServer`.

    Raises:
        ConfigError: The dialect is unknown.

    Example:
        with ChatServer([answer(call("add", a=1, b=2), reasoning="hm"), "It is 3."]) as server:
            client = OpenAIClient("deepseek-v4", api_key="k", base_url=server.base_url)
    """

    def __init__(self, script: Any = None, dialect: str | ChatDialect = "deepseek", **options: Any) -> None:
        super().__init__(script, **options)
        if isinstance(dialect, str) and dialect not in DIALECTS:
            raise ConfigError(f"dialect={dialect!r} is unknown. Use one of: {', '.join(DIALECTS)}.")
        self.dialect = DIALECTS[dialect] if isinstance(dialect, str) else dialect
        self.ignored: list[str] = []
        """Fields of requests that had no effect, as the vendor ignores them."""
        self.signed: dict[str, str] = {}
        """Signatures that were sent, with the reasoning or the name of the tool that they belong to."""
        self._always_counts = self.dialect.counts_unasked

    @property
    def base_url(self) -> str:
        """Base URL for clients: this machine, and a path with the vendor's host name and ``/v1``."""
        return super().base_url.removesuffix("/v1") + f"/{self.dialect.host}/v1"

    def _new_writing(self, number: int, request: ServerRequest) -> Writing:
        return ChatWriting(
            number, str(request.options.get("model")), dialect=self.dialect, signed=self.signed
        )

    def _problems_of(self, request: ServerRequest) -> list[str]:
        self.ignored += [name for name in self.dialect.ignores if name in request.options]
        return check_chat_request(request.body, self.dialect, signed=self.signed)
