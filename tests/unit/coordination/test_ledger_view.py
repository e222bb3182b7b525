"""The ledger as plain values."""

from __future__ import annotations

from hexgen_celery.ledger import Load, ledger_view


def test_counters_are_grouped_by_queue_and_instance() -> None:
    view = ledger_view(
        {
            "gpu.a100.p:waiting": "2",
            "gpu.a100.p:running": "1",
            "gpu.a100.p:prefill_tokens": "300",
            "instance/i:1:running": "1",
        }
    )
    assert view.queue("gpu.a100.p") == Load(waiting=2, running=1, prefill_tokens=300)
    assert view.queue("gpu.a100.p").requests == 3
    assert view.instance("i:1").running == 1
    assert set(view.queues) == {"gpu.a100.p"}


def test_what_is_absent_is_idle() -> None:
    view = ledger_view({"unknown:thing": "1"})
    assert view.queues == {}
    assert view.queue("sql") == Load()
    assert view.instance("i") == Load()
