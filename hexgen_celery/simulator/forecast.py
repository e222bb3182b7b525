"""What the policies of a run believe about outputs and remaining paths.

Estimates are trained on one split of the workload and stay fixed in a run, so that a run measures
policies and not the course of learning; the truth of the arriving questions is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hexgen_celery.core.estimates import OutputEstimator, PathEstimator, PathNode, critical_path
from hexgen_celery.core.fleet import Fleet
from hexgen_celery.core.prefix import prefix_tokens
from hexgen_celery.simulator.plan import CHAT, PlannedRequest, QuestionPlan
from hexgen_celery.workloads import WorkloadRequest


@dataclass(frozen=True, slots=True)
class ForecastSettings:
    """`batch`: how many sequences are assumed to decode together when seconds are estimated."""

    batch: float = 4.0


class Forecast:
    """Estimates for the requests of one run. Seconds are means over the fleet's instances."""

    def __init__(self, fleet: Fleet, settings: ForecastSettings | None = None) -> None:
        self._batch = (settings or ForecastSettings()).batch
        self._profiles = [instance.profile for instance in fleet.instances]
        self._outputs = OutputEstimator()
        self._paths = PathEstimator()
        self._output_cache: dict[tuple[str, str, str], int] = {}
        self._remaining_cache: dict[PlannedRequest, tuple[float, float]] = {}
        self._stage_seconds: dict[str, tuple[int, float]] = {}

    def train(self, plans: Iterable[QuestionPlan]) -> None:
        """Learn from finished questions."""
        for plan in plans:
            for node in plan.nodes:
                request = node.request
                self.learn_output(request, plan.database)
            path_nodes = self._path_nodes(plan)
            self._paths.observe(path_nodes, plan.database)
            self._learn_stages(path_nodes)
        self._output_cache.clear()
        self._remaining_cache.clear()

    def learn_output(self, request: WorkloadRequest, database: str) -> None:
        """Learn how long one answer was."""
        self._outputs.observe(request.stage, request.step, database, request.output_tokens)

    def output_tokens(self, request: WorkloadRequest, database: str) -> int:
        """L̂_out of a request, rounded to whole tokens so that sums of them cancel exactly.

        Looks at stage and step, never at the request's true output.
        """
        key = (request.stage, request.step, database)
        known = self._output_cache.get(key)
        if known is None:
            known = self._output_cache[key] = max(1, round(self._outputs.estimate(*key).mean))
        return known

    def remaining(self, node: PlannedRequest, database: str) -> tuple[float, float]:
        """Mean and 10th percentile of the seconds from this request's start to the question's end.

        Nothing follows a chat request.
        """
        known = self._remaining_cache.get(node)
        if known is None:
            known = self._remaining_cache[node] = self._estimate_remaining(node, database)
        return known

    def _estimate_remaining(self, node: PlannedRequest, database: str) -> tuple[float, float]:
        request = node.request
        own = self.seconds(node, self.output_tokens(request, database))
        if request.stage == CHAT:
            return own, own
        estimate = self._paths.remaining(request.stage, request.step, node.round, database, own)
        return estimate.mean, estimate.p10

    def seconds(self, node: PlannedRequest, output_tokens: float) -> float:
        """Seconds of one request with its shared beginning cached, on an average instance."""
        request = node.request
        uncached = request.input_tokens - prefix_tokens(request.prefix(""))
        each = (
            profile.execution_seconds(uncached, request.input_tokens, output_tokens, self._batch)
            for profile in self._profiles
        )
        return sum(each) / len(self._profiles)

    def stage_means(self) -> dict[str, float]:
        """Mean seconds that a question spends in each stage, in the order of the stages."""
        return {stage: total / count for stage, (count, total) in self._stage_seconds.items()}

    def _path_nodes(self, plan: QuestionPlan) -> list[PathNode]:
        return [
            PathNode(
                node_id=str(node.request.id),
                stage=node.request.stage,
                step=node.request.step,
                after=tuple(str(name) for name in node.request.after),
                seconds=self.seconds(node, node.request.output_tokens),
            )
            for node in plan.nodes
        ]

    def _learn_stages(self, path_nodes: list[PathNode]) -> None:
        """A stage lasts as long as the longest path inside it: its parallel requests overlap."""
        for stage in dict.fromkeys(node.stage for node in path_nodes):
            inside = [node for node in path_nodes if node.stage == stage]
            names = {node.node_id for node in inside}
            seconds = critical_path(
                replace(node, after=tuple(name for name in node.after if name in names))
                for node in inside
            )
            count, total = self._stage_seconds.get(stage, (0, 0.0))
            self._stage_seconds[stage] = (count + 1, total + seconds)
