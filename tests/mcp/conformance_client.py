"""A client for the official MCP conformance suite: a run that calls each tool of a server once.

mcp-client.sh 'python tests/mcp/conformance_client.py' tools_call auth/metadata-default ...
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from pure_agent_loop import Agent
from pure_agent_loop.mcp import MCPServer, OAuth
from pure_agent_loop.mcp.login import asking_browser
from pure_agent_loop.mcp.token_storage import TokenStorage
from pure_agent_loop.testing import ScriptedLLM, call

VALUES = {"integer": 2, "number": 2, "boolean": True, "array": [], "object": {}}
DOCUMENT = "https://conformance-test.local/client-metadata.json"  # the suite's own
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"


def value_for(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    return schema.get("default", VALUES.get(str(schema.get("type")), "text"))


def calls_for(tools: list[dict[str, Any]]) -> list[Any]:
    found = []
    for tool in (each["function"] for each in tools):
        fields = tool["parameters"].get("properties", {})
        wanted = tool["parameters"].get("required", fields)
        found.append(call(tool["name"], **{name: value_for(fields.get(name, {})) for name in wanted}))
    return found


def script(messages: Any, tools: Any, _: Any) -> Any:
    return "done" if messages[-1]["role"] == "tool" or not tools else calls_for(tools)


def issuer_of(url: str) -> str:
    """Who has given out the secret: a person knows that, the suite does not tell."""
    parts = urlsplit(url)
    about = httpx2.get(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}")
    return about.json()["authorization_servers"][0]


def oauth_for(url: str) -> OAuth:
    """What a person would write down for what the suite has given out."""
    name = CONTEXT.get("client_id", "")
    if not name:
        return OAuth(client_metadata_url=DOCUMENT)
    grant = (
        "client_credentials" if "client-credentials" in os.environ["MCP_CONFORMANCE_SCENARIO"] else "browser"
    )
    if "private_key_pem" not in CONTEXT:
        secret = CONTEXT.get("client_secret", "")
        return OAuth(grant=grant, client_id=name, client_secret=secret, issuer=issuer_of(url))
    key = Path(tempfile.mkdtemp()) / "key.pem"
    key.write_text(CONTEXT["private_key_pem"])
    algorithm = CONTEXT["signing_algorithm"]
    return OAuth(
        grant=grant, client_id=name, private_key_file=str(key), algorithm=algorithm, issuer=issuer_of(url)
    )


class Memory:
    """Keeps the tokens of the SDK's provider."""

    tokens = client = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens


async def exchanged(audience: str, resource: str) -> str:
    """The first leg of cross-app access: the identity provider of a company gives an assertion."""
    async with httpx2.AsyncClient() as http:
        asked = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": f"{TOKEN_TYPE}id-jag",
            "subject_token": CONTEXT["idp_id_token"],
            "subject_token_type": f"{TOKEN_TYPE}id_token",
            "client_id": CONTEXT["idp_client_id"],
            "audience": audience,
            "resource": resource,
        }
        return (await http.post(CONTEXT["idp_token_endpoint"], data=asked)).json()["access_token"]


@asynccontextmanager
async def login_for(url: str) -> Any:
    """What puts the login into requests."""
    if "idp_id_token" not in CONTEXT:
        settings = MCPServer(url=url, name="suite", oauth=oauth_for(url)).settings
        async with asking_browser(settings, print, TokenStorage(settings)) as auth:
            yield auth
        return
    from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider

    who = CONTEXT["client_id"], CONTEXT["client_secret"], issuer_of(url)
    yield IdentityAssertionOAuthProvider(
        url, Memory(), *who, exchanged, token_endpoint_auth_method="client_secret_basic"
    )


async def main(url: str) -> None:
    os.environ.setdefault("PAL_HOME", tempfile.mkdtemp())
    os.environ["BROWSER"] = "curl -s -L -o /dev/null %s"  # a person who agrees to everything
    async with login_for(url) as auth:
        server = MCPServer(url=url, name="suite", pinned=False, auth=auth)
        agent = Agent(llm=ScriptedLLM(script, strict=False), tools=[server], on_ask=lambda _: True)
        result = await agent.arun("Call each tool.")
    print([each["content"] for each in result.messages if each["role"] == "tool"])


asyncio.run(main(sys.argv[-1]))
