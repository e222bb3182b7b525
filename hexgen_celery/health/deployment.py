"""Checks of a running deployment by its figures: processes, pools, housekeeping."""

from __future__ import annotations

import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPException

from hexgen_celery.health.outcome import Check, failed, passed, warned
from hexgen_celery.instances import InstanceState
from hexgen_celery.names import SQL_QUEUE
from hexgen_celery.overview.counts import ClusterCounts, InstanceCounts
from hexgen_celery.processes import ProcessRecord
from hexgen_celery.settings import PoolSettings, Settings

TIMERS_SECONDS = 15.0
OUTBOX_SECONDS = 10.0
ENDPOINT_SECONDS = 2.0
LISTED = 5
HOW = {
    InstanceState.STARTING: "wait until its server has completed a request; see the server's log",
    InstanceState.SUSPECT: "a probe decides within seconds; see the server's log",
    InstanceState.DOWN: "start its server or worker again; probes find it by themselves",
    InstanceState.DRAINING: "`hexgen instances resume NAME` takes it back",
}


def check_deployment(settings: Settings, counts: ClusterCounts) -> Iterator[Check]:
    """Everything that the figures tell, most important first."""
    if counts.processes:
        yield _timers(counts)
        yield from _likeness(counts.processes)
    yield from _instances(settings.pools, counts)
    yield from _consumers(counts)
    yield from _housekeeping(counts)
    yield from _endpoints(counts.processes)


def check_strangers(
    answering: Iterable[str], processes: Iterable[ProcessRecord]
) -> Iterator[Check]:
    """Workers that answer on this broker and should not: those that feed an instance that another
    one feeds too, and those that are not of this deployment.

    The queues that clients send to have the same names in all deployments, so that the workers of
    another one take, and answer, questions of this one.
    """
    known = {each.worker: each.kind for each in processes}
    counted = Counter(answering)
    feeding = {name: times for name, times in counted.items() if known.get(name) == "llm"}
    yield from _doubled(feeding)
    strangers = [
        name
        for name, times in counted.items()
        if name not in known or (times > 1 and name not in feeding)
    ]
    if known and strangers:
        detail = f"of another deployment, on the same Redis database: {_listed(strangers)}"
        yield warned("strange workers", detail, "give each deployment its own database number")


def _doubled(feeding: Mapping[str, int]) -> Iterator[Check]:
    """Instances with more than one worker, of which each counts only what it holds itself."""
    workers: Counter[str] = Counter()
    for name, times in feeding.items():
        workers[name.partition("@")[0].removeprefix("llm-")] += times
    for instance, number in workers.items():
        if number > 1:
            many = "two" if number == 2 else str(number)
            detail = f"{many} workers feed {instance}, so that its server is sent {many} times"
            hint = (
                "stop all but one, once its successor is ready; where one is of another "
                "deployment, give each a database number of its own"
            )
            yield warned(f"workers of {instance}", f"{detail} what it should hold", hint)


def _timers(counts: ClusterCounts) -> Check:
    age = counts.timers_age_seconds
    if age is not None and age <= TIMERS_SECONDS:
        return passed("timers", f"looked at {max(0.0, age):.1f} s ago")
    detail = "never looked at" if age is None else f"looked at {age:.0f} s ago"
    return failed("timers", detail, "start a control worker; see the logs of those there are")


def _likeness(processes: Iterable[ProcessRecord]) -> Iterator[Check]:
    """Whether all processes run one version with one configuration."""
    known = list(processes)
    versions = Counter(each.version for each in known)
    if len(versions) == 1:
        yield passed("worker versions", f"{len(known)} processes of {next(iter(versions))}")
    else:
        listed = _those([(each.worker, each.version) for each in known], versions)
        yield warned("worker versions", listed, "replace the workers of the older version")
    prints = Counter(each.fingerprint for each in known)
    if len(prints) == 1:
        yield passed("worker settings", "the same everywhere")
    else:
        listed = _those([(each.worker, each.fingerprint) for each in known], prints)
        hint = "start these again with the configuration of the others"
        yield warned("worker settings", f"they differ: {listed}", hint)


def _those(values: Iterable[tuple[str, str]], counted: Counter[str]) -> str:
    """Who is not like most."""
    usual = counted.most_common(1)[0][0]
    return _listed([f"{worker} ({value})" for worker, value in values if value != usual])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def _instances(pools: Iterable[PoolSettings], counts: ClusterCounts) -> Iterator[Check]:
    """Declared instances that nobody announced, and announced ones that are not ready."""
    announced = {each.record.name: each for each in counts.instances}
    serving = {each.record.queue for each in counts.instances if each.state == "ready"}
    joined = {each.record.queue for each in counts.instances}
    for pool in pools:
        if not pool.instances and pool.queue not in joined:
            hint = f"`hexgen worker llm --instance NAME --pool {pool.queue} --url URL`"
            yield warned(f"pool {pool.queue}", "declares no instance, and none has joined it", hint)
        for instance in pool.instances:
            if instance.name not in announced and counts.instances:
                detail = f"declared in {pool.queue}, but no worker announces it"
                hint = f"`hexgen worker llm --instance {instance.name}`"
                yield warned(f"worker of {instance.name}", detail, hint)
    for each in counts.instances:
        if each.state != InstanceState.READY:
            yield _not_ready(each, alone=each.record.queue not in serving)


def _not_ready(instance: InstanceCounts, *, alone: bool) -> Check:
    record, state = instance.record, instance.state
    silent = state == InstanceState.DOWN and record.ready
    why = f"not heard of for {instance.beat_age_seconds:.0f} s" if silent else record.reason
    name = f"state of {record.name}"
    detail = f"{state}: {why}" if why else str(state)
    hint = HOW[state].replace("NAME", record.name)
    if alone:
        return failed(name, f"{detail}; no instance of {record.queue} is ready", hint)
    return warned(name, detail, hint)


def _consumers(counts: ClusterCounts) -> Iterator[Check]:
    """Queues in which something waits for nobody."""
    present = {each.record.queue for each in counts.instances}
    kinds = {process.kind for process in counts.processes}
    for pool in counts.pools:
        served = "sql" in kinds if pool.name == SQL_QUEUE else pool.name in present
        if pool.waiting and not served:
            hint = "start a worker for it, or `hexgen cancel` the questions"
            yield failed(f"queue {pool.name}", f"{pool.waiting} wait, nobody consumes", hint)
    if counts.submissions_waiting and "control" not in kinds:
        detail = f"{counts.submissions_waiting} questions wait to be accepted"
        yield failed("queue hexgen.ask", detail, "start a control worker")


def _housekeeping(counts: ClusterCounts) -> Iterator[Check]:
    outbox = counts.outbox
    if outbox.overdue_seconds > OUTBOX_SECONDS:
        detail = f"{outbox.entries} entries, the oldest {outbox.overdue_seconds:.0f} s overdue"
        yield failed("outbox", detail, "control workers send them; see their logs")
    else:
        yield passed("outbox", f"{outbox.entries} entries, {outbox.unsent} in no queue")
    if counts.leases_overdue:
        detail = f"{counts.leases_overdue} running requests have lost their workers"
        yield warned("leases", detail, "control workers give them to others within seconds")
    else:
        yield passed("leases", f"{counts.requests_running} requests running, all alive")
    if counts.dead_letters:
        hint = "`hexgen queues dead` shows causes; then `redrive` or `drop` them"
        yield warned("dead letters", str(counts.dead_letters), hint)


def _endpoints(processes: Iterable[ProcessRecord]) -> Iterator[Check]:
    """Whether the metrics of every process that announces an endpoint can be read from here."""
    shown = [process for process in processes if process.endpoint]
    silent = [f"{each.worker} at {each.endpoint}" for each in shown if not _answers(each.endpoint)]
    if silent:
        hint = (
            "see whether these processes live and work; where they do, set metrics.host and "
            "metrics.advertise so that scrapers reach them"
        )
        yield warned("metrics", f"no answer from {_listed(silent)}", hint)
    elif shown:
        yield passed("metrics", f"{len(shown)} endpoints answer")


def _answers(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{endpoint}/healthz", timeout=ENDPOINT_SECONDS) as page:
            return bool(page.status == 200)
    except (OSError, HTTPException, ValueError):
        return False
