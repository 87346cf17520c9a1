"""Claude through Amazon Bedrock and Google's Vertex AI: Anthropic's protocol with the cloud's access control.

Requests and responses are those of the Messages protocol. The differences: the URL names the model; the body
names the API version; each request is signed (AWS) or carries a short-lived token (Google); and Bedrock sends
streams as binary events. Source: ``anthropic`` 2.14.0, ``lib/bedrock`` and ``lib/vertex``.
"""

from __future__ import annotations

import base64
import os
import re
import threading
import urllib.parse
import weakref
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pure_agent_loop.errors import ConfigError, ErrorKind, LLMError
from pure_agent_loop.llm.addresses import is_loopback
from pure_agent_loop.llm.anthropic.client import AnthropicClient
from pure_agent_loop.llm.anthropic.families import OTHER, ClaudeFamily, family_for
from pure_agent_loop.llm.anthropic.request import MessagesRequest
from pure_agent_loop.llm.anthropic.stream import MessagesReader, error_of
from pure_agent_loop.llm.http_client import checked_key, load_json_packages
from pure_agent_loop.llm.values import Delta, JsonFields, JsonObject, Message, Options, Tools
from pure_agent_loop.llm.wire import parse_json
from pure_agent_loop.support.lazy import module_of_extra
from pure_agent_loop.support.secrets.redaction import client_secrets, shown_url
from pure_agent_loop.support.threads import in_thread

if TYPE_CHECKING:
    from pure_agent_loop.llm.http.plain import HttpResponse, Transport

EXTRA = "anthropic"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_REGION = re.compile(r"[a-z0-9-]{1,40}")  # checked, because the region becomes part of a host name
_SIGNED = ("authorization", "x-amz-")  # prefixes of headers that only this client may set
# Anthropic's error type for each exception name in a stream. Source: service model of ``bedrock-runtime``.
_EXCEPTIONS = {
    "internalServerException": "api_error",
    "modelErrorException": "api_error",
    "modelStreamErrorException": "api_error",
    "modelTimeoutException": "timeout_error",
    "serviceUnavailableException": "overloaded_error",
    "throttlingException": "rate_limit_error",
    "validationException": "invalid_request_error",
}


class CloudClient(AnthropicClient):
    """Base class of the clients for Claude through a cloud.

    Args:
        model: The model's name in the cloud.
        api_key: A key or token that is sent unchanged; by default, the one in the cloud's environment
            variable, else the cloud's credentials.
        base_url: URL of a gateway; by default, the one in the cloud's environment variable, else the cloud
            itself. A key or credentials from the environment are used only for the cloud and for the URL in
            that variable.
        thinking_level: ``none``, ``low``, ``medium`` or ``high``; None or ``off`` for the model's default.
        region: The cloud's region; by default, read from the cloud's environment variables.
        credentials: Credentials of the cloud's library; by default, those that the library finds.
        family: Rules for what the model accepts; if None, chosen by the model's name.
        settings: ``caches``, ``prepared``, ``timeout`` and ``default_headers`` of `AnthropicClient`.

    Raises:
        ConfigError: An argument is invalid, the region is missing, or the model's name is not that of a known
            Claude model. Missing credentials are reported by the first request, before anything is sent.
        MissingExtraError: The cloud's library is not installed.
    """

    cloud: ClassVar[str]
    needs_key = False
    body_version: ClassVar[str]
    region_variables: ClassVar[tuple[str, ...]]
    hosts: ClassVar[re.Pattern[str]]
    # What the cloud lacks: features, by request field, and server tools, by a pattern for their types.
    missing_fields: ClassVar[Mapping[str, str]]
    missing_tools: ClassVar[re.Pattern[str]]
    refused_headers: ClassVar[tuple[str, ...]] = _SIGNED
    _session: Any = None  # session object of the cloud's library

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str | None = None,
        *,
        region: str | None = None,
        credentials: Any = None,
        family: ClaudeFamily | None = None,
        **settings: Any,
    ) -> None:
        family = family or family_for(str(model))
        if family is OTHER:
            raise ConfigError(
                f"model={model!r} does not show which Claude it is. Pass family=family_for('claude-opus-4-6')"
                " from pure_agent_loop.llm.anthropic.families, with the model's name."
            )
        family = replace(family, takes_tool_changes=False)  # this beta exists on Anthropic's own server only
        if api_key and credentials is not None:
            raise ConfigError("credentials: api_key was passed too. Pass one of them.")
        self._refuse_headers("default_headers", settings.get("default_headers"))
        self._credentials = credentials
        self._is_given = credentials is not None or self._session is not None
        self._lock = threading.Lock()
        self.region = self._checked_region(region, self._session, os.environ)
        if named := os.environ.get(self.url_variable):
            base_url = None if base_url == named else base_url  # `ProtocolClient` reads the variable
        else:
            base_url = base_url or self.address_in(self.region)
        super().__init__(model, api_key, base_url, thinking_level, family=family, **settings)

    @classmethod
    @abstractmethod
    def address_in(cls, region: str) -> str:
        """Return the cloud's URL for a region."""

    @classmethod
    def default_address(cls, environ: Mapping[str, str]) -> str:
        """Return the cloud's URL for the environment's region. Raises `ConfigError` if there is none."""
        return cls.address_in(cls._checked_region(None, None, environ))

    @classmethod
    def is_own(cls, url: str) -> bool:
        """Return True for a URL of the cloud's service."""
        parts = urllib.parse.urlsplit(url)
        return parts.scheme == "https" and bool(cls.hosts.fullmatch(parts.hostname or ""))

    @property
    def has_key(self) -> bool:
        """True if there is a key, or if the cloud's credentials may be used."""
        return bool(self._settings["api_key"]) or self._is_given or self._takes_variable

    def _model_address(self) -> str:
        return ""  # the clouds list no models

    async def count_tokens(self, *_: Any, **__: Any) -> int:
        """Raise `ConfigError`, because only Anthropic's own server counts tokens."""
        raise ConfigError(f"count_tokens is not supported through {self.cloud}. Use AnthropicClient for it.")

    @classmethod
    def _checked_region(cls, region: str | None, session: object, environ: Mapping[str, str]) -> str:
        found = region or next(filter(None, map(environ.get, cls.region_variables)), "")
        found = found or cls._usual_region(session)
        if not found:
            raise ConfigError(
                f"No region for {cls.cloud}. Pass region=..., or set {' or '.join(cls.region_variables)}."
            )
        if not _REGION.fullmatch(found):
            raise ConfigError(f"region={found!r} is not a region name. Use one such as 'us-east5'.")
        return found

    @classmethod
    def _usual_region(cls, _session: object) -> str:
        """Return the region that the cloud's library is configured for; empty if there is none."""
        return ""

    @abstractmethod
    def _url(self, *, streams: bool) -> str:
        """Return the URL for requests."""

    def _endpoint(self) -> str:
        return self._url(streams=False)

    def _take_key(self, api_key: str | None) -> None:
        key = checked_key(api_key)
        if not key and self._takes_variable and not self._is_given and self.key_variable:
            key = checked_key(os.environ.get(self.key_variable))
        if not key and not self._is_given and not self._takes_variable and is_loopback(self.base_url):
            key = "not-needed"
        self._settings["api_key"] = key or ""
        self._settings["auth_headers"] = {}  # set for each request instead, because the token changes
        self._know(key or "")

    def _know(self, *values: str) -> None:
        """Redact these secrets in errors, in addition to the secrets of the settings."""
        secrets = client_secrets(self._settings) | {f"credential {n}": v for n, v in enumerate(values) if v}
        self._take_secrets(secrets)

    def _new_transport(self) -> Transport:
        load_json_packages()
        self._load()
        from pure_agent_loop.llm.http.choice import transport_for

        if not self._settings["api_key"]:
            self._take_key(None)
        if not self.has_key:
            raise ConfigError(
                f"No credentials for {shown_url(self.base_url)}: those of the environment are sent only to "
                f"{self.cloud} and to {self.url_variable}. Pass api_key=... or credentials=..."
            )
        settings = {**self._settings, "api_key": "unused"}  # the SDK requires a key, but never sends this one
        urls = [self._url(streams=streams) for streams in (False, True)]
        return _CloudTransport(
            {url: transport_for({**settings, "endpoint": url}) for url in urls}, self._authorization
        )

    @abstractmethod
    def _load(self) -> None:
        """Import the modules that requests need. Raises `MissingExtraError`."""

    async def _authorization(self, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that authorize a request."""
        if key := self._settings["api_key"]:
            return {"authorization": f"Bearer {key}"}
        return await in_thread(lambda: self._authorized(url, body))  # credentials may have to be fetched

    @abstractmethod
    def _authorized(self, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers for a request, made from the cloud's credentials. Blocks."""

    def _ask(
        self,
        messages: list[Message],
        tools: Tools | None,
        options: JsonObject,
        stream: bool,
    ) -> AsyncGenerator[Delta, None]:
        return super()._ask(messages, tools, {**options, "stream": stream}, stream)

    @classmethod
    def _refuse_headers(cls, owner: str, headers: Mapping[str, str] | None) -> None:
        for name in headers or {}:
            if name.lower().startswith(cls.refused_headers):
                raise ConfigError(
                    f"{owner}: {name} cannot be set for {cls.cloud}. Pass api_key=..., credentials=... or "
                    "the option betas=[...] instead."
                )

    def _write(
        self,
        messages: list[Message],
        tools: Tools | None,
        options: Options,
        *,
        stream: bool,
    ) -> MessagesRequest:
        self._refuse_headers("extra_headers", options.get("extra_headers"))
        request = super()._write(messages, tools, options, stream=stream)
        body = dict(request.body)
        if body.get("model") != self.model or bool(body.get("stream")) is not stream:
            raise ConfigError("extra_body: model and stream are part of the URL. Leave them out.")
        del body["model"]
        for name, feature in self.missing_fields.items():
            if body.get(name):
                raise ConfigError(self._missing(name, feature))
        for tool in body.get("tools", ()):
            if self.missing_tools.match(kind := str(tool.get("type") or "")):
                raise ConfigError(self._missing("tools", f"server tool {kind}"))
        if any((block.get("source") or {}).get("type") == "file" for block in _blocks(body["messages"])):
            raise ConfigError(self._missing("file_id", "stored files") + " Send the file's data.")
        return replace(request, body={"anthropic_version": self.body_version, **body})

    def _missing(self, field: str, feature: str) -> str:
        return f"{field}: {self.cloud} has no {feature} for Claude. Leave it out, or use AnthropicClient."

    @abstractmethod
    def _hint(self, kind: ErrorKind) -> str:
        """Return advice on what to check after an error of this kind; empty if there is none."""

    def _as_llm_error(self, error: Exception) -> Exception:
        made = super()._as_llm_error(error)
        if not isinstance(made, LLMError) or made.status is None or not (hint := self._hint(made.kind)):
            return made
        text = f"{self.cloud} rejected the request for model {self.model!r} with status {made.status}"
        hinted = LLMError(
            f"{text}: {made.said} {hint}",
            made.original_error,
            kind=made.kind,
            status=made.status,
            retry_after=made.retry_after,
            said=made.said,
        )
        hinted.__cause__ = made.__cause__
        return hinted


def _blocks(messages: Any) -> Iterator[JsonFields]:
    """Yield the content blocks of messages, including the blocks in tool results."""
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            yield block
            if block.get("type") == "tool_result":
                yield from _blocks([block])


class _CloudTransport:
    """`Transport` that authorizes each request.

    Args:
        transports: Two transports by URL, the first for complete responses, the second for streams.
        authorize: Method of the client that returns the headers for a URL and a body. Only a weak reference
            to it is kept, as in `Connections`.
    """

    def __init__(self, transports: Mapping[str, Transport], authorize: Callable[..., Any]) -> None:
        self._transports, self._authorizer = transports, weakref.WeakMethod(authorize)

    async def post(self, body: bytes, options: Options) -> HttpResponse:
        """See `Transport`. The option ``stream`` selects the URL."""
        url, transport = list(self._transports.items())[bool(options["stream"])]
        authorize = self._authorizer()
        assert authorize is not None  # the client is alive while its transport is in use
        headers = {**(options.get("extra_headers") or {}), **await authorize(url, body)}
        return await transport.post(body, {**options, "extra_headers": headers})

    async def get(self, url: str, seconds: float) -> Any:
        """Raise NotImplementedError, because the clouds have no URL that describes a model."""
        raise NotImplementedError

    async def close(self) -> None:
        """See `Transport`."""
        for transport in self._transports.values():
            await transport.close()


def cloud_module(name: str, cloud: str) -> Any:
    """Import a module of a cloud's library. Raises `MissingExtraError`."""
    return module_of_extra(name, f"Claude through {cloud}", EXTRA)


# -- Amazon Bedrock ----------------------------------------------------------------------------------------


class AmazonEvents:
    """Decodes Amazon's binary event stream; its bytes may be split anywhere. See `Decoder`.

    Format: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html
    """

    def __init__(self) -> None:
        self._stream = cloud_module("botocore.eventstream", BedrockClient.cloud)
        self._buffer = self._stream.EventStreamBuffer()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes; yield the payloads of the events that they complete.

        Raises:
            LLMError: A checksum is wrong, or the server reports an error.
        """
        self._buffer.add_data(data)
        try:
            for message in self._buffer:
                if payload := _payload_of(message.headers, message.payload):
                    yield payload
        except self._stream.InvalidPayloadLength as error:  # the library limits the size of an event
            said = f"The server sent an event that is too large: {error}"
            raise LLMError(said, kind="bad_request") from error
        except (self._stream.ParserError, ValueError, TypeError, AttributeError, KeyError) as error:
            raise LLMError("The server sent a damaged event stream.", kind="incomplete") from error

    def flush(self) -> Iterator[bytes]:
        """Yield nothing: the rest of a truncated stream is not an event."""
        return iter(())


def _payload_of(headers: JsonFields, payload: bytes) -> bytes:
    """Return the event in a message; empty if there is none."""
    kind = headers.get(":message-type")
    if kind == "event":
        data = parse_json(payload).get("bytes") if headers.get(":event-type") == "chunk" else None
        return base64.b64decode(data, validate=True) if data else b""
    code = str(headers.get(":exception-type") or headers.get(":error-code") or kind)
    try:
        said = parse_json(payload).get("message")
    except (ValueError, AttributeError):
        said = None
    said, name = said or headers.get(":error-message") or code, code[:1].lower() + code[1:]
    raise error_of({"error": {"type": _EXCEPTIONS.get(name, code), "message": f"{said} ({code})"}})


class AmazonReader(MessagesReader):
    """Reader of a message from Bedrock; see `MessagesReader`."""

    stream_type = "amazon.eventstream"

    def __init__(self, kept: JsonFields | None = None, calls: int = 0) -> None:
        super().__init__(kept, calls)
        self._decoder = AmazonEvents()


@contextmanager
def _own_errors() -> Iterator[None]:
    """Inside the block, convert configuration and credential errors of Amazon's library."""
    errors = cloud_module("botocore.exceptions", BedrockClient.cloud)
    try:
        yield
    except (errors.ProfileNotFound, errors.ConfigParseError, errors.PartialCredentialsError) as error:
        raise ConfigError(f"{error}. Correct profile=..., AWS_PROFILE, or the named profile.") from error
    except (errors.BotoCoreError, errors.ClientError) as error:
        is_cut = isinstance(error, (errors.HTTPClientError, errors.ConnectionError))
        text = f"The AWS credentials cannot be fetched: {error}"
        raise LLMError(text, error, kind="connection" if is_cut else "auth") from error


class BedrockClient(CloudClient):
    """A Claude model through Amazon Bedrock. Needs the extra ``[anthropic]``.

    Args:
        model: The model's id or inference profile, such as ``us.anthropic.claude-opus-4-6-v1``.
        api_key: A Bedrock API key; default ``AWS_BEARER_TOKEN_BEDROCK``, else requests are signed.
        base_url: See `CloudClient`; the variable is ``ANTHROPIC_BEDROCK_BASE_URL``.
        thinking_level: See `CloudClient`.
        region: AWS region; default ``AWS_REGION``, then ``AWS_DEFAULT_REGION``, then the profile's region.
        profile: Name of the AWS profile whose credentials sign requests.
        settings: Further arguments of `CloudClient`. `credentials` is an object of ``botocore``.

    Raises:
        ConfigError: See `CloudClient`; also if there is no such profile.
        MissingExtraError: ``botocore`` is not installed.
    """

    cloud = "Amazon Bedrock"
    url_variable = "ANTHROPIC_BEDROCK_BASE_URL"
    key_variable = "AWS_BEARER_TOKEN_BEDROCK"
    # Some models reject newer versions: anthropics/anthropic-sdk-python#2031.
    body_version = "bedrock-2023-05-31"
    region_variables = ("AWS_REGION", "AWS_DEFAULT_REGION")
    hosts = re.compile(r"(.+\.)?bedrock-runtime(-fips)?\.[a-z0-9-]+\.(vpce\.)?amazonaws\.com")
    reader = AmazonReader
    missing_fields: ClassVar[Mapping[str, str]] = {
        "cache_control": "automatic cache marks",
        "container": "code execution",
        "diagnostics": "diagnostics",
        "mcp_servers": "MCP connector",
    }
    missing_tools = re.compile("web_search_|web_fetch_|code_execution_|mcp_")
    refused_headers = (*_SIGNED, "anthropic-beta")

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str | None = None,
        *,
        region: str | None = None,
        profile: str | None = None,
        credentials: Any = None,
        **settings: Any,
    ) -> None:
        if profile is not None:
            if api_key or credentials is not None:
                raise ConfigError("profile: api_key or credentials were passed too. Pass one of them.")
            self._session = cloud_module("botocore.session", self.cloud).Session(profile=profile)
        super().__init__(
            model, api_key, base_url, thinking_level, region=region, credentials=credentials, **settings
        )

    @classmethod
    def address_in(cls, region: str) -> str:
        """See `CloudClient`."""
        return f"https://bedrock-runtime.{region}.amazonaws.com"

    @classmethod
    def _usual_region(cls, session: Any) -> str:
        session = session or cloud_module("botocore.session", cls.cloud).Session()
        with _own_errors():
            return session.get_config_variable("region") or ""

    def _url(self, *, streams: bool) -> str:
        model = urllib.parse.quote(self.model, safe=":")
        ending = "invoke-with-response-stream" if streams else "invoke"
        return f"{self.base_url.rstrip('/')}/model/{model}/{ending}"

    def _load(self) -> None:
        for name in ("botocore.session", "botocore.auth", "botocore.awsrequest", "botocore.eventstream"):
            cloud_module(name, self.cloud)

    def _authorized(self, url: str, body: bytes) -> Mapping[str, str]:
        auth, requests = (cloud_module(f"botocore.{name}", self.cloud) for name in ("auth", "awsrequest"))
        now = self._frozen()
        kind = {"content-type": "application/json"}
        request = requests.AWSRequest(method="POST", url=url, data=body, headers=kind)
        auth.SigV4Auth(now, "bedrock", self.region).add_auth(request)
        return {name.lower(): value for name, value in request.headers.items()}

    def _frozen(self) -> Any:
        """Return the current credentials, renewed if they are about to expire."""
        with self._lock, _own_errors():
            if self._credentials is None:
                self._session = self._session or cloud_module("botocore.session", self.cloud).Session()
                self._credentials = self._session.get_credentials()
            if self._credentials is None:
                raise ConfigError(
                    f"No AWS credentials for {self.cloud}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                    f"or AWS_PROFILE after `aws sso login`, or {self.key_variable}."
                )
            now = self._credentials.get_frozen_credentials()
            self._know(now.secret_key, now.token or "")
        return now

    def _write(
        self,
        messages: list[Message],
        tools: Tools | None,
        options: Options,
        *,
        stream: bool,
    ) -> MessagesRequest:
        if options.get("extra_query"):
            raise ConfigError(f"extra_query has no counterpart in {self.cloud}. Leave it out.")
        request = super()._write(messages, tools, options, stream=stream)
        body = {name: value for name, value in request.body.items() if name != "stream"}
        if request.betas:
            body["anthropic_beta"] = [*body.get("anthropic_beta", ()), *request.betas]
        return replace(request, body=body, betas=())

    def _hint(self, kind: ErrorKind) -> str:
        if kind == "auth":
            return (
                "Check that the AWS credentials are valid and not expired, that they allow "
                f"bedrock:InvokeModel, and that the account has access to the model in {self.region}."
            )
        if kind == "not_found":
            return (
                f"Check the model's id, and that it is offered in {self.region}; newer models are reached "
                "through an inference profile, such as 'us.anthropic...'."
            )
        return ""


# -- Google's Vertex AI ------------------------------------------------------------------------------------


class VertexClient(CloudClient):
    """A Claude model through Google's Vertex AI. Needs the extra ``[anthropic]``.

    Args:
        model: The model's name, such as ``claude-opus-4-6`` or ``claude-sonnet-4-5@20250929``.
        api_key: An access token; by default, one from Google's credentials, renewed as needed.
        base_url: See `CloudClient`; the variable is ``ANTHROPIC_VERTEX_BASE_URL``. ``/v1`` is added.
        thinking_level: See `CloudClient`.
        region: A region, ``global``, ``us`` or ``eu``; default ``CLOUD_ML_REGION``.
        project: Id of the Google Cloud project; default ``ANTHROPIC_VERTEX_PROJECT_ID``, then
            ``GOOGLE_CLOUD_PROJECT``.
        settings: Further arguments of `CloudClient`. `credentials` is an object of ``google-auth``.

    Raises:
        ConfigError: See `CloudClient`; also if the project is missing.
        MissingExtraError: ``google-auth`` is not installed.
    """

    cloud = "Vertex AI"
    url_variable = "ANTHROPIC_VERTEX_BASE_URL"
    key_variable = ""
    body_version = "vertex-2023-10-16"
    region_variables = ("CLOUD_ML_REGION",)
    project_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")
    hosts = re.compile(r"([a-z0-9-]+-)?aiplatform(\.(us|eu)\.rep)?\.googleapis\.com")
    missing_fields: ClassVar[Mapping[str, str]] = {"container": "code execution"}
    missing_tools = re.compile("web_fetch_|code_execution_")

    def __init__(
        self,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        thinking_level: str | None = None,
        *,
        project: str | None = None,
        **settings: Any,
    ) -> None:
        self.project = project or next(filter(None, map(os.environ.get, self.project_variables)), "")
        if not self.project:
            variables = " or ".join(self.project_variables)
            raise ConfigError(f"No project for {self.cloud}. Pass project=..., or set {variables}.")
        super().__init__(model, api_key, base_url, thinking_level, **settings)

    @classmethod
    def address_in(cls, region: str) -> str:
        """See `CloudClient`."""
        if region == "global":
            return "https://aiplatform.googleapis.com/v1"
        if region in ("us", "eu"):
            return f"https://aiplatform.{region}.rep.googleapis.com/v1"
        return f"https://{region}-aiplatform.googleapis.com/v1"

    def _url(self, *, streams: bool) -> str:
        base = self.base_url.rstrip("/")
        base = base if base.endswith("/v1") else f"{base}/v1"
        project, model = (urllib.parse.quote(name, safe=":@") for name in (self.project, self.model))
        place = f"projects/{project}/locations/{self.region}/publishers/anthropic/models/{model}"
        return f"{base}/{place}:{'streamRawPredict' if streams else 'rawPredict'}"

    def _load(self) -> None:
        for name in ("google.auth", "google.auth.transport.requests"):
            cloud_module(name, self.cloud)

    def _authorized(self, *_: object) -> Mapping[str, str]:
        google = cloud_module("google.auth", self.cloud)
        errors = cloud_module("google.auth.exceptions", self.cloud)
        with self._lock:
            try:
                if self._credentials is None:
                    self._credentials, _ = google.default(scopes=[SCOPE])
                if not self._credentials.valid:
                    transport = cloud_module("google.auth.transport.requests", self.cloud)
                    self._credentials.refresh(transport.Request())
            except errors.DefaultCredentialsError as error:
                raise ConfigError(
                    f"No Google credentials for {self.cloud}: {error} Run `gcloud auth application-default "
                    "login`, or set GOOGLE_APPLICATION_CREDENTIALS to a service account file."
                ) from error
            except errors.GoogleAuthError as error:
                kind: ErrorKind = "connection" if isinstance(error, errors.TransportError) else "auth"
                text = f"The Google credentials cannot be renewed: {error}"
                raise LLMError(text, error, kind=kind) from error
            token = str(self._credentials.token)
            self._know(token)
        return {"authorization": f"Bearer {token}"}

    def _hint(self, kind: ErrorKind) -> str:
        if kind == "auth":
            return (
                "Check that the Google credentials are valid, and that they allow "
                f"aiplatform.endpoints.predict in project {self.project}."
            )
        if kind == "not_found":
            return (
                f"Check the model's name, that it is enabled in the Model Garden of project {self.project}, "
                f"and that it is offered in {self.region}."
            )
        return ""
