"""What our MCP server offers beside tools: prompts, resources, completion, news of them, log messages."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Literal

import httpx2
import mcp_types
import pytest
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.mcp.conformance_server import PDF, PNG
from tests.mcp.my_agents import helper, look
from tests.serving import serving_app

from mcp import Client
from pure_agent_loop import File, Image
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.mcp import Published
from pure_agent_loop.server import Person, create_app
from pure_agent_loop.server.people import hash_of

TOKEN, OTHER = "owner-token-of-tests", "another-token-of-tests"
HERE = Path(__file__).parent


def review(path: str, depth: Literal["quick", "quiet", "thorough"] = "quick") -> list[object]:
    """Have a file reviewed."""
    if path == "missing":
        raise ValueError("there is no such file")
    return [
        f"Review {path}, {depth}.",
        Image(data=PNG),
        File(data=b"a,b", media_type="text/csv", name="a.csv"),
    ]


def note(day: str) -> object:
    """The note of a day."""
    return {"day": day} if day == "json" else f"note of {day}"


def manual(path: str) -> File:
    """A page of the manual."""
    return File(data=PDF, media_type="application/pdf", name=path)


def logo() -> Image:
    """Our sign."""
    return Image(data=PNG)


@pytest.fixture
def talk(tmp_path, monkeypatch):
    """Runs a conversation with a server that has prompts and resources; also gives what it published."""
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    published = Published(
        prompts=[review],
        resources={"notes://{day}": note, "manual://{+path}": manual, "logo://x": logo},
    )
    other = Person("ann", frozenset({"approve"}), hash_of(OTHER))
    app = create_app(
        helper.clone(tools=[look]), token=TOKEN, users=[other], folder=tmp_path / "s", published=published
    )

    async def during(work, token, **options):
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            serving_app(app) as url,
            httpx2.AsyncClient(headers=headers, base_url=url) as own,
            Client(streamable_http_client(f"{url}/mcp", http_client=own), **options) as client,
        ):
            return await asyncio.wait_for(work(client, published, own), 30)

    return lambda work, token=TOKEN, **options: asyncio.run(during(work, token, **options))


async def old_way(client, request):
    """Send what the client's own methods warn of: it has left the protocol in 2026."""
    await client.session.send_request(request, mcp_types.EmptyResult)


def test_functions_are_prompts_with_arguments(talk):
    async def work(client, *_):
        (prompt,) = (await client.list_prompts()).prompts
        got = await client.get_prompt("review", {"path": "x.py", "depth": "thorough"})
        errors = []
        for name, args in (("review", {}), ("review", {"path": "missing"}), ("nothing", {})):
            with pytest.raises(MCPError) as caught:
                await client.get_prompt(name, args)
            errors.append(str(caught.value))
        reference = mcp_types.PromptReference(type="ref/prompt", name="review")
        values = (await client.complete(reference, {"name": "depth", "value": "qui"})).completion.values
        return prompt, got.messages, errors, values

    prompt, messages, errors, values = talk(work)
    assert (prompt.name, prompt.description) == ("review", "Have a file reviewed.")
    assert [(each.name, each.required) for each in prompt.arguments] == [("path", True), ("depth", False)]
    text, image, file = (each.content for each in messages)
    assert (text.text, image.mime_type) == ("Review x.py, thorough.", "image/png")
    found = file.resource
    assert (found.text, found.mime_type, found.uri) == ("a,b", "text/csv", "file:///a.csv")
    assert "path" in errors[0]
    assert "there is no such file" in errors[1]
    assert "Unknown prompt 'nothing'" in errors[2]
    assert values == ["quick", "quiet"]


def test_functions_are_resources_by_address_and_template(talk):
    async def work(client, *_):
        listed = [each.uri for each in (await client.list_resources()).resources]
        templates = [
            each.uri_template for each in (await client.list_resource_templates()).resource_templates
        ]
        addresses = ("notes://monday%20x", "notes://json", "manual://a/b.pdf", "logo://x")
        read = [(await client.read_resource(each)).contents[0] for each in addresses]
        for wrong in ("notes://a/b", "notes://a%2Fb", "notes://", "logo://y", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource(wrong)
        return listed, templates, read

    listed, templates, (text, value, pdf, logo) = talk(work)
    assert listed == ["logo://x"]
    assert templates == ["notes://{day}", "manual://{+path}", "pal://sessions/{id}"]
    assert (text.text, text.mime_type) == ("note of monday x", "text/plain")
    assert (value.text, value.mime_type) == ('{"day": "json"}', "application/json")
    assert (pdf.mime_type, logo.mime_type) == ("application/pdf", "image/png")
    assert mcp_types.BlobResourceContents.model_validate(pdf).blob


def test_client_without_access_sees_no_prompts_or_resources(talk):
    async def work(client, *_):
        with pytest.raises(MCPError, match="Unknown prompt"):
            await client.get_prompt("review", {"path": "x"})
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("logo://x")
        return (await client.list_prompts()).prompts, (await client.list_resources()).resources

    assert talk(work, OTHER) == ([], [])


def test_subscriber_is_notified_of_changes(talk):
    heard = asyncio.Queue()

    async def message(found):
        if isinstance(found, mcp_types.ResourceUpdatedNotification):
            heard.put_nowait(found.params.uri)

    async def work(client, published, http):
        async def subscribe(uri):
            await old_way(client, mcp_types.SubscribeRequest(params={"uri": uri}))

        for uri in ("notes://today", "notes://gone"):
            await subscribe(uri)
        await old_way(client, mcp_types.UnsubscribeRequest(params={"uri": "notes://gone"}))
        with pytest.raises(MCPError, match="Resource not found"):
            await subscribe("pal://sessions/../../x")
        for uri in ("notes://other", "notes://gone", "notes://today"):
            await asyncio.to_thread(published.changed, uri)
        first = await heard.get()
        uri = (await client.call_tool("default", {"task": "look"})).content[-1].uri
        for other in (uri.replace("-", "%2D"), uri + "/", "PAL" + uri[3:]):  # read perhaps, never told of
            with pytest.raises(MCPError, match=r"Subscribe to pal:|Resource not found"):
                await subscribe(other)
        await subscribe(uri)
        session = uri.rpartition("/")[2]
        await client.call_tool("default", {"task": "look", "session": session})
        second = await heard.get()
        await http.post("/api/runs", json={"text": "look", "session": session})
        return first, second == uri, await heard.get() == uri

    assert talk(work, mode="legacy", message_handler=message) == ("notes://today", True, True)


def test_protocol_2026_reads_only_permitted_notifications(talk):
    async def work(client, published, _):
        refused = ["pal://sessions/../x", "pal://sessions/x?y", "pal://sessions/x#y", "file:///etc/passwd"]
        uris = ["notes://today", *refused, "pal://sessions/..%2Fx", "pal://sessions/%2E%2E%2fx"]
        async with client.listen(resource_subscriptions=uris) as news:
            published.changed("notes://today")
            event = await anext(aiter(news))
            return news.honored.resource_subscriptions, event.uri

    # A session may be named "../x"; its address is one segment.
    assert talk(work, mode="auto") == (["notes://today", "pal://sessions/..%2Fx"], "notes://today")


@pytest.mark.parametrize(
    ("level", "heard"), [(None, []), ("warning", []), ("info", ["looking"]), ("debug", ["look", "looking"])]
)
def test_log_messages_come_from_the_level_that_was_asked_for(talk, level, heard):
    told = []

    async def log(params):
        told.append((params.level, params.logger, params.data))

    async def work(client, *_):
        if level is not None:
            await old_way(client, mcp_types.SetLevelRequest(params={"level": level}))
        await client.call_tool("default", {"task": "look"})

    talk(work, mode="legacy", logging_callback=log)
    assert [data for _, _, data in told] == heard
    assert {name for _, name, _ in told} <= {"default"}


def test_calls_of_protocol_2026_name_their_notifications(talk):
    told = []

    async def log(params):
        told.append(params.data)

    async def work(client, *_):
        await client.call_tool("default", {"task": "look"})
        await client.call_tool("default", {"task": "look"}, meta={mcp_types.LOG_LEVEL_META_KEY: "info"})

    talk(work, mode="auto", logging_callback=log)
    assert told == ["looking"]


@pytest.mark.parametrize(
    ("prompts", "resources", "why"),
    [
        ([review, review], {}, "Two prompts have the name 'review'"),
        ([], {"no address": note}, "'no address' must be a URI"),
        ([], {"pal://sessions/1": note}, "must not begin with 'pal:'"),
        ([], {"notes://{week}": note}, "has the placeholders week, and note takes day"),
        ([], {"notes://x": note}, "has the placeholders none, and note takes day"),
    ],
)
def test_unpublishable_agent_is_rejected(prompts, resources, why):
    with pytest.raises(ConfigError, match=why):
        Published(prompts, resources)


def test_commands_and_skills_are_prompts_of_pal_mcp(tmp_path, monkeypatch):
    home, work = tmp_path / "home", tmp_path / "work"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PAL_HOME", str(home))
    for path, text in {
        tmp_path / ".agents" / "skills" / "tidy" / "SKILL.md": (
            "---\nname: tidy\ndescription: T\n---\nTidy up."
        ),
        home / "commands" / "fix.md": "---\ndescription: Fixes\n---\nFix $1, please.",
        work / ".agents" / "commands" / "theirs.md": "A stranger's.",
        tmp_path
        / ".agents"
        / "skills"
        / "tidy"
        / "SKILL.md": "---\nname: tidy\ndescription: T\n---\nTidy up.",
        work / ".agents" / "skills" / "bad" / "SKILL.md": "---\nname: bad\ndescription: B\n---\nBad.",
    }.items():
        path.parent.mkdir(parents=True)
        path.write_text(text)

    async def talk():
        args = ["-m", "pure_agent_loop", "mcp"]
        params = StdioServerParameters(command=sys.executable, args=args, cwd=str(work), env=dict(os.environ))
        async with Client(params) as client:
            names = [each.name for each in (await client.list_prompts()).prompts]
            fix = await client.get_prompt("fix", {"arguments": "12 now"})
            tidy = await client.get_prompt("tidy", {"arguments": "the desk"})
            return names, fix.messages[0].content.text, tidy.messages[0].content.text

    assert asyncio.run(talk()) == (["fix", "tidy"], "Fix 12, please.", "Tidy up.\n\nthe desk")
