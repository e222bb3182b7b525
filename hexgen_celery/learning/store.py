"""What was learnt, in Redis: it outlives every process and is the same for all of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import redis
import structlog

from hexgen_celery.core.estimates import Calibration
from hexgen_celery.keys import Keys
from hexgen_celery.learning.knowledge import Knowledge
from hexgen_celery.trace import OLDEST

log = structlog.get_logger(__name__)

STATE, VERSION, LEARNT, CALIBRATION = "state", "version", "learnt", "calibration"


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """`questions` learnt from, and how right the estimates were by what they are about."""

    questions: int = 0
    by_estimate: dict[str, Calibration] = field(default_factory=dict)


class KnowledgeStore:
    """Reads and writes what was learnt."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._key = keys.estimates

    def version(self) -> int:
        """Grows with every write; 0 while nothing was ever learnt."""
        return int(cast("str | None", self._client.hget(self._key, VERSION)) or 0)

    def load(self) -> tuple[Knowledge, str]:
        """What is known, and the last event of the stream that it was learnt from.

        A state of another version's form is forgotten: what the stream still holds is learnt anew.
        """
        state, learnt = cast("list[str | None]", self._client.hmget(self._key, [STATE, LEARNT]))
        if not state:
            return Knowledge(), learnt or OLDEST
        try:
            return Knowledge.from_json(json.loads(state)), learnt or OLDEST
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("what was learnt before cannot be read", error=repr(error))
            return Knowledge(), OLDEST

    def save(self, known: Knowledge, learnt: str) -> int:
        """Write what is known; the new version."""
        report = {name: asdict(each) for name, each in known.calibration().items()}
        values: dict[Any, Any] = {
            STATE: json.dumps(known.to_json(), separators=(",", ":")),
            LEARNT: learnt,
            CALIBRATION: json.dumps({"questions": known.questions, "by_estimate": report}),
        }
        with self._client.pipeline() as pipeline:
            pipeline.hset(self._key, mapping=values)
            pipeline.hincrby(self._key, VERSION, 1)
            return int(pipeline.execute()[-1])

    def calibration(self) -> CalibrationReport:
        """How right the estimates were, for people."""
        text = cast("str | None", self._client.hget(self._key, CALIBRATION))
        if not text:
            return CalibrationReport()
        stored = json.loads(text)
        by_estimate = {name: Calibration(**each) for name, each in stored["by_estimate"].items()}
        return CalibrationReport(stored["questions"], by_estimate)
