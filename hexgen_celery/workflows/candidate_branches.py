"""How far each candidate has come, read from the workflow's nodes.

A candidate is a branch of the DAG: a request that writes SQL, the execution of it, and on an error
or an empty result a revision and its execution, round by round:

    candidate.2 → execution.2 → correction.2.1 → execution.2.1 → correction.2.2 → …

Nothing is remembered beside the nodes, so whatever was lost or came twice, reading them again gives
the same next step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hexgen_celery.workflows.definition import Json, NodeState, NodeStatus, SqlCall
from hexgen_celery.workflows.stage_contract import Attempt, SqlAnswer

Nodes = Mapping[str, NodeState]
ReadSql = Callable[[str], SqlAnswer]

FINAL = frozenset({NodeStatus.DONE, NodeStatus.FAILED, NodeStatus.DROPPED})
# No worker could run the statement: not the model's fault, so that a revision cannot mend it.
FAILED_EXECUTION = "failed"


class Phase(StrEnum):
    """What a branch waits for; `settled` is the end."""

    ASK = "ask"
    EXECUTE = "execute"
    RUNNING = "running"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class Branch:
    """One candidate. `round` is the one it is in (0: the first writing), `pending_sql` what phase
    `execute` is about, `requests` how many LLM nodes it has, `failure` why no request could be
    made for it any more."""

    number: int
    attempts: tuple[Attempt, ...]
    phase: Phase
    round: int
    pending_sql: str = ""
    requests: int = 0
    failure: str = ""

    @property
    def best(self) -> Attempt | None:
        """The best attempt, so that a revision never replaces something better than itself."""
        return max(self.attempts, key=_quality, default=None)

    @property
    def executed(self) -> Attempt | None:
        """The best attempt if it ran."""
        return self.best if self.best and self.best.ran else None

    @property
    def rounds(self) -> int:
        """Corrections that were asked for."""
        return max(0, self.requests - 1)

    @property
    def healed(self) -> bool:
        """Whether a correction gave a result where the first writing gave none."""
        return bool(self.best and self.best.useful and not self.attempts[0].useful)


def request_id(number: int, round_: int) -> str:
    """The node that writes candidate `number` in `round_`."""
    return f"correction.{number}.{round_}" if round_ else f"candidate.{number}"


def execution_id(number: int, round_: int) -> str:
    """The node that runs what `request_id` wrote."""
    return f"execution.{number}.{round_}" if round_ else f"execution.{number}"


def is_final(node: NodeState) -> bool:
    """Whether nothing more will happen to the node."""
    return node.status in FINAL


def read_branch(
    number: int, nodes: Nodes, rounds: int, read_sql: ReadSql, *, allowed: int | None = None
) -> Branch:
    """Candidate `number` as the nodes show it; at most `rounds` corrections are made.

    `allowed`: corrections that may still be begun, where time became too short for all `rounds`.
    """
    attempts: tuple[Attempt, ...] = ()
    for round_ in range(rounds + 1):
        request = nodes.get(request_id(number, round_))
        if request is None and allowed is not None and round_ > allowed:
            break
        if request is None:
            return Branch(number, attempts, Phase.ASK, round_, requests=round_)
        step = _read_round(number, round_, request, nodes, attempts, read_sql)
        if isinstance(step, Branch):
            return step
        attempts = (*attempts, step)
        if step.useful or step.status == FAILED_EXECUTION:
            break
    return Branch(number, attempts, Phase.SETTLED, len(attempts) - 1, requests=len(attempts))


def _read_round(
    number: int,
    round_: int,
    request: NodeState,
    nodes: Nodes,
    earlier: Sequence[Attempt],
    read_sql: ReadSql,
) -> Attempt | Branch:
    """The round's attempt, or the branch when it waits in this round or ends with it."""
    execution = nodes.get(execution_id(number, round_))
    if execution is not None:
        if is_final(execution):
            return _attempt_of(request, round_, execution)
        return Branch(number, tuple(earlier), Phase.RUNNING, round_, requests=round_ + 1)
    if not is_final(request):
        return Branch(number, tuple(earlier), Phase.RUNNING, round_, requests=round_ + 1)
    if request.status is not NodeStatus.DONE:
        cause = error_text(request.error) or "the request was dropped"
        return Branch(
            number, tuple(earlier), Phase.SETTLED, round_, requests=round_ + 1, failure=cause
        )
    answer = read_sql(str((request.result or {}).get("text", "")))
    if _repeats(answer.sql, earlier):
        return Branch(number, tuple(earlier), Phase.SETTLED, round_, requests=round_ + 1)
    if answer.problem:
        return Attempt(request.spec.id, round_, answer.sql, "rejected", answer.problem)
    return Branch(number, tuple(earlier), Phase.EXECUTE, round_, answer.sql, requests=round_ + 1)


def _attempt_of(request: NodeState, round_: int, execution: NodeState) -> Attempt:
    call = execution.spec.call
    sql = call.sql if isinstance(call, SqlCall) else ""
    if execution.status is not NodeStatus.DONE or execution.result is None:
        error = error_text(execution.error) or "the execution was dropped"
        return Attempt(request.spec.id, round_, sql, FAILED_EXECUTION, error, execution.spec.id)
    result = execution.result
    row_count = int(result.get("row_count") or 0)
    return Attempt(
        request=request.spec.id,
        round=round_,
        sql=str(result.get("sql") or sql),
        status=str(result.get("status", "error")),
        error=str(result.get("error") or ""),
        execution=execution.spec.id,
        columns=tuple(str(name) for name in result.get("columns") or ()),
        row_count=row_count,
        truncated=bool(result.get("truncated")),
        empty=bool(result.get("empty", row_count == 0)),
        digest=str(result.get("digest") or ""),
        preview=tuple(tuple(row) for row in result.get("preview") or ()),
        repairs=tuple(str(rule) for rule in result.get("repairs") or ()),
        written=sql,
        fits=tuple(str(rule) for rule in result.get("fits") or ()),
        distinct_digest=str(result.get("distinct_digest") or ""),
        ordered_digest=str(result.get("ordered_digest") or ""),
    )


def _quality(attempt: Attempt) -> int:
    return attempt.ran + attempt.useful


def _repeats(sql: str, earlier: Sequence[Attempt]) -> bool:
    """Whether the same statement (white space and the final semicolon aside) was tried before."""
    tried = {_squeezed(text) for attempt in earlier for text in (attempt.sql, attempt.written)}
    return bool(sql) and _squeezed(sql) in tried


def _squeezed(sql: str) -> str:
    return " ".join(sql.split()).rstrip("; ")


def error_text(error: Json | None) -> str:
    """A node's error in one line: its message, then how to mend it."""
    if not error:
        return ""
    parts = (str(error.get("message") or ""), str(error.get("hint") or ""))
    return ". ".join(part.rstrip(".") for part in parts if part)
