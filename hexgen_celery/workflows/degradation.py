"""Leaving optional work out when the rest of a question's path does not fit its deadline.

Work is left out in one set order, each step only when the ones before it did not suffice:

    unit tests, then correction rounds from the last to the first, then the choice by a model (the
    largest group of equal results is taken instead), then candidates from the last to the second

How long the rest takes is estimated from the question itself, on its longest path so far: what it
took to generate a token, and what each request cost besides (waiting, prefill, hand-over).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hexgen_celery.core.urgency import laxity
from hexgen_celery.workflows.candidate_branches import Branch, Nodes, Phase, request_id
from hexgen_celery.workflows.definition import Json, NodeKind, NodeStatus, Submission
from hexgen_celery.workflows.pipeline_options import PipelineOptions

TESTS_KIND = "unit tests"
ROUND = "correction round"
CHOICE = "choice by the model"
CANDIDATE = "candidate"
UNIT_TESTS_NODE = "unit_tests"
EXECUTE = "execute"

StepTokens = Callable[[str], float]
"""Tokens that a request of this step is expected to generate."""


@dataclass(frozen=True, slots=True)
class DegradationRules:
    """`execution_seconds`: what running a statement is taken to last. `margin`: the estimate is
    multiplied by it, because being late costs the question and being early only some quality."""

    execution_seconds: float = 0.2
    margin: float = 1.25


RULES = DegradationRules()


@dataclass(frozen=True, slots=True)
class Economies:
    """The first `level` steps of the order are taken for a question with these options."""

    options: PipelineOptions
    level: int = 0

    @property
    def ladder(self) -> tuple[str, ...]:
        """Everything that can be left out, in order."""
        options = self.options
        rounds, others = options.correction_rounds, options.candidates - 1
        tests = (TESTS_KIND,) if options.unit_tests else ()
        return (*tests, *[ROUND] * rounds, CHOICE, *[CANDIDATE] * others)

    @property
    def taken(self) -> Counter[str]:
        """What is left out, and how much of it."""
        return Counter(self.ladder[: self.level])

    @property
    def unit_tests(self) -> bool:
        """Whether unit tests are asked for where results differ."""
        return self.options.unit_tests and not self.taken[TESTS_KIND]

    @property
    def choice(self) -> bool:
        """Whether a model is asked to choose where results differ."""
        return not self.taken[CHOICE]

    @property
    def rounds(self) -> int:
        """Corrections that may still be begun, for each candidate."""
        return self.options.correction_rounds - self.taken[ROUND]

    @property
    def candidates(self) -> int:
        """Candidates to ask for."""
        return self.options.candidates - self.taken[CANDIDATE]

    def told(self) -> list[str]:
        """What is left out, in words."""
        words = {ROUND: f"{ROUND}s", CANDIDATE: f"{CANDIDATE}s"}
        return [
            f"{number} {words[kind] if number > 1 else kind}" if kind in words else kind
            for kind, number in self.taken.items()
        ]


@dataclass(frozen=True, slots=True)
class Situation:
    """A question at the moment `now` (Unix seconds)."""

    submission: Submission
    nodes: Nodes
    branches: Sequence[Branch]
    now: float


def tighten(
    economies: Economies, situation: Situation, tokens: StepTokens, rules: DegradationRules = RULES
) -> Economies:
    """`economies`, or as many more as make the rest of the path fit, or all of them."""
    pace = _pace(situation)
    if pace is None or not economies.options.degrade:
        return economies
    last = _last_level(economies, situation.branches)
    for level in range(economies.level, last + 1):
        tried = Economies(economies.options, level)
        rest = _rest_seconds(tried, situation, pace, tokens, rules)
        if laxity(situation.submission.deadline, rest, situation.now) >= 0:
            return tried
    return Economies(economies.options, last)


def _last_level(economies: Economies, branches: Sequence[Branch]) -> int:
    """The whole order; candidates that are asked for already cannot be left out any more."""
    begun = any(branch.requests for branch in branches)
    usable = [kind for kind in economies.ladder if not begun or kind != CANDIDATE]
    return max(economies.level, len(usable))


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of a question so far: `per_token` generated, `per_request` for all that is not."""

    per_request: float
    per_token: float

    def seconds(self, tokens: float) -> float:
        """What a request that generates `tokens` takes at this pace."""
        return self.per_request + self.per_token * tokens


def _pace(situation: Situation) -> Pace | None:
    """The pace on the path that has generated most; None before any request is done."""
    done = {
        name: node.result or {}
        for name, node in situation.nodes.items()
        if node.spec.kind is NodeKind.LLM and node.status is NodeStatus.DONE
    }
    own = [[done.pop(r) for r in _requests(b) if r in done] for b in situation.branches]
    path = [*max(own, key=_generated, default=[]), *done.values()]
    if not path:
        return None
    elapsed = max(0.0, situation.now - situation.submission.submitted_at)
    generating = min(elapsed, sum(map(_generating_seconds, path)))
    return Pace((elapsed - generating) / len(path), generating / max(1.0, _generated(path)))


def _generated(results: Sequence[Json]) -> float:
    return sum(float(result.get("output_tokens") or 0) for result in results)


def _generating_seconds(result: Json) -> float:
    """From the first token to the last."""
    whole, first = result.get("seconds") or 0.0, result.get("first_token_seconds") or 0.0
    return max(0.0, float(whole) - float(first))


def _requests(branch: Branch) -> list[str]:
    return [request_id(branch.number, round_) for round_ in range(branch.requests)]


def _rest_seconds(
    economies: Economies,
    situation: Situation,
    pace: Pace,
    tokens: StepTokens,
    rules: DegradationRules,
) -> float:
    steps = [*_branch_steps(economies, situation.branches), *_evaluation_steps(economies)]
    if UNIT_TESTS_NODE in situation.nodes and UNIT_TESTS_NODE in steps:
        steps.remove(UNIT_TESTS_NODE)
    seconds = (
        rules.execution_seconds if step == EXECUTE else pace.seconds(tokens(step)) for step in steps
    )
    return rules.margin * sum(seconds)


def _branch_steps(economies: Economies, branches: Sequence[Branch]) -> list[str]:
    """What the slowest candidate needs until it has a result: one request, then its execution.

    Corrections beyond the next one are rare enough not to be reckoned with before they come.
    """
    if any(_awaits_candidate(branch) for branch in branches):
        return ["candidate", EXECUTE]
    if any(_awaits_correction(branch, economies.rounds) for branch in branches):
        return ["revise", EXECUTE]
    unsettled = any(branch.phase in (Phase.EXECUTE, Phase.RUNNING) for branch in branches)
    return [EXECUTE] if unsettled else []


def _awaits_candidate(branch: Branch) -> bool:
    return branch.round == 0 and branch.phase in (Phase.ASK, Phase.RUNNING)


def _awaits_correction(branch: Branch, rounds: int) -> bool:
    if branch.phase is Phase.ASK:
        return 0 < branch.round <= rounds
    return branch.phase is Phase.RUNNING and branch.round > 0


def _evaluation_steps(economies: Economies) -> list[str]:
    if economies.options.candidates == 1 or not economies.choice:
        return []
    return [UNIT_TESTS_NODE, "choose"] if economies.unit_tests else ["choose"]
