"""The server's metrics under vLLM's names, in emulated seconds and tokens."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric

from workers.emulation.timing import Ticket, Timing

ENGINE = "0"
# What vLLM does not tell: emulated seconds in which the engine computed.
BUSY_SECONDS = "emulator:busy_seconds"
LABELS = ("engine", "model_name")
SHORT_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10)
LONG_SECONDS = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960)
INTER_TOKEN_SECONDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)


class ServerMetrics:
    """Gauges and counters read from the timing when asked; histograms fed by finished requests."""

    def __init__(self, timing: Timing, model: str, block_tokens: int) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_LiveMetrics(timing, model, block_tokens))
        self._timing = timing
        histogram = self._histogram_of(model)
        self._first_token = histogram("time_to_first_token_seconds", SHORT_SECONDS)
        self._inter_token = histogram("inter_token_latency_seconds", INTER_TOKEN_SECONDS)
        self._end_to_end = histogram("e2e_request_latency_seconds", LONG_SECONDS)
        self._queue = histogram("request_queue_time_seconds", LONG_SECONDS)
        self._prefill = histogram("request_prefill_time_seconds", LONG_SECONDS)
        self._decode = histogram("request_decode_time_seconds", LONG_SECONDS)

    def _histogram_of(self, model: str) -> _HistogramMaker:
        return _HistogramMaker(self._registry, model)

    def finished(self, ticket: Ticket) -> None:
        """Count a finished request.

        The engine model does not tell admission from arrival: what its own prefill does not explain
        of the time to the first token counts as queueing.
        """
        first = ticket.first_token_at - ticket.submitted_at
        decode = ticket.finished_at - ticket.first_token_at
        prefill = min(first, self._timing.prefill_seconds(ticket))
        self._first_token.observe(first)
        self._end_to_end.observe(first + decode)
        self._queue.observe(first - prefill)
        self._prefill.observe(prefill)
        self._decode.observe(decode)
        if ticket.request.output_tokens > 1:
            self._inter_token.observe(decode / (ticket.request.output_tokens - 1))

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)


class _HistogramMaker:
    """Makes the histograms of one server."""

    def __init__(self, registry: CollectorRegistry, model: str) -> None:
        self._registry = registry
        self._model = model

    def __call__(self, name: str, buckets: tuple[float, ...]) -> Histogram:
        family = Histogram(
            f"vllm:{name}", "Emulated seconds.", LABELS, buckets=buckets, registry=self._registry
        )
        return family.labels(ENGINE, self._model)


class _LiveMetrics:
    """The part that is read at the moment of the scrape."""

    def __init__(self, timing: Timing, model: str, block_tokens: int) -> None:
        self._timing = timing
        self._labels = (ENGINE, model)
        self._block_tokens = block_tokens

    def collect(self) -> Iterator[Metric]:
        """Called by prometheus_client at each scrape."""
        yield from self._gauges()
        yield from self._counters()
        yield self._cache_config()

    def _gauges(self) -> Iterator[Metric]:
        timing = self._timing
        capacity = timing.kv_capacity_tokens
        values = {
            "num_requests_running": timing.running,
            "num_requests_waiting": timing.waiting,
            "kv_cache_usage_perc": timing.kv_used_tokens / capacity if capacity else 0.0,
        }
        for name, value in values.items():
            gauge = GaugeMetricFamily(f"vllm:{name}", "Emulated.", labels=LABELS)
            gauge.add_metric(self._labels, value)
            yield gauge

    def _counters(self) -> Iterator[Metric]:
        counters = self._timing.counters
        values = {
            "vllm:prompt_tokens": counters.prompt_tokens,
            "vllm:generation_tokens": counters.generation_tokens,
            "vllm:prefix_cache_queries": counters.prefix_queries,
            "vllm:prefix_cache_hits": counters.prefix_hits,
            "vllm:num_preemptions": counters.preemptions,
            BUSY_SECONDS: counters.busy_seconds,
        }
        for name, value in values.items():
            counter = CounterMetricFamily(name, "Emulated.", labels=LABELS)
            counter.add_metric(self._labels, value)
            yield counter

    def _cache_config(self) -> Metric:
        labels = (*LABELS, "block_size", "kv_cache_size_tokens")
        info = GaugeMetricFamily("vllm:cache_config_info", "Emulated.", labels=labels)
        sizes = (str(self._block_tokens), str(self._timing.kv_capacity_tokens))
        info.add_metric((*self._labels, *sizes), 1)
        return info
