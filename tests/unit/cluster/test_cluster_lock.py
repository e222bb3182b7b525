"""Whether a cluster runs in a directory is decided by a lock, not by a process id."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pydantic import SecretStr

from hexgen_celery.cluster import ClusterState, only_supervisor, read_cluster, write_cluster

HOLDER = """
import sys
from pathlib import Path
from hexgen_celery.cluster import only_supervisor
with only_supervisor(Path(sys.argv[1])) as alone:
    print(alone, flush=True)
    sys.stdin.read()
"""


def state(pid: int) -> ClusterState:
    return ClusterState(pid=pid, broker_url=SecretStr("redis://host"), prefix="p", started_at=0.0)


def test_a_cluster_runs_while_its_supervisor_holds_the_lock(tmp_path: Path) -> None:
    with only_supervisor(tmp_path) as alone:
        write_cluster(tmp_path, state(os.getpid()))
        assert alone
        assert read_cluster(tmp_path) == state(os.getpid())
    assert read_cluster(tmp_path) is None


def test_what_a_killed_supervisor_left_is_no_cluster_even_if_its_id_lives_again(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        write_cluster(tmp_path, state(os.getpid()))
        assert read_cluster(tmp_path) is not None
        holder.kill()
    assert read_cluster(tmp_path) is None
    with only_supervisor(tmp_path) as alone:
        assert alone


def test_two_at_once_are_one_too_many(tmp_path: Path) -> None:
    with only_supervisor(tmp_path) as first, only_supervisor(tmp_path) as second:
        assert (first, second) == (True, False)
