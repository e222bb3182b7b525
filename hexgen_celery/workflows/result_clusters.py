"""Candidates grouped by what they returned, and what can be decided from that alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hexgen_celery.workflows.candidate_branches import Branch
from hexgen_celery.workflows.pipeline_options import PipelineOptions
from hexgen_celery.workflows.stage_contract import Attempt, Contender

MAX_JUDGED = 4


@dataclass(frozen=True, slots=True)
class Member:
    """A candidate that ran, with the attempt that counts."""

    candidate: int
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Cluster:
    """Candidates with equal results, by number from 1.

    Results are equal when their different rows are, in any order unless the question asks for one.
    """

    number: int
    members: tuple[Member, ...]

    @property
    def votes(self) -> int:
        """How many candidates returned this result."""
        return len(self.members)

    @property
    def first(self) -> Attempt:
        """The attempt that stands for all: the first of those that agree in every row, repeated
        rows too, with the most others."""
        return self.representative.attempt

    @property
    def representative(self) -> Member:
        """The candidate of `first`."""
        exact = Counter(member.attempt.digest for member in self.members)
        return max(self.members, key=lambda member: exact[member.attempt.digest])

    @property
    def empty(self) -> bool:
        """Whether the result holds nothing."""
        return self.first.empty

    @property
    def contender(self) -> Contender:
        """The cluster as the evaluation stage sees it."""
        return Contender(self.first, self.votes)


def clusters_of(branches: Iterable[Branch], *, ordered: bool = False) -> tuple[Cluster, ...]:
    """The executed candidates by result: results with rows first, then the largest, then the
    one with the lowest-numbered candidate. `ordered`: the order of rows tells results apart."""
    groups: dict[tuple[bool, str], list[Member]] = {}
    for branch in sorted(branches, key=lambda branch: branch.number):
        attempt = branch.executed
        if attempt is not None:
            key = (attempt.empty, _result_key(attempt, ordered))
            groups.setdefault(key, []).append(Member(branch.number, attempt))
    ranked = sorted(groups.values(), key=_rank)
    return tuple(Cluster(number, tuple(group)) for number, group in enumerate(ranked, start=1))


def agreed(clusters: tuple[Cluster, ...], needed: int) -> Cluster | None:
    """The result with rows that at least `needed` candidates returned; 0 means never."""
    best = clusters[0] if clusters and not clusters[0].empty else None
    return best if best is not None and 0 < needed <= best.votes else None


def contending(clusters: tuple[Cluster, ...]) -> tuple[Cluster, ...]:
    """The clusters a choice is about: those with rows. An empty result is the answer only when
    there is no other, and then the largest such cluster is."""
    return tuple(cluster for cluster in clusters if not cluster.empty) or clusters[:1]


def judged(clusters: tuple[Cluster, ...], options: PipelineOptions) -> tuple[Cluster, ...]:
    """The contending clusters that a model judges: the largest few against tests, else the two
    largest against each other."""
    return clusters[: MAX_JUDGED if options.unit_tests else 2]


def agreement(clusters: tuple[Cluster, ...], candidates: int) -> str:
    """Why the first cluster is the answer when it is the only one to contend."""
    votes = clusters[0].votes
    if clusters[0].empty:
        return f"no candidate returned rows; {votes} of {candidates} returned an empty result"
    if votes == candidates == 1:
        return "the only candidate returned a result"
    if votes == candidates:
        return f"all {candidates} candidates returned the same result"
    if votes == 1:
        return f"the only one of {candidates} candidates that returned rows"
    return f"{votes} of {candidates} candidates returned the same result, the others none"


def _result_key(attempt: Attempt, ordered: bool) -> str:
    if ordered and attempt.ordered_digest:
        return attempt.ordered_digest
    return attempt.distinct_digest or attempt.digest


def _rank(group: list[Member]) -> tuple[bool, int, int]:
    return (group[0].attempt.empty, -len(group), group[0].candidate)
