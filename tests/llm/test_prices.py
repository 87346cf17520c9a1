"""Prices by server and model: the shipped data, the rules of a price file, and what a usage costs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from pure_agent_loop import Agent, ConfigError, Fallback, LoopLimits, OpenAIClient, TokenUsage
from pure_agent_loop.budget import Price
from pure_agent_loop.llm import prices
from pure_agent_loop.llm.prices import PriceList, install, own_file, price_list, price_of, reduced
from pure_agent_loop.local.client import EmbeddedClient
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, answer, call, status

M = 1_000_000


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The user's data folder, empty, with nothing read before."""
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    for cached in (prices.price_list, prices._listed):
        cached.cache_clear()
    yield tmp_path
    for cached in (prices.price_list, prices._listed):
        cached.cache_clear()


# -- the shipped data --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("https://api.openai.com/v1", ["gpt-4o", "GPT-4o", "gpt-4o-2024-11-20", "gpt-4o-20241120"]),
        (
            "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
            ["anthropic.claude-sonnet-4-5-20250929-v1:0", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"],
        ),
        ("https://me.openai.azure.com/openai/v1", ["gpt-4o"]),  # of another provider
        ("https://generativelanguage.googleapis.com/v1beta", ["gemini-2.5-flash"]),
        ("https://openrouter.ai/api/v1", ["anthropic/claude-sonnet-4.5"]),
    ],
)
def test_a_model_has_a_price_under_each_of_its_names(url, names):
    for name in names:
        assert price_list().find(url, name), name


@pytest.mark.parametrize(
    ("url", "model"),
    [
        ("https://api.openai.com/v1", "gpt-of-tomorrow"),
        ("https://gateway.example.com/v1", "gpt-4o"),  # its owner may bill something else
        ("http://127.0.0.1:4000/v1", "gpt-4o"),
        ("https://api.openai.com/v1", "text-embedding-3-small"),
    ],
)
def test_unlisted_model_has_no_price(url, model):
    assert price_list().find(url, model) is None


def test_the_data_names_its_source_date_licence_and_currency():
    known = price_list()
    assert known.source.startswith("genai-prices ")
    assert "MIT" in known.licence
    assert known.currency == "USD"
    assert datetime.fromisoformat(known.date)
    assert sum(1 for _ in known.entries()) > 1_000
    PriceList(prices._checked(prices.SHIPPED))
    prices._check(json.loads(prices.SHIPPED.read_text("utf-8")))  # each value


# -- the rules of the source, in a file as it publishes one ------------------------------------------


def source(*models, **more):
    return [{"id": "p", "api_pattern": r"https://p\.example", "models": list(models), **more}]


def listed(providers, day="2026-06-01"):
    return PriceList(reduced(providers, "genai-prices", day))


def model(match, name="m", **numbers):
    return {"id": name, "match": match, "prices": numbers or {"input_mtok": 1, "output_mtok": 2}}


@pytest.mark.parametrize(
    ("match", "yes", "no"),
    [
        ({"equals": "A-b"}, "a-B", "a-bc"),
        ({"starts_with": "a-"}, "A-x", "xa-"),
        ({"ends_with": "-mini"}, "x-mini", "x-mini-2"),
        ({"contains": "claude"}, "us.claude-v1", "clade"),
        ({"regex": r"^o[134]$"}, "o3", "o5"),
        ({"or": [{"equals": "a"}, {"equals": "b"}]}, "b", "c"),
        ({"and": [{"contains": "a"}, {"contains": "b"}]}, "xab", "xa"),
        ({"equals": "a-2026-01-31"}, "a-20260131", "a-20261331"),
    ],
)
def test_a_rule_matches_as_in_the_source(match, yes, no):
    known = listed(source(model(match)))
    assert known.find("https://p.example/v1", yes) == Price(1, 2)
    assert known.find("https://p.example/v1", no) is None
    assert known.find("https://q.example/v1", yes) is None


def test_the_price_of_the_day_and_hour_counts():
    def at(amount, constraint=None):
        return {"prices": {"input_mtok": amount, "output_mtok": 0}, "constraint": constraint}

    hours = {"start_time": "22:00:00Z", "end_time": "02:00:00Z"}
    dated = [at(1), at(2, {"start_date": "2026-01-01"}), at(3, {"start_date": "2026-09-01"}), at(9, hours)]
    known = listed(source({"id": "m", "match": {"equals": "m"}, "prices": dated}))

    def input_at(*moment):
        found = known.find("https://p.example", "m", datetime(*moment, tzinfo=timezone.utc))
        return found and found.input

    assert input_at(2026, 6, 1, 12) == 2
    assert input_at(2026, 9, 1, 12) == 3
    assert (input_at(2026, 9, 1, 23), input_at(2026, 9, 1, 1), input_at(2026, 9, 1, 2)) == (9, 9, 3)


def test_models_that_write_no_text_or_bill_requests_have_no_price():
    embedding = model({"equals": "e"}, "e", input_mtok=1)
    searching = model({"equals": "s"}, "s", input_mtok=1, output_mtok=1, requests_kcount=5)
    known = listed(source(model({"equals": "m"}), embedding, searching))
    assert [name for _, name, _ in known.entries()] == ["m"]


def test_a_model_without_a_price_does_not_get_that_of_a_wider_rule():
    unpriced = model({"equals": "gpt-x"}, "gpt-x", input_mtok=1)
    known = listed(source(unpriced, model({"starts_with": "gpt-"}, "gpt")))
    assert known.find("https://p.example", "gpt-y") == Price(1, 2)
    assert known.find("https://p.example", "gpt-x") is None


def test_a_provider_that_sells_models_of_another_has_their_prices():
    shop = {"id": "shop", "api_pattern": "https://shop", "models": [], "fallback_model_providers": ["p"]}
    known = listed([*source(model({"equals": "m"})), shop])
    assert known.find("https://shop/v1", "m") == Price(1, 2)


# -- what a usage costs ------------------------------------------------------------------------------


def test_reads_and_writes_of_the_cache_have_their_own_prices():
    price = Price(10, 100, 1, 12.5)
    assert price.of(TokenUsage(M, 0, M, cached_tokens=M // 2, cache_write_tokens=M // 4)) == 0.5 + 3.125 + 2.5
    assert price.of(TokenUsage(M, 0, M, cached_tokens=2 * M, cache_write_tokens=M)) == 1  # clamped
    assert Price(10, 100).of(TokenUsage(M, M, 2 * M, cached_tokens=M)) == 110


def test_a_write_for_an_hour_has_its_own_price():
    price = price_list().find("https://api.anthropic.com", "claude-sonnet-4-6")
    assert (price.input, price.cache_write, price.cache_write_1h) == (3, 3.75, 6)
    usage = TokenUsage(M, 0, M, cache_write_tokens=M, cache_write_1h_tokens=M // 4)
    assert price.of(usage) == 0.75 * 3.75 + 0.25 * 6
    assert Price(3, 15, cache_write=3.75).of(usage) == 3.75
    assert (usage + usage).cache_write_1h_tokens == usage.with_missed(M).cache_write_1h_tokens * 2
    assert TokenUsage.from_dict(usage.to_dict()) == usage


def test_a_long_request_costs_the_higher_tier_for_all_its_tokens():
    tiers = {"base": 1, "tiers": [{"start": 1000, "price": 2}, {"start": 5000, "price": 4}]}
    known = listed(source(model({"equals": "m"}, input_mtok=tiers, output_mtok=10)))
    price = known.find("https://p.example", "m")
    assert price == Price(1, 10, tiers=((1000, Price(2, 10)), (5000, Price(4, 10))))
    costs = [round(price.of(TokenUsage(n, 100, n + 100)) * M) for n in (1000, 1001, 5001)]
    assert costs == [2000, 3002, 21004]


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [(None, None, None), (1.5, 2.0, 3.5), (1.5, None, None), (None, 2.0, None)],
)
def test_a_sum_with_an_unknown_cost_is_unknown(first, second, both):
    usages = [TokenUsage(1, 1, 2, cost=cost) for cost in (first, second)]
    total = TokenUsage.zero() + usages[0] + TokenUsage.zero() + usages[1]
    assert total.cost == both
    assert TokenUsage.from_dict(total.to_dict()) == total
    assert ("cost" in total.to_dict()) is (both is not None)


@pytest.mark.parametrize(
    ("report", "cost"),
    [
        ({"cost": 0.25}, 0.25),
        ({"cost": 0}, 0.0),
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}}, 0.51),
        ({"cost": 0.01, "is_byok": True}, None),
        ({"cost": {"total_cost": 0.125}}, 0.125),
        ({"cost": -1}, None),
        ({"cost": True}, None),
        ({"cost": "0.2"}, None),
        ({"cost": {}}, None),
        ({}, None),
    ],
)
def test_the_cost_that_a_server_reports_is_read(report, cost):
    usage = TokenUsage.from_openai({"prompt_tokens": 1, "completion_tokens": 1, **report})
    assert usage.cost == cost


# -- runs --------------------------------------------------------------------------------------------

HERE = [{"id": "here", "api_pattern": "http://127", "models": [model({"starts_with": "m"})]}]


def keep(folder, providers=HERE):
    file = folder / "data.json"
    file.write_text(json.dumps(providers), "utf-8")
    return install(file)


def ask(server, **options):
    client = OpenAIClient("m-1", base_url=server.base_url, api_key="k")
    return Agent(llm=client, **options).run("hi")


USAGE = TokenUsage(1000, 500, 1500)
ANSWER = answer("hi", usage=USAGE)


def test_run_costs_the_list_price(folder):
    keep(folder)
    with ScriptedServer([ANSWER]) as server:
        result = ask(server)
    assert result.cost == result.usage.cost == result.state.ledger.cost == pytest.approx(0.002)


def test_a_run_with_an_unknown_price_costs_an_unknown_amount_never_0():
    with ScriptedServer([ANSWER]) as server:
        result = ask(server)
    assert result.cost is None
    assert "cost" not in result.usage.to_dict()


def test_the_prices_of_the_caller_win_over_the_report_and_the_report_over_the_list(folder):
    keep(folder)
    reported = answer("hi", usage=replace(USAGE, cost=0.5))
    with ScriptedServer([reported, reported]) as server:
        assert ask(server).cost == 0.5
        assert ask(server, limits=LoopLimits(prices={"m-1": Price(0, 2)})).cost == pytest.approx(0.001)


def test_max_cost_holds_with_the_prices_of_the_list(folder):
    keep(folder)
    with ScriptedServer([ANSWER]) as server:
        result = ask(server, limits=LoopLimits(max_cost=0.001))
    assert (result.stop_reason, len(server.requests)) == ("completed", 1)
    assert LoopLimits(max_cost=1).prices == {}
    with ScriptedServer([answer(call("x"), usage=USAGE)]) as server:
        result = ask(server, limits=LoopLimits(max_cost=0.001))
    assert (result.stop_reason, len(server.requests)) == ("budget", 1)


def test_max_cost_is_refused_before_any_request_where_the_price_is_unknown():
    with ScriptedServer([]) as server:
        with pytest.raises(ConfigError, match=r"limits\.max_cost is set.*'m-1'.*prices=.*--price"):
            ask(server, limits=LoopLimits(max_cost=1))
        assert not server.requests


def test_a_model_named_for_one_run_needs_a_price_too(folder):
    keep(folder)
    with ScriptedServer([]) as server:
        client = OpenAIClient("m-1", base_url=server.base_url, api_key="k")
        agent = Agent(llm=client, limits=LoopLimits(max_cost=1))
        with pytest.raises(ConfigError, match="'other'"):
            agent.run("hi", model="other")
        assert not server.requests


def test_the_model_that_answered_instead_of_another_is_the_one_to_pay(folder):
    dear = model({"equals": "dear"}, "dear", input_mtok=100, output_mtok=100)
    keep(folder, [{**HERE[0], "models": [dear, *HERE[0]["models"]]}])
    with ScriptedServer([status(503), ANSWER]) as server:
        first, second = (
            OpenAIClient(name, base_url=server.base_url, api_key="k") for name in ("dear", "m-1")
        )
        result = Agent(llm=Fallback([first, second])).run("hi")
    assert result.cost == pytest.approx(0.002)


def test_the_embedded_model_costs_nothing():
    assert EmbeddedClient.price == Price(0, 0)
    free = ScriptedLLM(["hi"])
    free.price = EmbeddedClient.price
    assert price_of(free) == Price(0, 0)
    assert Agent(llm=free, limits=LoopLimits(max_cost=1)).run("hi").cost == 0


# -- another file ------------------------------------------------------------------------------------


def test_a_newer_file_replaces_the_shipped_one_whole(folder):
    before, after = keep(folder)
    assert (before.source.split()[0], [name for _, name, _ in after.entries()]) == ("genai-prices", ["m"])
    assert own_file().exists()
    assert price_list().find("https://api.openai.com/v1", "gpt-4o") is None
    own_file().unlink()
    price_list.cache_clear()
    assert price_list().find("https://api.openai.com/v1", "gpt-4o")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[1]",
        "[]",
        '{"source": "x", "date": "2026-01-01", "licence": "", "currency": "USD", "providers": []}',
        json.dumps(source(model({"equals": "m"}, input_mtok=-1, output_mtok=1))),
        json.dumps(source(model({"regex": "("}))),
        json.dumps(source(model({"sounds_like": "m"}))),
        json.dumps([{**source(model({"equals": "m"}))[0], "api_pattern": "("}]),
    ],
)
def test_a_wrong_file_is_refused_whole(folder, content):
    keep(folder)
    file = folder / "wrong.json"
    file.write_text(content, "utf-8")
    with pytest.raises(ConfigError, match=r"wrong\.json cannot be used as a price list: .*data\.json"):
        install(file)
    assert price_list().find("http://127.0.0.1", "m") == Price(1, 2)


def test_a_missing_file_is_named(folder):
    with pytest.raises(ConfigError, match=r"none\.json cannot be used .*No such file"):
        install(folder / "none.json")
