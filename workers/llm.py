"""LLM worker: feeds one LLM server from its pool's queue. `python -m workers.llm --instance NAME`.

An ordinary Celery worker: one process, `pool.concurrency` threads, nothing prefetched.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hexgen_celery.core.admission import Allowance
from hexgen_celery.deployment import Deployment, connect_deployment
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.instances import InstanceDirectory, InstanceRecord
from hexgen_celery.llm import LlmClient
from hexgen_celery.names import LLM_TASKS
from hexgen_celery.parts import PartStore
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.references import RequestRef
from hexgen_celery.settings import InstanceSettings, PoolSettings, Settings
from hexgen_celery.transport import process
from hexgen_celery.transport.engine_admission import engine_admission
from hexgen_celery.transport.messages import token_of
from hexgen_celery.transport.process import use_admission
from workers.celery_process import node_name, run_process
from workers.instances import Announcer
from workers.llm_requests import LlmExecutor
from workers.prompts import PromptAssembler
from workers.requests import Place
from workers.stage_worker import StageWorker

NOTHING_FITS = Allowance(0, 0, 0)


def worker_name(instance: str) -> str:
    """The name of the worker that feeds `instance`."""
    return f"llm-{instance}"


def serve(settings: Settings, instance_name: str) -> int:
    """Run the LLM worker of a declared instance until it is told to stop."""
    pool, instance = settings.instance(instance_name)
    url = _url(instance)
    name = worker_name(instance_name)
    deployment = connect_deployment(settings, "llm", node_name(name))
    client = LlmClient(url, settings.llm)
    record = _record(pool, instance_name, url, deployment.worker)
    directory = InstanceDirectory(deployment.redis, deployment.keys)
    announcer = Announcer(directory, record, client, settings.workers.heartbeat_seconds)
    engine = engine_admission(settings.admission, load_profile(pool.profile))
    use_admission(lambda load: engine(load) if announcer.ready else NOTHING_FITS)
    worker = StageWorker(
        deployment,
        _executor(deployment, client, pool.model, announcer),
        Place(deployment.worker, instance_name, pool.queue),
        on_stopping=announcer.withdraw,
    )
    try:
        return worker.run(
            name,
            tasks=LLM_TASKS,
            queue=pool.queue,
            concurrency=pool.concurrency,
            services=(announcer,),
        )
    finally:
        client.close()
        deployment.close()


def _url(instance: InstanceSettings) -> str:
    if instance.url:
        return instance.url
    raise InvalidSettings(
        f"instance {instance.name!r} has no url",
        field="pools.instances.url",
        hint="give the server's URL, or let `hexgen up` start the emulated one",
    )


def _record(pool: PoolSettings, name: str, url: str, worker: str) -> InstanceRecord:
    return InstanceRecord(
        name=name,
        queue=pool.queue,
        gpu=pool.gpu,
        model=pool.model,
        profile=pool.profile,
        url=url,
        worker=worker,
        concurrency=pool.concurrency,
    )


def _executor(
    deployment: Deployment, client: LlmClient, model: str, announcer: Announcer
) -> LlmExecutor:
    parts = PartStore(deployment.redis, deployment.keys)

    def first_token(ref: RequestRef) -> None:
        """Its prefill leaves the admission of this worker and the ledger of the deployment."""
        process.first_token(token_of(str(ref)))
        deployment.coordinator.first_token(ref)

    return LlmExecutor(
        client, PromptAssembler(parts), first_token, model, on_unavailable=announcer.check_soon
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the LLM worker that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m workers.llm", description=__doc__)
    parser.add_argument("--instance", required=True, help="a declared instance's name")
    instance = parser.parse_args(arguments).instance
    return run_process(worker_name(instance), lambda settings: serve(settings, instance))


if __name__ == "__main__":
    sys.exit(main())
