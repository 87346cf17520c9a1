"""``pal cost``, end to end: what runs cost, and the prices in use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pure_agent_loop import Agent, TokenUsage
from pure_agent_loop.sessions import SqliteStore
from pure_agent_loop.testing import ScriptedServer, answer

USAGE = TokenUsage(1000, 500, 1500)
DATA = [
    {
        "id": "here",
        "api_pattern": "http://127",
        "models": [
            {"id": "m", "match": {"contains": "script"}, "prices": {"input_mtok": 1, "output_mtok": 2}},
            {"id": "z", "match": {"equals": "z"}, "prices": {"input_mtok": 9, "output_mtok": 9}},
        ],
    }
]


def run(pal, *words, usage=USAGE):
    with ScriptedServer([answer("done", usage=usage)]) as server:
        pal.use(server)
        done = pal("run", *words, "x")
    assert done.returncode == 0, done.stderr
    return done.stderr


def keep(pal, data=DATA):
    file = pal.workspace / "data.json"
    file.write_text(json.dumps(data), "utf-8")
    return pal("cost", "update", str(file), "--json")


def test_before_any_run_there_is_nothing_to_sum_up(pal):
    done = pal("cost")
    assert (done.returncode, done.stdout) == (0, "")
    assert "No requests are recorded" in done.stderr


def test_runs_are_summed_up_with_known_and_unknown_costs(pal):
    assert "cost" not in run(pal, "--session", "a")
    assert "1500 tokens, cost 0.0020, " in run(pal, "--session", "b", "--price", "1,2")
    shown = pal("cost", "--by", "session")
    a, b, total = (line.split() for line in shown.stdout.splitlines())
    assert (a[0], a[-1], b[0], b[-1]) == ("a", "unknown", "b", "$0.0020")
    assert total[0] == "total"
    assert shown.stdout.splitlines()[2].endswith("$0.0020 + unknown")
    assert "The cost of 1 requests is unknown" in shown.stderr
    plain = json.loads(pal("cost", "--json", "--since", "1h").stdout)
    assert plain["total"] == {
        "requests": 2,
        "tokens": 3000,
        "cost": None,
        "known_cost": 0.002,
        "unpriced_requests": 1,
    }
    assert [row["requests"] for row in plain["costs"]] == [2]
    assert "未知" in pal("cost", "--by", "session", LANG="zh_CN.UTF-8", LC_ALL="zh_CN.UTF-8").stdout


def test_costs_have_the_currency_of_the_prices(pal):
    run(pal, "--session", "a", "--price", "1,2")
    own = Path(pal.env["PAL_HOME"]) / "prices.json"
    assert keep(pal).returncode == 0
    for currency, shown in (("EUR", "€0.0020"), ("SEK", "0.0020 SEK")):
        own.write_text(json.dumps({**json.loads(own.read_text()), "currency": currency}))
        assert pal("cost").stdout.splitlines()[-1].endswith(shown)


def test_runs_are_summed_up_by_a_key_of_their_metadata(pal):
    store = SqliteStore(pal.workspace / "s.sqlite")
    for number, tenant in enumerate(("north", None, "north")):
        with ScriptedServer([answer("done", usage=USAGE)]) as server:
            about = {"metadata": {"tenant": tenant}} if tenant else {}
            Agent("m", "k", server.base_url).run("x", session_id=f"s{number}", sessions=store, **about)
    named = ("--by", "metadata.tenant", "--database", f"sqlite:///{pal.workspace / 's.sqlite'}", "--json")
    costs = json.loads(pal("cost", *named).stdout)["costs"]
    assert [(row["metadata.tenant"], row["requests"]) for row in costs] == [("", 1), ("north", 2)]
    assert "metadata.KEY" in pal("cost", "--by", "tenant").stderr


def test_max_cost_works_with_the_prices_of_a_file(pal):
    with ScriptedServer([]) as server:
        pal.use(server)
        refused = pal("run", "--max-cost", "1", "x")
    assert refused.returncode == 2
    assert "--price IN,OUT" in refused.stderr
    assert keep(pal).returncode == 0
    run(pal, "--max-cost", "1")
    assert json.loads(pal("cost", "--json").stdout)["total"]["cost"] == 0.002


def test_price_update_lists_its_changes(pal):
    first = json.loads(keep(pal).stdout)
    assert (first["source"], first["added"]) == ("genai-prices", ["here/m", "here/z"])
    assert len(first["removed"]) > 1_000
    newer = json.loads(json.dumps(DATA))
    newer[0]["models"][0]["prices"]["output_mtok"] = 4
    (pal.workspace / "data.json").write_text(json.dumps(newer), "utf-8")
    second = pal("cost", "update", "data.json")
    assert "here/m  1,2 -> 1,4" in second.stdout
    assert "0 added, 0 removed, 1 changed" in second.stderr
    listed = json.loads(pal("cost", "prices", "--json").stdout)
    assert [(row["model"], row["output"]) for row in listed["prices"]] == [("m", 4), ("z", 9)]
    assert listed["own_file"].endswith("prices.json")
    assert "here/z" not in pal("cost", "prices", "here/m*").stdout
    assert "No known price matches 'nope'" in pal("cost", "prices", "nope").stderr


@pytest.mark.parametrize("content", ["{", '{"models": []}', "[]"])
def test_a_wrong_file_changes_nothing(pal, content):
    (pal.workspace / "wrong.json").write_text(content, "utf-8")
    done = pal("cost", "update", "wrong.json")
    assert done.returncode == 2
    assert "wrong.json cannot be used as a price list" in done.stderr
    assert "genai-prices" in pal("cost", "prices", "gpt-4o").stderr
    assert pal("cost", "--by", "colour").returncode == 2


def test_the_limit_of_a_day_ends_a_run_before_its_first_request(pal):
    run(pal, "--price", "1,2", "--max-cost-per-day", "0.001")
    with ScriptedServer([]) as server:
        pal.use(server)
        done = pal("run", "--price", "1,2", "--max-cost-per-day", "0.001", "x")
    assert done.returncode == 3
    assert "limits.max_cost_per_day is reached" in done.stdout
    (pal.workspace / "pal.toml").write_text("[limits]\nmax_cost_per_day = 1\nprice = [1, 2]\n", "utf-8")
    shown = json.loads(pal("config", "show", "--json", PAL_TRUST_FOLDER="1").stdout)
    assert "limits.max_cost_per_day" in json.dumps(shown)


def test_serving_your_own_agents_refuses_limits_of_the_default_one(pal):
    done = pal("serve", "--agents", "x:y", "--max-cost-per-day", "1")
    assert done.returncode == 2
    assert "--max-cost-per-day cannot be combined with --agents" in done.stderr
