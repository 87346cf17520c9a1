"""Alerts and board of `deploy/`: each metric and label in them is one that a worker or a server exports."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
from pathlib import Path

import httpx2
import pytest
import yaml

from pure_agent_loop.durable import WorkerProcess
from tests.server.conftest import OWNER, events_of
from tests.server.pal_serve import PATIENCE, Page
from tests.serving import free_port

ROOT = Path(__file__).parents[2]
OF_PROMETHEUS = {"job", "instance"}  # labels of each target
SERIES = re.compile(r"\b(up|pal_\w+)(?:\{([^}]*)\})?")


def alerts():
    """The name and the expression of each alert."""
    (group,) = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["groups"]
    return [(rule["alert"], rule["expr"]) for rule in group["rules"]]


def panels():
    """The title and the expression of each line of the board."""
    board = json.loads((ROOT / "deploy/grafana-board.json").read_text())
    return [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]


def exported(text):
    """The labels of each metric; None for one without a value so far."""
    found = dict.fromkeys(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        found[name] = {*re.findall(r'(\w+)="', labels)}
    return found


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """The labels of each metric, of a server and of its worker after some runs."""
    port, patch = free_port(), pytest.MonkeyPatch()
    page = Page(tmp_path_factory.mktemp("page"), "--no-work")
    for name, value in page.environment.items():
        patch.setenv(name, value)
    words = ["worker", "--agents", "tests.server.dying_agents:agents", "--database", page.database]
    words += ["--deps", "tests.server.dying_agents:make_deps"]
    command = [sys.executable, "-m", "pure_agent_loop", *words, "--health", str(port)]
    headers = {"Authorization": f"Bearer {OWNER}"}
    try:
        with (
            WorkerProcess(command, page.database),
            httpx2.Client(base_url=page.url, headers=headers, timeout=PATIENCE) as client,
        ):
            begun = client.post("/api/runs", json={"text": "live"}).json()
            assert events_of(client, begun["id"])[-1]["data"]["state"] == "completed"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
                worker = exported(answer.read().decode())
            assert httpx2.get(f"{page.url}/metrics").status_code == 401
            deadly = page.engine.submit("helper", "live", session_id="needy")  # dies before each attempt
            give_up = time.monotonic() + PATIENCE
            while (server := exported(client.get("/metrics").text))["pal_run_attempts"] is None:
                assert time.monotonic() < give_up
                time.sleep(0.1)
            deadly.cancel()
    finally:
        page.close()
        patch.undo()
    both = {name: labels for name, labels in worker.items() if labels and server.get(name)}
    assert both == {name: server[name] for name in both}
    return {**worker, **{name: labels for name, labels in server.items() if labels is not None}, "up": set()}


@pytest.mark.parametrize(("name", "expression"), [*alerts(), *panels()])
def test_expression_uses_metrics_and_labels_that_are_exported(metrics, name, expression):
    used = SERIES.findall(expression)
    assert used, name
    for metric, selector in used:
        assert metrics.get(metric) is not None, metric
        assert {*re.findall(r"(\w+)\s*(?:=|!=)", selector)} <= metrics[metric] | OF_PROMETHEUS
    known = set().union(*(metrics[metric] for metric, _ in used)) | OF_PROMETHEUS
    grouped = {label for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(", ")}
    assert grouped <= known
    assert expression.count("(") == expression.count(")")


def test_texts_of_alerts_and_legends_use_labels_of_their_expression():
    rules = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["groups"][0]["rules"]
    texts = [(rule["annotations"]["summary"], rule["expr"]) for rule in rules]
    board = json.loads((ROOT / "deploy/grafana-board.json").read_text())
    texts += [(each["legendFormat"], each["expr"]) for panel in board["panels"] for each in panel["targets"]]
    for text, expression in texts:
        labels = re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", text)
        assert all(re.search(rf"\b{label}\b", expression) or label in OF_PROMETHEUS for label in labels), text


def test_documentation_names_every_alert():
    page = (ROOT / "docs/production/monitoring.md").read_text()
    assert {name for name, _ in alerts()} == {*re.findall(r"`(Pal\w+)`", page)}
