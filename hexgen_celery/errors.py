"""Every error a user can meet. Each says what is wrong and how to mend it."""

from __future__ import annotations

from typing import ClassVar


class HexgenError(Exception):
    """Something went wrong in HexGen-Celery.

    `hint` is the way to mend it; `field` names the input at fault, where there is one. `code` is a
    stable machine-readable name.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "", field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.field = field

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message

    def to_json(self) -> dict[str, str]:
        """The error as plain values, for results and `--json` output."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "field": self.field,
        }


class InvalidSubmission(HexgenError):
    """Raised when a question cannot be accepted as it was submitted."""

    code = "invalid_submission"


class TenantFull(InvalidSubmission):
    """Raised when a tenant has as many questions in flight as it may have."""

    code = "tenant_full"


class UnknownDatabase(InvalidSubmission):
    """Raised when a question names a database that was never registered."""

    code = "unknown_database"


class InvalidDatabase(HexgenError):
    """Raised when a file cannot be registered as a SQLite database."""

    code = "invalid_database"


class InvalidSettings(HexgenError):
    """Raised when the configuration holds an unknown or impossible value."""

    code = "invalid_settings"


class InvalidProfile(InvalidSettings):
    """Raised when a profile is missing or its numbers are impossible."""

    code = "invalid_profile"


class InvalidWorkload(HexgenError):
    """Raised when a workload or trace file cannot be read."""

    code = "invalid_workload"


class UnusablePath(HexgenError):
    """Raised when a file or directory cannot be read, written or made."""

    code = "unusable_path"


class BrokerUnavailable(HexgenError):
    """Raised when Redis cannot be reached or refuses the credentials."""

    code = "broker_unavailable"


class ModelUnavailable(HexgenError):
    """Raised when an LLM server cannot be reached or does not serve the model."""

    code = "model_unavailable"


class ModelRefused(HexgenError):
    """Raised when an LLM server rejects the request itself, so that a retry cannot help."""

    code = "model_refused"


class RequestCancelled(HexgenError):
    """Raised inside a running request when its question was cancelled or expired."""

    code = "cancelled"


class StatementRejected(HexgenError):
    """Raised when a model's SQL is refused before or while it runs."""

    code = "statement_rejected"


class QuestionFailed(Exception):
    """The end of a question without an answer, as a Celery client's `.get()` raises it.

    The one argument is a JSON object: for a rejected submission `code`, `message`, `hint` and
    `field`; for a question that failed or expired `status`, `stage`, `cause`, `last_sql` and times.
    Not a `HexgenError`, because a client without this package rebuilds it from name and arguments.
    """


class UnknownWorkflow(HexgenError):
    """Raised when an id names no question that is still known."""

    code = "unknown_workflow"


class MissingPrerequisite(HexgenError):
    """Raised when a program or package that must be installed is absent."""

    code = "missing_prerequisite"
