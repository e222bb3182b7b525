"""The checks of `hexgen doctor`, in the order in which one thing needs the other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from hexgen_celery.api import Client
from hexgen_celery.cluster import EMBEDDED, read_cluster
from hexgen_celery.errors import HexgenError
from hexgen_celery.health.deployment import check_deployment, check_strangers
from hexgen_celery.health.outcome import Check, Verdict
from hexgen_celery.health.redis_program import find_redis_program
from hexgen_celery.health.redis_server import check_redis
from hexgen_celery.health.store import check_store
from hexgen_celery.instances import InstanceRecord
from hexgen_celery.llm import ChatRequest, LlmClient
from hexgen_celery.logs import mask_text
from hexgen_celery.settings import Settings
from hexgen_celery.sql.file_sight import SIGHT, problem_with

if TYPE_CHECKING:
    from hexgen_celery.sql.databases import DatabaseEntry

OLDEST_PYTHON = (3, 11)
OLDEST_REDIS = (6, 2)
CLOCK_SKEW_SECONDS = 0.25
PING_SECONDS = 1.5
SERVER_SECONDS = 15.0
CHECKED_PACKAGES = ("celery", "kombu", "redis", "flower", "sqlglot", "aiohttp", "pydantic")
WORKER_KINDS = ("control", "sql", "llm")


def check_all(settings: Settings) -> Iterator[Check]:
    """Run every check, yielding each as it is done; those that need the broker end without one."""
    yield _python()
    yield _versions()
    if settings.broker.url.get_secret_value() == EMBEDDED:
        yield _guarded("redis program", lambda: str(find_redis_program()))
    broker, client = _broker(settings)
    yield broker
    announced: tuple[InstanceRecord, ...] = ()
    if client is not None:
        counts = client.counts()
        announced = tuple(each.record for each in counts.instances if each.state == "ready")
        yield from check_redis(client.redis_info())
        yield _clock(client)
        answering = _answering(client)
        yield from _workers(answering)
        yield from check_strangers(answering, counts.processes)
        yield from check_deployment(client.settings, counts)
        yield from _databases(
            client, [each.worker for each in counts.processes if each.kind == "sql"]
        )
        yield from check_store(client.settings, counts)
    yield from _instances(settings, announced)


def _guarded(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, Verdict.OK, check())
    except HexgenError as error:
        return Check(name, Verdict.FAILED, error.message, error.hint)


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    verdict = Verdict.OK if sys.version_info >= OLDEST_PYTHON else Verdict.FAILED
    return Check("python", verdict, found, "" if verdict is Verdict.OK else "use Python ≥ 3.11")


def _versions() -> Check:
    names = ("hexgen-celery", *CHECKED_PACKAGES)
    return Check("versions", Verdict.OK, ", ".join(f"{name} {version(name)}" for name in names))


def _broker(settings: Settings) -> tuple[Check, Client | None]:
    try:
        client = Client(settings)
        server = client.redis_version()
    except HexgenError as error:
        return Check("broker", Verdict.FAILED, error.message, error.hint), None
    major, minor = (int(part) for part in server.split(".")[:2])
    if (major, minor) < OLDEST_REDIS:
        return Check("broker", Verdict.FAILED, f"Redis {server}", "use Redis ≥ 6.2"), None
    where = mask_text(client.settings.broker.url.get_secret_value())
    return Check("broker", Verdict.OK, f"Redis {server} at {where}"), client


def _clock(client: Client) -> Check:
    skew = client.redis_time() - time.time()
    detail = f"{skew * 1000:+.0f} ms against the broker"
    if abs(skew) <= CLOCK_SKEW_SECONDS:
        return Check("clock", Verdict.OK, detail)
    return Check("clock", Verdict.WARNING, detail, "run NTP here and on the broker's host")


def _answering(client: Client) -> list[str]:
    """The node names of all workers on the broker; one name twice where two workers have it."""
    replies = client.app.control.ping(timeout=PING_SECONDS)
    return sorted(name for reply in replies for name in reply)


def _workers(names: list[str]) -> Iterator[Check]:
    for kind in WORKER_KINDS:
        found = [name for name in names if name.startswith(kind)]
        if found:
            yield Check(f"{kind} workers", Verdict.OK, ", ".join(found))
        else:
            hint = f"start one with `hexgen worker {kind}`, or everything with `hexgen up`"
            yield Check(f"{kind} workers", Verdict.FAILED, "none answers", hint)


def _databases(client: Client, sql_workers: list[str]) -> Iterator[Check]:
    entries = client.databases()
    if not entries:
        yield Check("databases", Verdict.WARNING, "none", "register one with `hexgen db add PATH`")
    seen = _seen_by_sql_workers(client, sql_workers) if entries and sql_workers else {}
    for entry in entries:
        yield _database(
            entry,
            {worker: known[entry.name] for worker, known in seen.items() if entry.name in known},
        )


def _seen_by_sql_workers(client: Client, workers: list[str]) -> dict[str, dict[str, str]]:
    """What each sql worker says of its files: worker → database → problem, or "".

    Only they are asked: others know no such command, log a traceback and may answer first.
    """
    replies = client.app.control.broadcast(
        SIGHT, reply=True, timeout=PING_SECONDS, limit=len(workers), destination=workers
    )
    return {worker: known for reply in replies or [] for worker, known in reply.items()}


def _database(entry: DatabaseEntry, seen: Mapping[str, str]) -> Check:
    """`seen`: by sql worker what is wrong with the file there, "" for nothing."""
    name = f"database {entry.name}"
    hint = "sql workers need the file at this path; add it again from where it is now"
    troubles = seen or {"": problem_with(Path(entry.file.path))}
    wrong = {worker: trouble for worker, trouble in troubles.items() if trouble}
    if not wrong:
        return Check(name, Verdict.OK, f"{entry.tables} tables, {entry.rows} rows")
    where = ", ".join(worker for worker in wrong if worker)
    detail = next(iter(wrong.values())) + (f" ({where})" if where else "")
    verdict = Verdict.FAILED if seen and len(wrong) == len(seen) else Verdict.WARNING
    return Check(name, verdict, detail, hint)


def _instances(settings: Settings, announced: Iterable[InstanceRecord]) -> Iterator[Check]:
    """Whether every server completes a request: the declared ones, and the ready ones that
    registered themselves."""
    servers = _servers(settings)
    known = {name for name, _, _ in servers}
    servers += [(each.name, each.model, each.url) for each in announced if each.name not in known]
    waiting = [each.name for pool in settings.pools for each in pool.instances if not each.url]
    if not servers and waiting:
        detail = f"{', '.join(waiting)} not running"
        yield Check("instances", Verdict.FAILED, detail, "start them with `hexgen up`")
    elif not servers and settings.pools:
        hint = "`hexgen worker llm --instance NAME --pool POOL --url URL`"
        yield Check("instances", Verdict.FAILED, "none is ready in any pool", hint)
    elif not servers:
        hint = "declare [[pools]] with instances; see docs/configuration.md"
        yield Check("instances", Verdict.FAILED, "none is declared", hint)
    for name, model, url in servers:
        yield _guarded(f"instance {name}", partial(_completion, settings, model, url))


def _servers(settings: Settings) -> list[tuple[str, str, str]]:
    """Name, model and URL of each: of the running cluster here, else as declared."""
    running = read_cluster(settings.up.directory)
    if running is not None:
        return [(each.name, each.model, each.url) for each in running.instances]
    return [
        (instance.name, pool.model, instance.url)
        for pool in settings.pools
        for instance in pool.instances
        if instance.url
    ]


def _completion(settings: Settings, model: str, url: str) -> str:
    patience = min(settings.llm.idle_timeout_seconds, SERVER_SECONDS)
    impatient = settings.llm.model_copy(update={"idle_timeout_seconds": patience, "retries": 0})
    with LlmClient(url, impatient) as server:
        server.check(model)
        request = ChatRequest(model, (("user", "Answer with the word ready."),), max_tokens=4)
        done = server.complete(request)
        kind = server.version() or "unknown version"
    return f"{model} answered in {done.seconds:.2f} s ({kind}) at {url}"
