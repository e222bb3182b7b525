"""`hexgen status --history`: the questions that the store has."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from hexgen_celery.cli.context import CliContext
from hexgen_celery.cli.output import console, moment, print_json, seconds, table
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.store.lookup import open_reader

if TYPE_CHECKING:
    from hexgen_celery.store.reading import Row, TenantTotal

_QUESTION_COLUMNS = ("id", "question", "database", "status", "ended", "took", "deadline")
_TENANT_COLUMNS = ("tenant", "SLO class", "ended", "answered", "in time")


def show_history(cli: CliContext, limit: int, as_json: bool) -> None:
    """Print the last `limit` questions that ended, and totals by tenant and SLO class.

    Raises:
        InvalidSettings: nothing is recorded in this deployment.
    """
    reader = open_reader(cli.settings)
    if reader is None:
        raise InvalidSettings(
            "nothing is recorded in this deployment",
            field="store.enabled",
            hint="set store.enabled = true for all of its processes",
        )
    recent, tenants = reader.recent(limit), reader.tenants()
    if as_json:
        totals = [asdict(one) for one in tenants]
        print_json({"questions": recent, "tenants": totals, "source": reader.place})
        return
    console.print(table("", _QUESTION_COLUMNS, map(_question, recent)))
    console.print(table("", _TENANT_COLUMNS, map(_tenant, tenants)))
    console.print(f"from the store {reader.place}", markup=False)


def _question(row: Row) -> tuple[str, ...]:
    took = row["finished_at"] - row["submitted_at"]
    deadline = "met" if row["deadline_met"] else "missed"
    return (
        row["id"],
        row["question"],
        row["database"],
        row["status"],
        moment(row["finished_at"]),
        seconds(took),
        deadline,
    )


def _tenant(total: TenantTotal) -> tuple[object, ...]:
    share = f"{total.met / total.questions:.1%}" if total.questions else "—"
    return (
        total.tenant,
        total.slo_class or "—",
        total.questions,
        total.answered,
        share,
    )
