"""Run inside the stock client: sends every hostile submission, reports how each ended.

Only Celery is installed there. The last line printed is JSON.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from celery import Celery

app = Celery("stock", broker=sys.argv[1], backend=sys.argv[1])
DEEP: Any = None
for _ in range(400):
    DEEP = {"a": [DEEP]}
GOOD = {"question": "Who can fly?", "database": "heroes", "slo_seconds": 60}
SURROGATE = "\ud800"
ODD_TEXTS = {
    "nul": "a\0b",
    "surrogate": f"a{SURROGATE}b",
    "controls": "\x01\x1b[2J\x7f",
    "override": "\u202eabc\u2066",
    "newlines": "a\r\nb\n\nc",
    "redis": "a:b{c}*?[d] \\",
    "markup": "<b>[red]{{x}}${y}%s%(a)s</b>",
    "astral": "\U0001f600" * 10,
    "path": "../../../../etc/passwd",
    "spaces": " \t ",
}
WRONG_TYPES = {
    "number": 5,
    "float": 1.5,
    "true": True,
    "list": ["a"],
    "object": {"a": 1},
    "deep": DEEP,
    "huge": "x" * 1_000_000,
    "big": 10**400,
    "text": "soon",
    "nan": float("nan"),
    "infinite": float("inf"),
    "negative": -1,
    "zero": 0,
}
FIELDS = ("question", "database", "slo_seconds", "tenant", "evidence", "submitted_at", "workflow")
OPTIONS = ("candidates", "correction_rounds", "temperature", "seed", "max_tokens", "unit_tests")


def submissions() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any], Any]]:
    """(name, args, kwargs, task_id) of each."""
    for field in FIELDS:
        for name, value in {**ODD_TEXTS, **WRONG_TYPES}.items():
            yield f"{field}={name}", (), {**GOOD, field: value}, None
    for name, value in {**ODD_TEXTS, **WRONG_TYPES}.items():
        yield f"options={name}", (), {**GOOD, "options": value}, None
        for option in (*OPTIONS, "question_key", "unknown"):
            yield f"options.{option}={name}", (), {**GOOD, "options": {option: value}}, None
    for name, value in ODD_TEXTS.items():
        yield f"option-named-{name}", (), {**GOOD, "options": {value: 1}}, None
        yield f"field-named-{name}", (), {**GOOD, value: 1}, None
    for name in ("self", "task", "args", "kwargs", "request", "workflow_id", "__class__"):
        yield f"field-named-{name}", (), {**GOOD, name: 1}, None
    many = {f"o{number}": number for number in range(20_000)}
    yield "many-options", (), {**GOOD, "options": many}, None
    yield "many-fields", (), {**GOOD, **many}, None
    yield "nothing", (), {}, None
    yield "too-many-arguments", ("q",) * 50, {}, None
    yield "odd-arguments", ([], {}, None, DEEP), {}, None
    yield "given-twice", ("q",), GOOD, None
    for name, value in ODD_TEXTS.items():
        yield f"id-{name}", (), GOOD, f"{value}#1"
    yield "id-long", (), GOOD, "i" * 10_000
    yield "id-slash", (), GOOD, "a/b/c"
    yield "id-braces", (), GOOD, "{a}:b"
    yield "replayed-1", (), GOOD, "replayed"
    yield "replayed-2", (), {**GOOD, "question": "Something else?"}, "replayed"
    yield "replayed-3", (), {**GOOD, "slo_seconds": -1}, "replayed"


HEADERS = {"lang": "py", "task": "hexgen.ask", "id": "raw", "root_id": "raw"}
RAW = [
    (b"", {}, "application/json"),
    (b"{", HEADERS, "application/json"),
    (b"\xff\xfe\x00", HEADERS, "application/json"),
    (b"null", HEADERS, "application/json"),
    (b"[]", HEADERS, "application/json"),
    (b"[1, 2, 3]", HEADERS, "application/json"),
    (b"[[], [], {}]", HEADERS, "application/json"),
    (b"[{}, {}, {}]", HEADERS, "application/json"),
    (b"[[], {}, []]", HEADERS, "application/json"),
    (b"[[], {}, null]", {**HEADERS, "id": 5}, "application/json"),
    (b"[[], {}, {}]", {**HEADERS, "id": None}, "application/json"),
    (b"[[], {}, {}]", {**HEADERS, "id": ["a"]}, "application/json"),
    (b"[[], {}, {}]", {**HEADERS, "task": 7}, "application/json"),
    (b"[[], {}, {}]", {**HEADERS, "task": "no.such.task"}, "application/json"),
    (b"[[], {}, {}]", {**HEADERS, "task": "hexgen.execute_sql"}, "application/json"),
    (b"[[], {}, {}]", {**HEADERS, "eta": "yesterday"}, "application/json"),
    (b"[[], {}, {}]", {**HEADERS, "expires": "never"}, "application/json"),
    (b"[[], {}, {}]", {**HEADERS, "timelimit": "x"}, "application/json"),
    (b"[" * 5000 + b"]" * 5000, HEADERS, "application/json"),
    (b"cos\nsystem\n(S'true'\ntR.", HEADERS, "application/x-python-serialize"),
    (b"!!python/object/apply:os.system [true]", HEADERS, "application/x-yaml"),
    (b"[[], {}, {}]", HEADERS, "application/x-unknown"),
]


def send_raw() -> None:
    """Messages that no Celery client would make."""
    with app.connection_for_write() as connection:
        for body, headers, content_type in RAW:
            connection.Producer().publish(
                body,
                routing_key="hexgen.ask",
                headers=headers,
                content_type=content_type,
                content_encoding="utf-8",
                serializer=None,
            )


def outcome(pending: Any) -> list[Any]:
    try:
        answer = pending.get(timeout=60)
        return ["answered", str(answer.get("status"))]
    except Exception as error:
        argument = error.args[0] if error.args else None
        told = argument if isinstance(argument, dict) else {"message": str(argument)[:300]}
        kept = {name: str(told.get(name))[:2_000] for name in ("field", "message", "cause")}
        return ["failed", type(error).__name__, isinstance(argument, dict), kept]


if len(sys.argv) > 2:
    send_raw()
    print(json.dumps(len(RAW)))
    raise SystemExit
sent = []
for name, args, kwargs, task_id in submissions():
    try:
        extra = {} if task_id is None else {"task_id": task_id}
        sent.append((name, app.send_task("hexgen.ask", args=args, kwargs=kwargs, **extra)))
    except Exception as error:
        sent.append((name, error))
ended = {
    name: ["unsent", type(pending).__name__] if isinstance(pending, Exception) else outcome(pending)
    for name, pending in sent
}
print(json.dumps(ended))
