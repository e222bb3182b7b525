"""The text-to-sql workflow: link the schema, write candidates, execute and correct, choose.

    link ─ retrieve ─┬─ candidate.1 ─ execution.1 ─ correction.1.1 ─ … ─┬─ unit_tests ─ choose
                     ├─ candidate.2 ─ execution.2 ──────────────────────┤
                     └─ candidate.N ─ execution.N ─ …                   ┘

Module `linking` tells when the first two nodes come otherwise. Branches go on independently of each
other. Corrections are made on an error or an empty result, at most R per branch, and end when the
model repeats itself. As soon as enough candidates agree, that is the answer and the rest is
cancelled. The last two requests are made only when the candidates' results differ, and module
`degradation` tells what is left out when time is short. Every step follows from the nodes and what
was left out, so that a step computed twice, late, or by another process is the same step. A
question has at most 2 + N·2·(1 + R) + 2 nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hexgen_celery.settings import PipelineSettings
from hexgen_celery.workflows.agreement import learnt_agreement
from hexgen_celery.workflows.candidate_branches import Branch, Phase, execution_id, request_id
from hexgen_celery.workflows.definition import (
    Answer,
    Expansion,
    NodeKind,
    NodeSpec,
    NodeState,
    PartRef,
    SqlCall,
    Submission,
    WorkflowView,
)
from hexgen_celery.workflows.degradation import Economies, Situation, tighten
from hexgen_celery.workflows.linking import (
    LINK,
    RETRIEVE,
    LinkingPlan,
    attention,
    keywords_of,
    read_retrieved,
    retrieve_spec,
)
from hexgen_celery.workflows.pipeline_options import resolve_options
from hexgen_celery.workflows.progress import (
    CHOOSE,
    UNIT_TESTS,
    Progress,
    economies_memory,
    initial_memory,
    read_progress,
    schema_memory,
)
from hexgen_celery.workflows.request_writer import (
    Place,
    Planned,
    RequestWriter,
    Sampling,
    expansion_of,
)
from hexgen_celery.workflows.result_clusters import contending, judged
from hexgen_celery.workflows.savings import saved_by_dropping, unfinished
from hexgen_celery.workflows.schema_text import SchemaSource, SchemaText
from hexgen_celery.workflows.stage_contract import (
    Contender,
    LinkedSchema,
    Prompt,
    Stage,
    Stages,
)
from hexgen_celery.workflows.verdict import (
    answer_by_agreement,
    answer_by_choice,
    answer_by_vote,
    best_effort_answer,
    failure,
)


class TextToSql:
    """The definition over four `stages`; `pipeline` holds the defaults of a question's options.

    `agreement`: equal results that decide early, as learnt of the models that are served.
    """

    name = "text_to_sql"

    def __init__(
        self,
        stages: Stages,
        schemas: SchemaSource,
        pipeline: PipelineSettings,
        writer: RequestWriter,
        agreement: int = 0,
    ) -> None:
        self._stages = stages
        self._schemas = schemas
        self._pipeline = pipeline
        self._writer = writer
        self._agreement = agreement or learnt_agreement().otherwise

    def begin(self, submission: Submission) -> Expansion:
        """Ask a model for the linked schema, or look up what rules find in the question.

        Raises:
            InvalidSubmission: an option is unknown or impossible.
            UnknownDatabase: the database is not registered.
        """
        options = resolve_options(submission.options, self._pipeline, self._agreement)
        text = self._schemas.schema(submission.database)
        plan = LinkingPlan.of(options, submission.slo_seconds, text.tokens)
        progress = Progress(submission, options, _part(text), {}, plan, Economies(options))
        memory = initial_memory(options, progress.schema, plan)
        if plan.schema_comes_late:
            return expansion_of(self._linking(progress), memory)
        return _with_schema(expansion_of(self._linking(progress), memory), text)

    def advance(self, view: WorkflowView, node: NodeState) -> Expansion:  # noqa: ARG002
        """What follows from the nodes as they are now."""
        progress = read_progress(view, self._stages)
        if progress.linked is None:
            return self._link_on(progress)
        if progress.agreed is not None:
            return self._decide_early(progress)
        economies = self._economies(progress, view.now)
        if economies == progress.economies:
            return self._go_on(progress, progress.linked)
        tightened = read_progress(view, self._stages, economies)
        expansion = self._go_on(tightened, progress.linked)
        return replace(expansion, memory={**expansion.memory, **economies_memory(economies)})

    def _go_on(self, progress: Progress, linked: LinkedSchema) -> Expansion:
        if progress.plan.schema_comes_late and not progress.branches_begun:
            return self._begin_branches(progress, linked)
        steps = [self._step(progress, linked, branch) for branch in progress.branches]
        planned = [step for step in steps if step is not None]
        if planned or not progress.settled:
            return expansion_of(planned)
        return self._evaluate(progress)

    def _decide_early(self, progress: Progress) -> Expansion:
        needless = unfinished(progress.nodes)
        unasked = progress.economies.candidates - len(progress.branches)
        saved = saved_by_dropping(progress.nodes, needless, max(0, unasked))
        return Expansion(drop=needless, outcome=answer_by_agreement(progress, saved))

    def _economies(self, progress: Progress, now: float) -> Economies:
        if CHOOSE in progress.nodes:
            return progress.economies
        submission = progress.submission
        situation = Situation(submission, progress.nodes, progress.branches, now)

        def tokens(step: str) -> float:
            return self._writer.expected_step(step, submission.database)

        return tighten(progress.economies, situation, tokens)

    def best_effort(self, view: WorkflowView) -> Answer | None:
        """The largest group of equal results so far, those with rows first."""
        return best_effort_answer(read_progress(view, self._stages))

    def _linking(self, progress: Progress) -> list[Planned]:
        """The next step of schema linking, if it is time for one."""
        step, stage = progress.plan.next_step(progress.nodes), self._stages.schema_linking
        after = progress.done(*progress.plan.steps)
        if step == RETRIEVE:
            keywords = keywords_of(progress.question, progress.nodes, stage)
            return [Planned(retrieve_spec(progress.submission, keywords, after))]
        if step == LINK:
            place = Place(LINK, Stage.SCHEMA_LINKING, "link", "1", after)
            return [self._request(progress, place, stage.prompt(progress.question))]
        return []

    def _link_on(self, progress: Progress) -> Expansion:
        if progress.plan.narrow and progress.plan.next_step(progress.nodes) == LINK:
            text = self._narrowed(progress, read_retrieved(progress.nodes).columns)
            return _with_schema(
                expansion_of(self._linking(replace(progress, schema=_part(text)))), text
            )
        return expansion_of(self._linking(progress))

    def _begin_branches(self, progress: Progress, linked: LinkedSchema) -> Expansion:
        """The first requests that hold the schema, or as much of it as fits, which stays theirs."""
        if progress.plan.narrow:
            wanted = attention(linked, read_retrieved(progress.nodes))
            text = self._narrowed(progress, wanted)
        else:
            text = self._schemas.schema(progress.submission.database)
        begun = replace(progress, schema=_part(text))
        steps = [self._step(begun, linked, branch) for branch in progress.branches]
        memory = schema_memory(begun.schema)
        planned = [step for step in steps if step is not None]
        return _with_schema(expansion_of(planned, memory), text)

    def _narrowed(self, progress: Progress, columns: Sequence[str]) -> SchemaText:
        limit = progress.options.schema_tokens
        return self._schemas.narrowed(progress.submission.database, columns, limit)

    def _step(self, progress: Progress, linked: LinkedSchema, branch: Branch) -> Planned | None:
        """The branch's next node, if it waits for one."""
        if branch.phase is Phase.EXECUTE:
            return self._execution(progress, branch)
        if branch.phase is not Phase.ASK:
            return None
        if branch.round == 0:
            return self._candidate(progress, linked, branch.number)
        return self._correction(progress, linked, branch)

    def _candidate(self, progress: Progress, linked: LinkedSchema, number: int) -> Planned:
        prompt = self._stages.candidate_generation.prompt(progress.question, linked, number)
        place = Place(
            request_id(number, 0),
            Stage.CANDIDATE_GENERATION,
            "candidate",
            str(number),
            progress.done(*progress.plan.steps),
        )
        # Different seeds make the samples differ; the first keeps the seed that was asked for.
        seed = progress.options.seed + number - 1
        return self._request(progress, place, prompt, progress.options.temperature, seed)

    def _correction(self, progress: Progress, linked: LinkedSchema, branch: Branch) -> Planned:
        prompt = self._stages.self_correction.prompt(progress.question, linked, branch.attempts)
        last = branch.attempts[-1]
        place = Place(
            request_id(branch.number, branch.round),
            Stage.SELF_CORRECTION,
            "revise",
            f"{branch.number}.{branch.round}",
            progress.done(last.execution or last.request),
        )
        return self._request(progress, place, prompt)

    def _execution(self, progress: Progress, branch: Branch) -> Planned:
        arguments = {"hint": progress.submission.evidence}
        call = SqlCall(progress.submission.database, branch.pending_sql, arguments=arguments)
        spec = NodeSpec(
            execution_id(branch.number, branch.round),
            NodeKind.SQL,
            Stage.EXECUTE_SQL,
            "execute",
            call,
            progress.done(request_id(branch.number, branch.round)),
        )
        return Planned(spec)

    def _evaluate(self, progress: Progress) -> Expansion:
        """Every candidate is settled: decide, or ask the model when their results differ."""
        clusters = contending(progress.clusters)
        if not clusters:
            return Expansion(outcome=failure(progress))
        if len(clusters) == 1:
            return Expansion(outcome=answer_by_agreement(progress))
        if progress.pending(UNIT_TESTS) or progress.pending(CHOOSE):
            return Expansion()
        if CHOOSE in progress.nodes:
            return Expansion(outcome=answer_by_choice(progress, self._stages.evaluation))
        if not progress.economies.choice:
            return Expansion(outcome=answer_by_vote(progress))
        contenders = [cluster.contender for cluster in judged(clusters, progress.options)]
        if progress.economies.unit_tests and UNIT_TESTS not in progress.nodes:
            return expansion_of([self._unit_tests(progress, contenders)])
        return expansion_of([self._choice(progress, contenders)])

    def _unit_tests(self, progress: Progress, contenders: list[Contender]) -> Planned:
        prompt = self._stages.evaluation.unit_tests_prompt(progress.question, contenders)
        after = progress.done(*_executions(contenders))
        place = Place(UNIT_TESTS, Stage.EVALUATION, "unit_tests", "1", after)
        return self._request(progress, place, prompt)

    def _choice(self, progress: Progress, contenders: list[Contender]) -> Planned:
        evaluation = self._stages.evaluation
        tests = evaluation.read_unit_tests(progress.text(UNIT_TESTS) or "")
        prompt = evaluation.choice_prompt(progress.question, contenders, tests)
        after = progress.done(UNIT_TESTS) or progress.done(*_executions(contenders))
        return self._request(
            progress, Place(CHOOSE, Stage.EVALUATION, "choose", "1", after), prompt
        )

    def _request(
        self,
        progress: Progress,
        place: Place,
        prompt: Prompt,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Planned:
        options = progress.options
        sampling = Sampling(
            options.max_tokens,
            temperature,
            options.seed if seed is None else seed,
            options.structured,
        )
        return self._writer.write(
            progress.submission,
            place,
            prompt,
            sampling,
            schema=progress.schema,
            question_key=options.question_key,
        )


def _part(text: SchemaText) -> PartRef:
    return PartRef(text.hash, text.tokens, role="user")


def _with_schema(expansion: Expansion, text: SchemaText) -> Expansion:
    return replace(expansion, parts={**expansion.parts, text.hash: text.text})


def _executions(contenders: list[Contender]) -> tuple[str, ...]:
    return tuple(contender.attempt.execution for contender in contenders)
