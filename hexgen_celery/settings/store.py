"""The store: what outlives Redis, where it is, and for how long."""

from __future__ import annotations

from pydantic import SecretStr

from hexgen_celery.settings.section import Positive, PositiveInt, Section


class StoreSettings(Section):
    """The database of what happened (docs/store.md). Times in seconds, unless they say days.

    `url`: `sqlite:///…` or `postgresql://…`; none is `store.sqlite` in `up.directory`. While nobody
    records, up to `backlog_entries` beginnings and ends of questions wait in Redis. A recorder
    takes `batch` of them at once, and waits up to `retry_max_seconds` between two tries to reach a
    store that is away. `keep_…_days` count from a question's submission; what belongs to a question
    goes with it at the latest. Pruning deletes `prune_rows` in one transaction.
    """

    enabled: bool = True
    url: SecretStr | None = None
    batch: PositiveInt = 200
    backlog_entries: PositiveInt = 200_000
    retry_max_seconds: Positive = 15.0
    busy_timeout_seconds: Positive = 10.0
    keep_workflows_days: Positive = 365.0
    keep_requests_days: Positive = 90.0
    keep_candidates_days: Positive = 90.0
    keep_executions_days: Positive = 90.0
    keep_decisions_days: Positive = 30.0
    keep_alpha_days: Positive = 365.0
    prune_seconds: Positive = 3600.0
    prune_rows: PositiveInt = 1000
