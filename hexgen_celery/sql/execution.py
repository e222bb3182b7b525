"""What it means to run one statement: the request, its limits and the result, as plain values.

Stages and the evaluation talk to an `Executor`; the sandbox pool of the sql workers is the one that
runs against real files.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

Status = Literal["ok", "error", "rejected", "timeout", "cancelled", "too_large"]
Operation = Literal["execute", "explain"]
JsonScalar: TypeAlias = str | int | float | None
Cell: TypeAlias = JsonScalar | dict[str, str | int]
Row: TypeAlias = list[Cell]


@dataclass(frozen=True, slots=True)
class DatabaseFile:
    """How to open one database for reading.

    `immutable` promises that nobody writes the file while it is read (a snapshot, or a WAL
    database without a live `-wal` file): SQLite then takes no locks and creates no side files.
    """

    path: str
    immutable: bool = False


@dataclass(frozen=True, slots=True)
class StatementLimits:
    """Bounds of one execution: seconds of wall time, rows kept, bytes of cell text kept."""

    seconds: float = 30.0
    rows: int = 1_000
    result_bytes: int = 4_000_000

    def __post_init__(self) -> None:
        for name in ("seconds", "rows", "result_bytes"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be greater than 0, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """One statement to run. `token` names the execution for `cancel`; it may be empty."""

    database: DatabaseFile
    sql: str
    limits: StatementLimits = field(default_factory=StatementLimits)
    token: str = ""
    operation: Operation = "execute"


@dataclass(frozen=True, slots=True)
class ExecuteResult:
    """The outcome of one statement, JSON-safe as it stands.

    `status`: `ok`; `error` (SQLite refused or failed); `rejected` (against the rules of the
    sandbox); `timeout`; `cancelled`; `too_large` (memory, or one row beyond the byte limit).
    `rows` are lists of cells in the order of `columns`; a blob is `{"$blob": hex, "bytes": n}` and
    an infinite float `{"$float": "inf"}`. `truncated` means that more rows exist than were kept.
    `seconds` is the time inside the sandbox program, or until it was killed.
    """

    status: Status
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    truncated: bool = False
    seconds: float = 0.0
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether the statement ran to its end or to its row limit."""
        return self.status == "ok"

    @property
    def row_count(self) -> int:
        """Rows kept."""
        return len(self.rows)

    @property
    def empty(self) -> bool:
        """Whether the statement ran and returned nothing of use: no row, or only NULLs in one."""
        return self.ok and (not self.rows or self.rows == ([None] * len(self.columns),))

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        return {**asdict(self), "columns": list(self.columns), "rows": list(self.rows)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ExecuteResult:
        """The inverse of `to_json`."""
        values = {**data, "columns": tuple(data["columns"]), "rows": tuple(data["rows"])}
        return cls(**values)


class Executor(Protocol):
    """Something that runs statements one at a time per call, from any thread."""

    def execute(self, request: ExecuteRequest) -> ExecuteResult:
        """Run the statement and report; a failing statement is a result, never an exception."""
        ...
