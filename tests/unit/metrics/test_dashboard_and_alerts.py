"""Dashboard, alerts and documentation speak of metrics that exist, by labels that they have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hexgen_celery.metrics.catalogue import CATALOGUE, Metric

PROJECT = Path(__file__).resolve().parents[3]
DEPLOY = PROJECT / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "hexgen.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
CONFIG = DEPLOY / "prometheus" / "prometheus.yml"

SAMPLES: dict[str, Metric] = {name: metric for metric in CATALOGUE for name in metric.samples}
OF_THE_CLIENT = ("process_cpu_seconds_total", "process_resident_memory_bytes")
OF_THE_SCRAPE = {"instance", "worker", "job", "kind", "le", "version"}
NAME = re.compile(r"\b(?:hexgen|process|python)_\w+")
SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!=|!~|=)")
GROUPING = re.compile(r"\b(?:by|without|on)\s*\(([^)]*)\)")


def _alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return panels


def _queries() -> Iterator[tuple[str, str]]:
    for panel in _panels():
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


EXPRESSIONS = [*_queries(), *((rule["alert"], rule["expr"]) for rule in _alerts())]


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_every_metric_that_is_asked_for_exists(where: str, expression: str) -> None:
    named = set(NAME.findall(expression))
    assert named, where
    assert named <= set(SAMPLES) | set(OF_THE_CLIENT), where


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS)
def test_every_label_that_is_asked_for_exists(where: str, expression: str) -> None:
    metrics = [SAMPLES[name] for name in NAME.findall(expression) if name in SAMPLES]
    known = OF_THE_SCRAPE.union(*(metric.labels for metric in metrics))
    for name, matchers in SELECTOR.findall(expression):
        own = set(SAMPLES[name].labels) | OF_THE_SCRAPE if name in SAMPLES else OF_THE_SCRAPE
        assert set(MATCHER.findall(matchers)) <= own, f"{where}: {name}"
    for grouping in GROUPING.findall(expression):
        assert {label.strip() for label in grouping.split(",")} <= known, where


def test_the_dashboard_shows_every_metric_of_the_cluster_and_of_work() -> None:
    shown = {name for _, expression in _queries() for name in NAME.findall(expression)}
    unseen = [metric.name for metric in CATALOGUE if not shown & set(metric.samples)]
    assert unseen == []


def test_panels_have_their_own_place_and_number() -> None:
    panels = _panels()
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)


def test_every_alert_names_its_severity_and_where_to_read_about_it() -> None:
    text = (PROJECT / "docs" / "operations.md").read_text()
    sections = set(re.findall(r"^### (Hexgen\w+)$", text, re.MULTILINE))
    assert {rule["alert"] for rule in _alerts()} == sections
    for rule in _alerts():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        anchor = rule["alert"].lower()
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{anchor}"


def test_the_documentation_lists_exactly_the_metrics_there_are() -> None:
    text = (PROJECT / "docs" / "monitoring.md").read_text()
    rows = re.findall(r"^\| `(hexgen_\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|$", text, re.MULTILINE)
    expected = [
        (metric.name, str(metric.kind), ", ".join(metric.labels) or "—", metric.help)
        for metric in CATALOGUE
    ]
    assert sorted(rows) == sorted(expected)


def _promtool(*arguments: str) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian's package `prometheus` has it)")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_configuration_and_rules() -> None:
    _promtool("check", "config", str(CONFIG))


def test_prometheus_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"query{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, (_, expression) in enumerate(_queries())
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    _promtool("check", "rules", str(file))
