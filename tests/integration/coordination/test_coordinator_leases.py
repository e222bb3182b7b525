"""Workers that die: their leases end and their requests get new attempts."""

from __future__ import annotations

import redis

from hexgen_celery.coordination import Coordinator, OutboxEntry
from hexgen_celery.keys import Keys
from tests.integration.coordination.support import (
    MemoryBroker,
    PassTime,
    attempt,
)


class TestLeases:
    def test_a_dead_workers_request_gets_a_new_attempt(
        self, coordinator: Coordinator, broker: MemoryBroker, one: OutboxEntry, pass_time: PassTime
    ) -> None:
        coordinator.claim(one.ref, worker="dead")
        assert coordinator.tick().idle
        pass_time(60)
        assert coordinator.tick().lost == 1
        assert broker.messages[0].ref == attempt(one.ref, 2)
        assert coordinator.renew("dead", [one.ref]) == [one.ref]

    def test_a_renewed_lease_holds(
        self, coordinator: Coordinator, one: OutboxEntry, pass_time: PassTime
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        pass_time(14)
        assert coordinator.renew("w", [one.ref]) == []
        pass_time(14)
        assert coordinator.tick().lost == 0

    def test_lost_attempts_count(
        self, coordinator: Coordinator, broker: MemoryBroker, one: OutboxEntry, pass_time: PassTime
    ) -> None:
        coordinator.tick()
        broker.messages.append(one)
        while broker.messages:
            coordinator.claim(broker.take().ref, worker="dead")
            pass_time(20)
            coordinator.tick()
        result = broker.result(one.ref.workflow_id)
        assert result.body["stages"][0]["attempt"] == 3
        assert "lease" in result.body["cause"]

    def test_after_a_gap_without_sweeps_all_leases_are_extended_once(
        self,
        coordinator: Coordinator,
        one: OutboxEntry,
        redis_client: redis.Redis,
        keys: Keys,
        pass_time: PassTime,
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        coordinator.tick()
        redis_client.decrby(keys.swept, 60_000)
        pass_time(60)
        assert coordinator.tick().lost == 0
        pass_time(16)
        assert coordinator.tick().lost == 1

    def test_a_gap_so_long_that_the_last_sweep_is_forgotten_is_a_gap(
        self,
        coordinator: Coordinator,
        one: OutboxEntry,
        redis_client: redis.Redis,
        keys: Keys,
        pass_time: PassTime,
    ) -> None:
        coordinator.claim(one.ref, worker="w")
        coordinator.tick()
        redis_client.delete(keys.swept)
        pass_time(360)
        assert coordinator.tick().lost == 0
        assert coordinator.renew("w", [one.ref]) == []
