"""What the policy comparison compares: scenarios × variants, after the benchmark protocol."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hexgen_celery.core.order import ClaimRules
from hexgen_celery.simulator import Choice, Policies

POISSON = Choice("poisson")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One situation. `load` is a share of its capacity (least outstanding + least laxity).

    `chat_share`: chat requests per question. `lost`: an instance that is away for the middle third
    of the run. `title` says what is special, in words.
    """

    title: str
    workload: str = "trace2"
    fleet: str = "het-70b"
    databases: int = 11
    load: float = 0.9
    arrivals: Choice = POISSON
    chat_share: float = 0.0
    lost: str = ""
    prefix_cache: bool = True

    @property
    def place(self) -> tuple[str, str, int, bool]:
        """What capacity and idle latency depend on."""
        return self.workload, self.fleet, self.databases, self.prefix_cache

    def at(self, load: float) -> Scenario:
        """The same at another load."""
        return replace(self, load=load)


@dataclass(frozen=True, slots=True)
class Variant:
    """A set of policies with the name it has in tables."""

    label: str
    policies: Policies


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the report: every scenario with every variant, each with `seeds` seeds."""

    key: str
    title: str
    scenarios: tuple[Scenario, ...]
    variants: tuple[Variant, ...]
    seeds: int


@dataclass(frozen=True, slots=True)
class Length:
    """Questions measured, and before them to warm up."""

    questions: int = 600
    warmup: int = 100


@dataclass(frozen=True, slots=True)
class Matrix:
    """The whole comparison. `searches`: scenarios in which the rate is sought at which each of
    `searched` still meets 95 % of the deadlines."""

    sections: tuple[Section, ...]
    searches: tuple[Scenario, ...]
    searched: tuple[Variant, ...]
    search_seeds: int
    length: Length = field(default_factory=Length)


def variant(label: str, dispatch: Choice, order: str, **others: object) -> Variant:
    """A variant from its dispatch and order; `admission`, `stealing` and `claim` as given."""
    return Variant(label, Policies(dispatch, Choice(order), **others))  # type: ignore[arg-type]


def simple(dispatch: str, order: str) -> Variant:
    """A dispatch without parameters and an order, labelled by both."""
    return variant(f"{dispatch} + {order}", Choice(dispatch), order)


DEFAULT = Variant("default", Policies())
ROUND_ROBIN = simple("round-robin", "fcfs")
LEAST_OUTSTANDING = simple("least-outstanding", "fcfs")
LEAST_OUTSTANDING_LAXITY = simple("least-outstanding", "least-laxity")
EXPECTED_DELAY_LAXITY = simple("shortest-expected-delay", "least-laxity")

# α of the published form: the best of a grid is what counts in its favour.
PUBLISHED_ALPHAS = (0.2, 0.4, 0.8)
COUNTING_ALPHAS = (0.2, 0.3, 0.4, 0.6)


def published(alpha: float, form: str = "published", **parameters: bool) -> Variant:
    """The published dispatch with the published order."""
    counted = ", running counted" if parameters else ""
    label = f"{form} α {alpha:g}{counted} + stage-budget"
    return variant(label, Choice(form, {"alpha": alpha, **parameters}), "stage-budget")


# As written, and (not by the paper) with running work in its queue: only so can it see any load on
# an engine that batches continuously.
PUBLISHED = tuple(published(alpha) for alpha in PUBLISHED_ALPHAS)
PUBLISHED_COUNTING = tuple(published(alpha, count_running=True) for alpha in COUNTING_ALPHAS)

# The others to beat.
RIVALS = (
    ROUND_ROBIN,
    LEAST_OUTSTANDING,
    LEAST_OUTSTANDING_LAXITY,
    EXPECTED_DELAY_LAXITY,
    *PUBLISHED,
)
MAIN_VARIANTS = (DEFAULT, *RIVALS, *PUBLISHED_COUNTING)
KEY = (DEFAULT, LEAST_OUTSTANDING, LEAST_OUTSTANDING_LAXITY, EXPECTED_DELAY_LAXITY)

FURTHER = (
    *(published(alpha, "published-code") for alpha in (0.4,)),
    simple("vtc", "fcfs"),
    simple("qlm-like", "least-laxity"),
    simple("power-of-two", "fcfs"),
    simple("random", "fcfs"),
    simple("least-work", "least-laxity"),
    simple("earliest-completion", "least-laxity"),
    simple("fastest", "least-laxity"),
    simple("prefix-affinity", "least-laxity"),
    simple("alpha-own", "latest-start"),
)

ABLATION = (
    ROUND_ROBIN,
    simple("round-robin", "latest-start"),
    LEAST_OUTSTANDING,
    simple("least-outstanding", "latest-start"),
    simple("alpha", "fcfs"),
    simple("alpha", "oldest-question"),
    simple("alpha", "least-laxity"),
    simple("alpha", "stage-budget"),
    DEFAULT,
)


def alpha_variant(label: str, **parameters: float | bool | str) -> Variant:
    """The default with other parameters of its dispatch."""
    return variant(label, Choice("alpha", parameters), "latest-start")


ALPHA_FORMS = (
    *(alpha_variant(f"α {alpha:g}", alpha=alpha) for alpha in (0.0, 0.1, 0.2, 0.4, 0.6, 0.8)),
    alpha_variant("without patience", patience=0.0),
    alpha_variant("without slack", use_slack=False),
    alpha_variant("without either", patience=0.0, use_slack=False),
    alpha_variant("waiting in the pool", placement="pool"),
    alpha_variant("pool unless the cache binds", placement="auto"),
    DEFAULT,
)

SETTINGS = (
    DEFAULT,
    *(
        variant(
            f"prefill allowance {seconds:g} s",
            Choice("alpha"),
            "latest-start",
            admission=Choice("allowance", {"prefill_seconds": seconds}),
        )
        for seconds in (0.5, 1.0, 4.0, 16.0)
    ),
    *(
        variant(
            f"{slots} slots",
            Choice("alpha"),
            "latest-start",
            admission=Choice("fixed-slots", {"slots": slots}),
        )
        for slots in (16, 64)
    ),
    variant("stealing", Choice("alpha"), "latest-start", stealing=Choice("most-urgent")),
    *(
        variant(
            f"one claim in {every} for demoted",
            Choice("alpha"),
            "latest-start",
            claim=ClaimRules(every=every),
        )
        for every in (3, 30)
    ),
)

HET_70B = Scenario("two fast, two slow servers, 70B")
HET_30B = Scenario("two fast, two slow servers, 30B mixture", fleet="het-30b")
MAIN = (HET_70B, HET_30B)

SITUATIONS = (
    Scenario("another workload (trace1)", workload="trace1"),
    Scenario("natural questions (financial)", workload="financial"),
    Scenario("equal servers", fleet="hom-70b"),
    Scenario("one database", databases=1),
    Scenario("69 databases", databases=69),
    Scenario("no prefix cache", prefix_cache=False),
    Scenario("bursts (gamma, cv 2)", arrivals=Choice("gamma", {"cv": 2.0}), load=0.7),
    Scenario("rate doubles half way", arrivals=Choice("doubling"), load=0.6),
    Scenario("chat load beside", chat_share=2.0, load=0.7),
    Scenario("a fast server lost for a third of the run", lost="a100-1", load=0.6),
)


def full_matrix() -> Matrix:
    """The protocol's matrix: five seeds against the main rivals, three elsewhere."""
    others = tuple(scenario.at(load) for scenario in MAIN for load in (0.5, 0.7, 1.2))
    large = MAIN[:1]
    overloaded = tuple(scenario.at(1.2) for scenario in large)
    return Matrix(
        sections=(
            Section("main", "Against the others at load 0.9", MAIN, MAIN_VARIANTS, 5),
            Section("loads", "At other loads", others, KEY, 3),
            Section("further", "Further policies at load 0.9", large, FURTHER, 3),
            Section("ablation", "Dispatch alone, order alone, both", MAIN, ABLATION, 3),
            Section("overload", "Orders in overload", overloaded, ABLATION[4:], 3),
            Section("forms", "The parts of the score", large, ALPHA_FORMS, 3),
            Section("settings", "Admission, stealing, demotion", large, SETTINGS, 3),
            Section("situations", "Other situations", SITUATIONS, (DEFAULT, *KEY[2:]), 3),
        ),
        searches=MAIN,
        searched=(DEFAULT, ROUND_ROBIN, LEAST_OUTSTANDING, EXPECTED_DELAY_LAXITY),
        search_seeds=2,
    )


def quick_matrix() -> Matrix:
    """A small version that shows the shape of the report; too short to conclude from."""
    return Matrix(
        sections=(
            Section("main", "Against the others at load 0.9", MAIN[:1], (*KEY, ROUND_ROBIN), 2),
            Section("ablation", "Dispatch alone, order alone, both", MAIN[:1], ABLATION, 1),
            Section("situations", "Other situations", SITUATIONS[-1:], KEY, 1),
        ),
        searches=(),
        searched=(),
        search_seeds=0,
        length=Length(questions=120, warmup=30),
    )


def with_others(matrix: Matrix, others: Iterable[Variant]) -> Matrix:
    """`matrix` with further variants in every table and search that does not have them yet."""
    added = tuple(others)

    def extended(variants: tuple[Variant, ...]) -> tuple[Variant, ...]:
        known = {one.label for one in variants}
        return (*variants, *(one for one in added if one.label not in known))

    sections = tuple(replace(one, variants=extended(one.variants)) for one in matrix.sections)
    searched = extended(matrix.searched) if matrix.searched else ()
    return replace(matrix, sections=sections, searched=searched)
