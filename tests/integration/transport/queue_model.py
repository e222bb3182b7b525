"""The queues as plain Python: what the scripts must do, without Redis."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from hexgen_celery.core.admission import Allowance, ClaimCost
from hexgen_celery.core.order.claim import ClaimRules, select
from hexgen_celery.transport.messages import Urgency


@dataclass
class Entry:
    """One message. `holder` is empty while it waits; as an entry it is what `select` reads."""

    token: str
    queue: str
    urgency: Urgency
    holder: str = ""
    prefilled: bool = False
    deliveries: int | None = None
    passed_over: int = 0

    @property
    def request_id(self) -> str:
        return self.token

    @property
    def key(self) -> float:
        return self.urgency.key

    @property
    def feasible_until(self) -> float:
        return self.urgency.feasible_until

    @property
    def since(self) -> float:
        return self.urgency.since

    @property
    def cost(self) -> ClaimCost:
        return self.urgency.cost


@dataclass
class QueueModel:
    """All messages of a deployment's sorted sets."""

    rules: ClaimRules
    max_deliveries: int
    entries: dict[str, Entry] = field(default_factory=dict)
    dead: dict[str, Entry] = field(default_factory=dict)
    claims: dict[str, int] = field(default_factory=dict)

    def waiting(self, *queues: str) -> list[Entry]:
        return [e for e in self.entries.values() if not e.holder and e.queue in queues]

    def held(self, holder: str) -> list[str]:
        return [e.token for e in self.entries.values() if e.holder == holder]

    def put(self, token: str, queue: str, urgency: Urgency) -> bool:
        if token in self.entries:
            return False
        self.entries[token] = Entry(token, queue, urgency)
        return True

    def claim(self, holder: str, queues: tuple[str, ...], allowance: Allowance) -> Entry | None:
        counted = self.claims.get(queues[0], 0)
        choice = select(self.waiting(*queues), time.time(), counted, allowance, self.rules)
        if choice.taken is None:
            return None
        self.claims[queues[0]] = counted + 1
        if choice.passed_over is not None:
            choice.passed_over.passed_over += 1
        choice.taken.holder = holder
        choice.taken.passed_over = 0
        return choice.taken

    def first_token(self, holder: str, token: str) -> bool:
        entry = self.entries.get(token)
        if entry is None or entry.holder != holder or entry.prefilled:
            return False
        entry.prefilled = True
        return True

    def ack(self, token: str) -> bool:
        return self.entries.pop(token, None) is not None

    def requeue(self, holder: str, token: str) -> bool:
        entry = self.entries.get(token)
        if entry is None or entry.holder != holder:
            return False
        self.hand_back(token)
        return True

    def hand_back(self, token: str) -> None:
        """Back to its queue, if it is held."""
        entry = self.entries.get(token)
        if entry is not None and entry.holder:
            self._release(entry)
            entry.deliveries = entry.deliveries or 0

    def reject(self, holder: str, token: str) -> bool:
        entry = self.entries.get(token)
        if entry is None or entry.holder != holder:
            return False
        self.dead[token] = self.entries.pop(token)
        return True

    def end_lease(self, token: str) -> None:
        entry = self.entries[token]
        self._release(entry)
        entry.deliveries = (entry.deliveries or 0) + 1
        if entry.deliveries >= self.max_deliveries:
            self.dead[token] = self.entries.pop(token)

    def renew(self, holder: str, tokens: list[str]) -> list[str]:
        lost = []
        for token in tokens:
            entry = self.entries.get(token)
            if entry is not None and entry.holder in ("", holder):
                entry.holder = holder
                entry.passed_over = 0 if entry.passed_over else entry.passed_over
            else:
                lost.append(token)
        return lost

    def rescore(self, token: str, key: float, feasible_until: float) -> bool:
        entry = self.entries.get(token)
        if entry is None:
            return False
        entry.urgency = replace(entry.urgency, key=key, feasible_until=feasible_until)
        return True

    def redirect(self, token: str, target: str, urgency: Urgency) -> bool:
        entry = self.entries.get(token)
        if entry is None or entry.holder:
            return False
        entry.queue = target
        entry.urgency = replace(urgency, since=entry.urgency.since)
        entry.passed_over = 0
        return True

    def remove(self, token: str) -> bool:
        entry = self.entries.get(token)
        if entry is None or entry.holder:
            return False
        del self.entries[token]
        return True

    def redrive(self, token: str) -> bool:
        entry = self.dead.pop(token, None)
        if entry is None:
            return False
        if token not in self.entries:
            self.entries[token] = Entry(token, entry.queue, entry.urgency)
        return True

    def load(self) -> dict[str, int]:
        counters: dict[str, int] = {}
        for entry in self.entries.values():
            work = entry.urgency
            prefill = 0 if entry.prefilled else work.prefill_us
            for measure, amount in (("prefill_us", prefill), ("decode_us", work.decode_us)):
                name = f"{entry.queue}:{measure}"
                counters[name] = counters.get(name, 0) + amount
        return {name: amount for name, amount in counters.items() if amount}

    @staticmethod
    def _release(entry: Entry) -> None:
        entry.holder = ""
        entry.prefilled = False
