"""The policy comparison: resumable runs, sums over seeds, the search, and both pages."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.reports import campaign as campaign_module
from hexgen_celery.reports.campaign import Campaign, Cell
from hexgen_celery.reports.figures import Figure, cells, figure, paired_ratios, row, rows
from hexgen_celery.reports.pages import write_pages
from hexgen_celery.reports.policy_report import build_report, number, percent, run_matrix
from hexgen_celery.reports.scenarios import (
    DEFAULT,
    LEAST_OUTSTANDING,
    ROUND_ROBIN,
    Length,
    Matrix,
    Scenario,
    Section,
    full_matrix,
    quick_matrix,
)
from hexgen_celery.reports.sustained import SearchRules, sustained_rates

LENGTH = Length(questions=40, warmup=10)
SMALL = Scenario("small", workload="tiny", fleet="het-30b", databases=2, load=0.5)


def line(number: int) -> dict[str, Any]:
    def request(place: int, step: str, after: list[int], out: int) -> dict[str, Any]:
        return {
            "id": place,
            "stage": step,
            "step": step,
            "after": after,
            "input_tokens": 3000,
            "output_tokens": out,
            "template_tokens": 1500,
            "schema_tokens": 1000,
        }

    return {
        "question": f"q{number}",
        "database": "d",
        "requests": [
            request(0, "generate", [], 100 + 20 * number),
            request(1, "revise", [0], 50),
        ],
        "split": "test" if number % 2 else "train",
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    (directory / "workloads").mkdir()
    text = "\n".join(json.dumps(line(number)) for number in range(8))
    (directory / "workloads" / "tiny.jsonl").write_text(text + "\n", encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def shared(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Campaign(tmp_path_factory.mktemp("raw"), data)


def section(*scenarios: Scenario, key: str = "main") -> Section:
    return Section(key, "Main", scenarios or (SMALL,), (DEFAULT, ROUND_ROBIN), 2)


def test_every_run_is_made_once(shared: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = cells(shared, section(), LENGTH)
    seen: list[tuple[int, int]] = []
    shared.run(wanted, lambda done, of: seen.append((done, of)))
    assert seen == [(n, 4) for n in (1, 2, 3, 4)]

    def never(_job: object) -> None:
        raise AssertionError("a run was repeated")

    monkeypatch.setattr(campaign_module, "_run_job", never)
    shared.run(wanted)


def test_an_interrupted_campaign_goes_on(data: Path, tmp_path: Path) -> None:
    first = Campaign(tmp_path, data)
    wanted = cells(first, section(), LENGTH)
    first.run(wanted[:1])
    again = Campaign(tmp_path, data)
    seen: list[int] = []
    again.run(wanted, lambda done, _of: seen.append(done))
    assert seen == [2, 3, 4]


def test_other_data_means_other_results(data: Path, tmp_path: Path) -> None:
    before = Campaign(tmp_path / "raw", data).directory
    other = tmp_path / "data" / "workloads"
    other.mkdir(parents=True)
    (other / "tiny.jsonl").write_text(json.dumps(line(1)) + "\n", encoding="utf-8")
    assert Campaign(tmp_path / "raw", tmp_path / "data").directory != before


def test_absent_workloads_are_explained(shared: Campaign) -> None:
    with pytest.raises(InvalidWorkload, match="there is no workload"):
        shared.workload("absent")


def test_rows_sum_up_the_seeds(shared: Campaign) -> None:
    shared.run(cells(shared, section(), LENGTH))
    found = rows(shared, section(), LENGTH)
    assert [row.label for row in found] == ["default", "round-robin + fcfs"]
    default = found[0]
    assert default.p95.low <= default.p95.middle <= default.p95.high
    assert 0 < default.bound_p95 <= default.p95.low
    assert default.attainment_at[0][1] <= default.attainment_at[-1][1]
    assert default.rate == pytest.approx(0.5 * shared.place(SMALL).capacity)


def test_ratios_are_taken_seed_by_seed(shared: Campaign) -> None:
    every = cells(shared, section(), LENGTH)
    shared.run(every)
    assert paired_ratios(shared, every[:2], every[:2]) == [1.0, 1.0]
    assert all(ratio > 0 for ratio in paired_ratios(shared, every[2:], every[:2]))


def test_runs_with_a_growing_backlog_take_no_part_in_ratios(
    shared: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = cells(shared, section(), LENGTH)
    shared.run(every)
    record = shared.record(every[0])
    record["summary"]["stable"] = False
    monkeypatch.setattr(shared, "record", lambda _cell: record)
    assert paired_ratios(shared, every[:2], every[2:]) == []


def test_figures_of_runs_that_never_end() -> None:
    assert figure([1.0, None, 3.0]) == Figure(3.0, 1.0, math.inf)
    assert Figure(2.0, 1.0, 3.0).spread == 0.5
    assert number(math.inf) == "never"
    assert number(1234.4) == "1234"
    assert percent(math.nan) == "—"


def test_lost_instances_and_chat_reach_the_simulation(shared: Campaign) -> None:
    scenarios = (
        Scenario("lost", "tiny", "het-30b", 2, 0.4, lost="a100-1"),
        Scenario("chat", "tiny", "het-30b", 2, 0.4, chat_share=1.0),
    )
    wanted = cells(shared, section(*scenarios), LENGTH)
    shared.run(wanted)
    lost, chat = shared.record(wanted[0]), shared.record(wanted[-1])
    assert lost["summary"]["unanswered"] == 0
    assert lost["scenario"]["lost"] == "a100-1"
    assert "chat_p95" in chat["summary"]


def test_the_sustained_rate_meets_the_deadlines(shared: Campaign) -> None:
    rules = SearchRules(precision=0.2)
    found = sustained_rates(shared, [SMALL], [DEFAULT, LEAST_OUTSTANDING], 1, LENGTH, rules)
    assert [one.label for one in found] == ["default", "least-outstanding + fcfs"]
    for one in found:
        assert rules.lowest < one.load < rules.highest
        cell = Cell(SMALL.at(one.load), DEFAULT, 0, LENGTH, one.rate)
        assert cell.rate == pytest.approx(one.load * shared.place(SMALL).capacity)
    cell = Cell(SMALL.at(found[0].load), DEFAULT, 0, LENGTH, found[0].rate)
    shared.run([cell])
    assert shared.record(cell)["summary"]["attainment"] >= rules.attainment


class Page(HTMLParser):
    """What a page refers to, and how many tables and plots it has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href") and value and not value.startswith("#"):
                self.outside.append(value)


def test_the_report_is_written_as_markdown_and_one_page(shared: Campaign, tmp_path: Path) -> None:
    variants = (DEFAULT, ROUND_ROBIN, LEAST_OUTSTANDING)
    matrix = Matrix(
        sections=(
            Section("main", "Main", (SMALL,), variants, 2),
            section(SMALL, SMALL.at(0.8), key="loads"),
            section(key="situations"),
        ),
        searches=(SMALL,),
        searched=variants,
        search_seeds=1,
        length=LENGTH,
    )
    run_matrix(shared, matrix, lambda _done, _of: None)
    markdown, html = write_pages(build_report(shared, matrix), tmp_path)
    text = markdown.read_text(encoding="utf-8")
    assert "## Beside the published figures" in text
    assert "1.42–1.56" in text
    assert "| default |" in text
    page = Page()
    page.feed(html.read_text(encoding="utf-8"))
    assert page.outside == []
    assert page.tags.count("table") == 6
    assert page.tags.count("svg") == 4


def test_unstable_rows_are_not_compared(shared: Campaign) -> None:
    every = cells(shared, section(), LENGTH)
    shared.run(every)
    record = shared.record(every[0])
    record["summary"]["stable"] = False
    assert not row(SMALL, "x", [record]).stable


def test_the_matrices_hold_what_the_protocol_asks() -> None:
    full = full_matrix()
    main = full.sections[0]
    assert main.seeds >= 5
    assert {scenario.fleet for scenario in main.scenarios} == {"het-70b", "het-30b"}
    assert full.length.questions >= 600
    loads = {s.load for part in full.sections for s in part.scenarios}
    assert {0.5, 0.7, 0.9, 1.2} <= loads
    situations = [s for part in full.sections for s in part.scenarios]
    assert {s.databases for s in situations} == {1, 11, 69}
    assert any(not s.prefix_cache for s in situations)
    assert any(s.lost for s in situations)
    assert any(s.chat_share for s in situations)
    assert quick_matrix().length.questions < full.length.questions
