"""Admission corrected by the server's own gauge."""

from __future__ import annotations

import pytest

from hexgen_celery.core.admission import Allowance
from hexgen_celery.errors import ModelUnavailable
from hexgen_celery.transport.leases import HeldLoad
from workers.kv_gauge import GaugedAdmission, kv_usage


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        ('# HELP x\nvllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25\n', 0.25),
        ("vllm:gpu_cache_usage_perc 1e-01\n", 0.1),
        ("vllm:num_requests_running 3\n", None),
        ("", None),
    ],
)
def test_the_gauge_is_found_in_the_metrics(text: str, usage: float | None) -> None:
    assert kv_usage(text) == usage


class _Server:
    usage = 0.0
    asked = 0
    away = False

    def metrics(self) -> str:
        self.asked += 1
        if self.away:
            raise ModelUnavailable("gone")
        return f"vllm:kv_cache_usage_perc {self.usage}"


def _admission(server: _Server) -> GaugedAdmission:
    def left(held: HeldLoad) -> Allowance:
        return Allowance(1000 - held.kv_tokens, 0, 9)

    return GaugedAdmission(left, 1000, server.metrics)


def test_what_the_gauge_shows_beyond_the_ledger_is_not_given_away() -> None:
    server = _Server()
    admission = _admission(server)
    server.usage = 0.6
    assert admission(HeldLoad(2, 400)).kv_tokens == 600
    admission.look()
    assert admission(HeldLoad(2, 400)).kv_tokens == 400
    assert admission(HeldLoad(3, 500)).kv_tokens == 300


def test_a_gauge_below_the_ledger_gives_nothing_away_that_is_reserved() -> None:
    server = _Server()
    admission = _admission(server)
    server.usage = 0.1
    admission(HeldLoad(2, 400))
    admission.look()
    assert admission(HeldLoad(2, 400)).kv_tokens == 600


def test_an_idle_server_is_not_asked_and_nothing_is_remembered() -> None:
    server = _Server()
    admission = _admission(server)
    admission.look()
    assert server.asked == 0
    server.usage = 0.9
    admission(HeldLoad(1, 100))
    admission.look()
    admission(HeldLoad())
    admission.look()
    assert admission(HeldLoad(1, 100)).kv_tokens == 900
    assert server.asked == 1


def test_a_server_that_does_not_answer_changes_nothing() -> None:
    server = _Server()
    admission = _admission(server)
    server.usage = 0.6
    admission(HeldLoad(2, 400))
    admission.look()
    server.away = True
    admission.look()
    assert admission(HeldLoad(2, 400)).kv_tokens == 400
