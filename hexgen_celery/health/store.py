"""Checks of the store and of the recorder that fills it."""

from __future__ import annotations

from collections.abc import Iterator

from hexgen_celery.errors import HexgenError
from hexgen_celery.health.outcome import Check, Verdict, failed, passed, warned
from hexgen_celery.overview.counts import ClusterCounts
from hexgen_celery.settings import Settings
from hexgen_celery.store.stream import Backlog

LAG_SECONDS = 60.0


def check_store(settings: Settings, counts: ClusterCounts) -> Iterator[Check]:
    """Its version, whether a recorder runs, and what waits; nothing where it is switched off."""
    if not settings.store.enabled:
        return
    yield _tables(settings)
    yield _recorder(counts)
    if counts.store.loses:
        yield _losses(counts.store)


def _tables(settings: Settings) -> Check:
    from hexgen_celery.store.engine import open_store, place_of, sqlite_file
    from hexgen_celery.store.schema import schema_version

    try:
        engine = open_store(settings, writing=False)
        file = sqlite_file(engine.url)
        if file is not None and not file.exists():
            detail = f"{file} does not exist here; the recorder makes it where it runs"
            return warned("store", detail, "set store.url to what the recorder uses")
        version = schema_version(engine)
        engine.dispose()
    except HexgenError as error:
        return Check("store", Verdict.WARNING, error.message, error.hint)
    if version.up_to_date:
        return passed("store", f"{place_of(engine.url)}, version {version.current}")
    detail = f"{place_of(engine.url)} has version {version.current or 'none'}"
    return failed("store", f"{detail}, this program needs {version.wanted}", version.mending)


def _recorder(counts: ClusterCounts) -> Check:
    backlog = counts.store
    detail = f"{backlog.waiting} entries wait, the oldest {backlog.oldest_seconds:.0f} s"
    if not any(process.kind == "recorder" for process in counts.processes):
        return warned("recorder", f"none runs; {detail}", "start one with `hexgen worker recorder`")
    if backlog.oldest_seconds > LAG_SECONDS:
        return warned("recorder", detail, "see its log: the store is away, slow or outdated")
    return passed("recorder", detail)


def _losses(backlog: Backlog) -> Check:
    detail = f"{backlog.dropped_text}, {backlog.aside} set aside"
    hint = "`hexgen store status` says why; `hexgen store retry` or `forget` those set aside"
    return warned("store losses", detail, hint)
