"""LLM worker: feeds one LLM server. `python -m workers.llm --instance NAME`.

It takes from the instance's own queue and from its pool's. An ordinary Celery worker: one process,
`pool.concurrency` threads, nothing prefetched.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from hexgen_celery.core.admission import Allowance
from hexgen_celery.deployment import Deployment, connect_deployment
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.instances import InstanceDirectory
from hexgen_celery.live_cluster import instance_record, scaled_profile
from hexgen_celery.llm import LlmClient
from hexgen_celery.names import LLM_TASKS
from hexgen_celery.part_tokens import PartTokenStore
from hexgen_celery.parts import PartStore
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.references import RequestRef
from hexgen_celery.settings import InstanceSettings, PoolSettings, Settings
from hexgen_celery.transport import process
from hexgen_celery.transport.engine_admission import engine_admission
from hexgen_celery.transport.messages import token_of
from hexgen_celery.transport.process import use_admission
from workers.celery_process import node_name, run_process
from workers.instance_name import refuse_taken_name
from workers.instances import Announcer
from workers.kv_gauge import GaugedAdmission
from workers.llm_requests import LlmExecutor
from workers.overflow import LongerElsewhere
from workers.part_counter import PartCounter
from workers.patience import patience_seconds
from workers.periodic import Periodic
from workers.prompts import PromptAssembler
from workers.requests import Place
from workers.server_probe import ServerProbe
from workers.stage_worker import StageWorker

NOTHING_FITS = Allowance(0, 0, 0)
GAUGE_SECONDS = 2.0
COUNT_SECONDS = 1.0


def worker_name(instance: str) -> str:
    """The name of the worker that feeds `instance`."""
    return f"llm-{instance}"


@dataclass(frozen=True, slots=True)
class Served:
    """What this worker serves: one instance of one pool."""

    pool: PoolSettings
    instance: InstanceSettings

    @property
    def name(self) -> str:
        """The instance's name."""
        return self.instance.name


def serve(settings: Settings, served: Served) -> int:
    """Run the LLM worker of an instance until it is told to stop."""
    pool, url = served.pool, _url(served.instance)
    name = worker_name(served.name)
    deployment = connect_deployment(settings, "llm", node_name(name))
    client = LlmClient(url, settings.llm)
    record = instance_record(settings, pool, served.instance, deployment.worker)
    directory = InstanceDirectory(deployment.redis, deployment.keys)
    refuse_taken_name(directory, record, settings.workers.dead_after_seconds)
    profile = load_profile(pool.profile)
    server = ServerProbe(client, pool.model, pool.max_model_len)
    announcer = Announcer(
        directory,
        record,
        server,
        settings.workers.heartbeat_seconds,
        on_silent=lambda: worker.break_off(),
        offered_len=lambda: server.offered_len,
        activity=client.activity,
        patience_seconds=patience_seconds(
            settings.llm.stalled_after_seconds,
            scaled_profile(profile, record.speed),
            pool.max_model_len,
        ),
    )
    policy = engine_admission(settings.admission, profile)
    engine = GaugedAdmission(policy, profile.kv_tokens, client.metrics)
    use_admission(lambda load: engine(load) if announcer.ready else NOTHING_FITS)
    counter = PartCounter(
        PartTokenStore(deployment.redis, deployment.keys),
        pool.model,
        lambda text: client.tokenize(text, pool.model),
    )
    elsewhere = LongerElsewhere(directory, served.name, settings.workers.dead_after_seconds)
    worker = StageWorker(
        deployment,
        "llm",
        _executor(deployment, client, pool.model, announcer, counter, elsewhere),
        Place(deployment.worker, served.name, pool.queue),
        on_stopping=announcer.withdraw,
    )
    try:
        return worker.run(
            name,
            tasks=LLM_TASKS,
            queues=(record.own_queue, pool.queue),
            concurrency=pool.concurrency,
            services=(
                announcer,
                Periodic("kv-gauge", engine.look, GAUGE_SECONDS),
                Periodic("part-counter", counter.count, COUNT_SECONDS),
            ),
        )
    finally:
        client.close()
        deployment.close()


def find_served(settings: Settings, name: str, pool: str = "", url: str = "") -> Served:
    """The declared instance `name`; with `pool` (its name, or its queue) and `url`, a new one that
    registers itself there.

    Raises:
        InvalidSettings: no such instance or pool is declared, several pools are called so, or the
            new instance has no url, a declared one's name, or one that cannot be a name.
    """
    if not pool and not url:
        return Served(*settings.instance(name))
    if any(name == each.name for declared in settings.pools for each in declared.instances):
        raise InvalidSettings(
            f"instance {name!r} is declared, with a server of its own",
            field="instance",
            hint="leave out --pool and --url, or give the new instance another name",
        )
    try:
        return Served(_joined(settings, pool), InstanceSettings(name=name, url=url or None))
    except ValidationError as error:
        field = str(next(iter(error.errors()[0]["loc"]), "url"))
        hints = {"name": "letters, digits, `_` and `-`", "url": "give its server with --url URL"}
        raise InvalidSettings(
            f"{name!r} cannot join a pool", field=field, hint=hints[field]
        ) from error


def _joined(settings: Settings, pool: str) -> PoolSettings:
    found = [each for each in settings.pools if pool in (each.name, each.queue)]
    if len(found) == 1:
        return found[0]
    if found:
        queues = " or ".join(each.queue for each in found)
        raise InvalidSettings(
            f"{len(found)} pools are called {pool!r}",
            field="pool",
            hint=f"name one by its queue: {queues}",
        )
    known = ", ".join(each.queue for each in settings.pools) or "none"
    raise InvalidSettings(f"no pool {pool!r} is declared", field="pool", hint=f"declared: {known}")


def _url(instance: InstanceSettings) -> str:
    if instance.url:
        return instance.url
    raise InvalidSettings(
        f"instance {instance.name!r} has no url",
        field="pools.instances.url",
        hint="give the server's URL, or let `hexgen up` start it",
    )


def _executor(
    deployment: Deployment,
    client: LlmClient,
    model: str,
    announcer: Announcer,
    counter: PartCounter,
    elsewhere: LongerElsewhere,
) -> LlmExecutor:
    parts = PartStore(deployment.redis, deployment.keys)

    def first_token(ref: RequestRef) -> None:
        """Its prefill leaves the admission of this worker and the ledger of the deployment."""
        process.first_token(token_of(str(ref)))
        deployment.coordinator.first_token(ref)

    return LlmExecutor(
        client,
        PromptAssembler(parts, counter.offer),
        first_token,
        model,
        on_progress=announcer.progressed,
        on_unavailable=announcer.failed,
        on_overflow=elsewhere.judged,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the LLM worker that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m workers.llm", description=__doc__)
    parser.add_argument(
        "--instance", required=True, help="a declared instance's name, or a new one"
    )
    parser.add_argument(
        "--pool", default="", help="name or queue of the declared pool that a new instance joins"
    )
    parser.add_argument("--url", default="", help="the new instance's server")
    options = parser.parse_args(arguments)

    def run(settings: Settings) -> int:
        return serve(settings, find_served(settings, options.instance, options.pool, options.url))

    return run_process(worker_name(options.instance), run)


if __name__ == "__main__":
    sys.exit(main())
