"""Where the default model is gone, the next one is used; a model that somebody named is never replaced."""

from __future__ import annotations

import json

import pytest

from pure_agent_loop import Agent, LLMError, RetryConfig
from pure_agent_loop.llm.profiles import DEFAULT_MODEL, DEFAULT_MODELS
from pure_agent_loop.testing import ScriptedServer, Status

GONE = {
    "deprecated": LLMError("The model `gpt-4o-mini` has been deprecated.", kind="not_found", status=404),
    "unknown": LLMError("model 'gpt-4o-mini' not found", kind="not_found", status=404),
    "retired": LLMError("This model was retired on 2027-01-14.", kind="bad_request", status=400),
    "gone": LLMError("gpt-4o-mini has been deprecated", kind="bad_request", status=410),
    "gone, no name": LLMError("It has reached its end of life.", kind="bad_request", status=410),
    "no endpoints": LLMError("No endpoints for openai/gpt-4o-mini.", kind="not_found", status=404),
    "no valid id": LLMError("gpt-4o-mini is not a valid model ID", kind="bad_request", status=400),
    "by field": {"message": "Please choose another one.", "param": "model"},
    "by code": {"message": "Please choose another one.", "code": "model_decommissioned"},
}
OTHER = {
    "a field": {"message": "max_tokens is deprecated for this model", "param": "max_tokens"},
    "an ability": {"message": "gpt-4o-mini cannot read images", "param": None},
    "an address": {"message": "Invalid URL (POST /v1/chat/completions)", "code": 404},
}


def refusal(error):
    """The error, or a response whose body holds it."""
    if isinstance(error, LLMError):
        return error
    return Status(404 if error.get("code") == 404 else 400, json.dumps({"error": error}).encode())


def server_without(gone, error):
    return ScriptedServer(
        handler=lambda request: refusal(error) if request.body["model"] in gone else "hello"
    )


def agent_at(server, **options):
    return Agent(api_key="k", base_url=server.base_url, retry=RetryConfig(max_retries=0), **options)


def notices(result):
    return [
        event.content
        for event in result.events
        if event.type == "notice" and "default model" in event.content
    ]


@pytest.mark.parametrize("name", GONE)
def test_the_next_one_is_used_and_said_once(name):
    with server_without([DEFAULT_MODEL], GONE[name]) as server:
        agent = agent_at(server)
        first, second = agent.run("hi"), agent.run("again")
        asked = [request.body["model"] for request in server.requests]
    following = list(DEFAULT_MODELS)[1]
    assert (first.stop_reason, second.stop_reason) == ("completed", "completed")
    assert asked == [DEFAULT_MODEL, following, following]
    assert len(notices(first)) == 1
    assert following in notices(first)[0]
    assert notices(second) == []


def test_where_all_are_gone_it_is_an_error():
    with server_without(DEFAULT_MODELS, GONE["unknown"]) as server:
        assert agent_at(server).run("hi").stop_reason == "error"
        assert [request.body["model"] for request in server.requests] == list(DEFAULT_MODELS)


def test_a_model_that_was_named_is_never_replaced():
    with server_without(DEFAULT_MODELS, GONE["deprecated"]) as server:
        result = agent_at(server, model="gpt-4o-mini").run("hi")
        assert result.stop_reason == "error"
        assert len(server.requests) == 1


def test_a_model_named_in_the_body_is_not_replaced_either():
    with server_without(DEFAULT_MODELS, GONE["deprecated"]) as server:
        result = agent_at(server, extra_body={"model": "gpt-4o-mini"}).run("hi")
        assert result.stop_reason == "error"
        assert len(server.requests) == 1


@pytest.mark.parametrize("name", OTHER)
def test_value_stated_for_another_field_replaces_nothing(name):
    with server_without(DEFAULT_MODELS, OTHER[name]) as server:
        agent_at(server).run("hi")
        assert {request.body["model"] for request in server.requests} == {DEFAULT_MODEL}


def test_another_failure_replaces_nothing():
    error = LLMError("The key is wrong.", kind="auth", status=401)
    with server_without(DEFAULT_MODELS, error) as server:
        assert agent_at(server).run("hi").stop_reason == "error"
        assert len(server.requests) == 1
