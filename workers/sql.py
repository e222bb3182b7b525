"""SQL worker: runs statements in sandbox programs. `python -m workers.sql --name N`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hexgen_celery.deployment import connect_deployment
from hexgen_celery.names import SQL_QUEUE, SQL_TASKS
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.linking import RETRIEVE
from workers.celery_process import node_name, run_process
from workers.database_sight import tell_about_databases
from workers.requests import Place
from workers.sandbox_pool import SandboxPolicy, SandboxPool
from workers.sql_databases import RegisteredDatabases
from workers.sql_requests import ExecuteOperation, SqlExecutor
from workers.sql_retrieval import RetrieveOperation
from workers.stage_worker import StageWorker

MEBIBYTE = 1024 * 1024


def serve(settings: Settings, name: str) -> int:
    """Run an sql worker until it is told to stop."""
    deployment = connect_deployment(settings, "sql", node_name(name))
    policy = SandboxPolicy(memory_bytes=settings.sql.memory_mib * MEBIBYTE, user=settings.sql.user)
    try:
        with SandboxPool(settings.sql.processes, policy) as sandbox:
            databases = RegisteredDatabases(deployment.databases)
            tell_about_databases(deployment.databases)
            execute = ExecuteOperation(sandbox, databases, settings.sql)
            worker = StageWorker(
                deployment,
                "sql",
                SqlExecutor({"execute": execute, RETRIEVE: RetrieveOperation(databases)}),
                Place(deployment.worker, queue=SQL_QUEUE),
            )
            return worker.run(
                name,
                tasks=SQL_TASKS,
                queues=(SQL_QUEUE,),
                concurrency=settings.workers.sql_concurrency,
            )
    finally:
        deployment.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sql worker that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m workers.sql", description=__doc__)
    parser.add_argument("--name", default="sql", help="unique on this host")
    name = parser.parse_args(arguments).name
    return run_process(name, lambda settings: serve(settings, name))


if __name__ == "__main__":
    sys.exit(main())
