"""Every metric of ours: name, kind, labels, meaning. Documentation, dashboard and alerts are tested
against this list."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Prometheus' kinds of metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
LAXITY_SECONDS = (
    -60.0,
    -30.0,
    -10.0,
    -5.0,
    -2.0,
    -1.0,
    0.0,
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
)
RATIOS = (0.1, 0.25, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `name` is without the suffixes (`_total`, `_bucket`) of its samples."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def samples(self) -> tuple[str, ...]:
        """The names that a query may use."""
        if self.kind is Kind.COUNTER:
            return (f"{self.name}_total",)
        if self.kind is Kind.HISTOGRAM:
            # The client leaves the sum out where values may be negative: it would not only grow.
            suffixes = ("bucket", "count") if self.buckets[0] < 0 else ("bucket", "count", "sum")
            return tuple(f"{self.name}_{suffix}" for suffix in suffixes)
        return (self.name,)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"hexgen_{name}", Kind.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"hexgen_{name}", Kind.GAUGE, text, labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(f"hexgen_{name}", Kind.HISTOGRAM, text, labels, buckets)


# What LLM and sql workers saw happen.
LAXITY = _histogram(
    "request_laxity_seconds",
    "Laxity of a request when a worker claimed it; negative: too late by the estimates",
    LAXITY_SECONDS,
    "pool",
)
WAIT = _histogram(
    "request_wait_seconds",
    "From a request's prerequisites being complete to its claim",
    SECONDS,
    "stage",
    "pool",
)
DURATION = _histogram(
    "request_seconds", "From a request's claim to its end", SECONDS, "stage", "llm_instance"
)
FIRST_TOKEN = _histogram(
    "request_first_token_seconds",
    "From asking the LLM server to its first token",
    SECONDS,
    "stage",
    "llm_instance",
)
ENDED = _counter(
    "requests",
    "Attempts at requests by how they ended: done, failed, cancelled or handed_back",
    "stage",
    "pool",
    "verdict",
)
ERRORS = _counter("request_errors", "Failed attempts by the code of their error", "stage", "code")
RETRIES = _counter("request_retries", "Attempts that were not a request's first", "stage")
TOKENS = _counter(
    "tokens",
    "Tokens by instance: input, output, and input found in the cache",
    "llm_instance",
    "kind",
)
SQL = _counter("sql_statements", "Statements in the sandbox by verdict", "verdict")

# What control workers saw happen.
REFUSED = _counter("submissions_refused", "Questions refused, by the code of the reason", "code")
TIMERS = _counter(
    "timer_actions",
    "What timers did: expired questions, lease_lost requests, resent messages, delivered results",
    "action",
)
PREDICTION = _histogram(
    "prediction_ratio", "Predicted over true value, by what was predicted", RATIOS, "about"
)
COVERED = _counter(
    "predictions",
    "Predictions that came out, by whether the truth lay within the 80 % interval",
    "about",
    "inside",
)

# Every process.
SWEPT = _counter(
    "leases_swept",
    "Queued messages whose lease ended: put_back, buried (dead letters), extended after a gap",
    "outcome",
)
PROCESS = _gauge("process_info", "Always 1; which process this is", "kind", "worker", "version")

# The recorder.
RECORDED = _counter("recorder_rows", "Rows written to the store")

# The cluster, read from Redis by control workers; every one of them tells the same.
QUEUE_WAITING = _gauge("queue_waiting", "Requests that wait, by pool", "pool")
QUEUE_LATE = _gauge("queue_late", "Of those, demoted ones: too late by the estimates", "pool")
QUEUE_WORK = _gauge(
    "queue_work_seconds", "Estimated seconds of work that waits, on one instance", "pool"
)
UNACCEPTED = _gauge("submissions_waiting", "Questions that wait for a control worker")
INSTANCE_STATE = _gauge(
    "instance_state", "1 for the state the instance is in", "pool", "llm_instance", "state"
)
INSTANCE_RUNNING = _gauge("instance_running", "Requests running", "pool", "llm_instance")
INSTANCE_WAITING = _gauge(
    "instance_waiting", "Requests in the instance's own queue", "pool", "llm_instance"
)
INSTANCE_KV = _gauge(
    "instance_kv_ratio",
    "Tokens of the running requests, by estimate, over the KV memory of the profile",
    "pool",
    "llm_instance",
)
INSTANCE_BEAT = _gauge(
    "instance_heartbeat_age_seconds", "Since its worker last announced it", "pool", "llm_instance"
)
QUESTIONS = _counter(
    "questions",
    "Questions: accepted, refused, answered, failed, expired, cancelled, and met (in time)",
    "tenant",
    "slo_class",
    "outcome",
)
RUNNING = _gauge("questions_running", "Questions that have not ended")
IN_FLIGHT = _gauge("tenant_in_flight", "Questions that have not ended, by tenant", "tenant")
OUTBOX = _gauge("outbox_entries", "Requests not claimed and results not stored yet")
OUTBOX_UNSENT = _gauge("outbox_unsent", "Of those, what is in no queue either")
OUTBOX_OVERDUE = _gauge(
    "outbox_overdue_seconds", "For how long nobody looked after the one that is due first"
)
LEASES_OVERDUE = _gauge("leases_overdue", "Running requests whose lease has ended")
TIMERS_AGE = _gauge("timers_age_seconds", "Since any control worker last looked at the timers")
DEAD_LETTERS = _gauge("dead_letters", "Messages that were given up")
ALPHA = _gauge("dispatch_alpha", "Dispatch weight α in force, by scope (tenant@model)", "scope")
RECORDER_WAITING = _gauge("recorder_waiting", "Entries that are not in the store yet")
RECORDER_LAG = _gauge("recorder_lag_seconds", "Age of the oldest of them")
RECORDER_DROPPED = _counter(
    "recorder_dropped", "Entries dropped unread because too many waited for the store"
)
RECORDER_ASIDE = _gauge("recorder_aside", "Entries set aside because they cannot be stored")
COVERAGE = _gauge(
    "estimate_coverage", "Share of recent truths within the 80 % interval, from 20 on", "about"
)
BIAS = _gauge(
    "estimate_bias_ratio",
    "Mean error of recent predictions over the mean truth, from 20 on",
    "about",
)
EVENTS = _gauge("events_entries", "Events in the deployment's stream")
PROCESSES = _gauge("processes", "Processes that announce an endpoint, by kind", "kind")
REDIS_UP = _gauge("redis_up", "1 while the cluster's figures could be read from Redis")

CATALOGUE: tuple[Metric, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
