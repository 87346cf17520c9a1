"""Servers of Claude on Amazon Bedrock and Vertex AI: `MessagesServer` with a cloud's URLs and authentication.

Sources of the refusals: ``[A]`` the ``anthropic`` package 2.14.0, ``lib/bedrock`` and ``lib/vertex``, ``[B]``
the format of Amazon's event streams, as ``botocore`` 1.44 reads it.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from llm_client_conformance.protocols.aws import amazon_message, signature_of
from llm_client_conformance.protocols.messages import MessagesServer
from llm_client_conformance.protocols.messages_answers import MessagesWriting
from llm_client_conformance.protocols.messages_rules import check_messages_request, digest_of
from llm_client_conformance.protocols.models import OLD_VERSION
from llm_client_conformance.scripted.completions import Writing, to_json
from llm_client_conformance.scripted.request import ServerRequest

SIGNED = "signed"
_SCOPE = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/bedrock/aws4_request, "
    r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})"
)
# Names of exceptions in a stream, by type of error.
_EXCEPTIONS = {"rate_limit_error": "throttlingException", "invalid_request_error": "validationException"}


class _CloudServer(MessagesServer):
    version: ClassVar[str]  # `anthropic_version` in the body
    missing: ClassVar[tuple[str, ...]]  # fields of Anthropic's own API that the cloud rejects
    _form: ClassVar[re.Pattern[str]]  # pattern of paths: the model, then the action

    def _parts(self, request: ServerRequest) -> tuple[str, str]:
        match = self._form.fullmatch(request.path)
        return (urllib.parse.unquote(match[1]), match[2]) if match else ("", "")

    def _problems_of(self, request: ServerRequest) -> list[str]:
        if not isinstance(request.body, Mapping):
            return ["the body is not a JSON object"]
        body, (model, _) = dict(request.body), self._parts(request)
        problems = [] if model else [f"path {request.path!r} is unknown [A]"]
        if body.pop("anthropic_version", None) != self.version:
            problems.append(f"anthropic_version: {self.version!r} is required in the body [A]")
        if "model" in body:
            problems.append("model: extra inputs are not permitted; it is part of the path [A]")
        problems += [f"{name}: not available here [A]" for name in self.missing if name in body]
        betas = ",".join(body.pop("anthropic_beta", ())) or request.headers.get("anthropic-beta", "")
        headers = {"anthropic-version": OLD_VERSION, "anthropic-beta": betas}
        return problems + check_messages_request({**body, "model": model}, headers, issued=self.issued)

    def _other(self, *_: Any) -> Any:
        return None


class BedrockServer(_CloudServer):
    """Server of Amazon Bedrock's ``InvokeModel`` that plays a script; see `MessagesServer`.

    Streams are binary events.

    Each request must be signed with one of the keys, or contain one as a bearer token.

    Args:
        script: See `ScriptedServer`.
        keys: Secret keys by access key; bearer tokens under ``""``. None accepts all requests.
        region: Region for which requests must be signed.
        options: Further arguments of `ScriptedServer`.
    """

    version = "bedrock-2023-05-31"
    missing = ("cache_control", "container", "diagnostics", "mcp_servers")
    _path = ("/invoke", "/invoke-with-response-stream")
    _form = re.compile(r"/model/([^/]+)/(invoke|invoke-with-response-stream)")

    def __init__(
        self,
        script: Any = None,
        *,
        keys: Mapping[str, str] | None = None,
        region: str = "us-east-1",
        **options: Any,
    ) -> None:
        super().__init__(script, api_key=None if keys is None else SIGNED, **options)
        self.keys, self._region = keys or {}, region

    @property
    def base_url(self) -> str:
        """Base URL for clients."""
        return super().base_url.removesuffix("/v1")

    def _new_writing(self, number: int, request: ServerRequest) -> Writing:
        digest = digest_of(request.body, None) if isinstance(request.body, dict) else ""
        return AmazonWriting(number, self._parts(request)[0], issued=self.issued, digest=digest)

    def _problems_of(self, request: ServerRequest) -> list[str]:
        problems = super()._problems_of(request)
        if isinstance(request.body, Mapping) and "stream" in request.body:
            problems.append("stream: extra inputs are not permitted; it is part of the path [A]")
        if "anthropic-beta" in request.headers:
            problems.append("anthropic-beta: betas are part of the body [A]")
        return problems

    def _key_of(self, request: ServerRequest) -> str:
        given = request.headers.get("authorization", "")
        if given.startswith("Bearer "):
            return SIGNED if given.removeprefix("Bearer ") == self.keys.get("") else ""
        match = _SCOPE.fullmatch(given)
        secret = self.keys.get(match[1]) if match else None
        if match is None or not secret or match[3] != self._region:
            return ""
        names = match[4].split(";")
        is_whole = {"host", "content-type", "x-amz-date"} <= set(names)
        is_whole = is_whole and (
            "x-amz-security-token" in names or "x-amz-security-token" not in request.headers
        )
        return SIGNED if is_whole and match[5] == signature_of(request, names, secret, self._region) else ""


class VertexServer(_CloudServer):
    """Server of Vertex AI's ``rawPredict`` that plays a script; see `MessagesServer`.

    The accepted keys are access tokens.
    """

    version = "vertex-2023-10-16"
    missing = ("container",)
    _path = (":rawPredict", ":streamRawPredict")
    _form = re.compile(
        r"/v1/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/([^/:]+):(rawPredict|streamRawPredict)"
    )

    def _new_writing(self, number: int, request: ServerRequest) -> Writing:
        writing = super()._new_writing(number, request)
        writing.model = self._parts(request)[0]
        return writing

    def _problems_of(self, request: ServerRequest) -> list[str]:
        problems = super()._problems_of(request)
        if request.streamed is not (self._parts(request)[1] == "streamRawPredict"):
            problems.append("stream: the path asks for something else [A]")
        return problems

    def _key_of(self, request: ServerRequest) -> str:
        return request.headers.get("authorization", "").removeprefix("Bearer ")


@dataclass(slots=True)
class AmazonWriting(MessagesWriting):
    """Writer of one answer in Bedrock's event stream."""

    stream_type: ClassVar[str] = "application/vnd.amazon.eventstream"

    def framed(self, events: bytes) -> bytes:
        """Return the events as messages of Amazon's event stream."""
        payloads = [event.partition(b"data: ")[2] for event in events.split(b"\n\n")]
        return b"".join(_message_of(payload) for payload in payloads if payload)

    def stream_error(self, body: bytes) -> bytes:
        """Return the error in Anthropic's form; `framed` converts it to an exception."""
        return MessagesWriting.error(self, body)  # super() fails in a dataclass with slots

    def error(self, body: bytes) -> bytes:
        """Return the error in Amazon's form."""
        try:
            return to_json({"message": json.loads(body)["error"]["message"]})
        except (ValueError, KeyError, TypeError):
            return body


def _message_of(event: bytes) -> bytes:
    data = json.loads(event)
    if "error" in data:
        kind = _EXCEPTIONS.get(data["error"].get("type"), "internalServerException")
        headers = {":message-type": "exception", ":exception-type": kind}
        return amazon_message(headers, to_json({"message": data["error"].get("message")}))
    payload = to_json({"bytes": base64.b64encode(event).decode(), "p": "abcdef"})
    return amazon_message({":message-type": "event", ":event-type": "chunk"}, payload)
