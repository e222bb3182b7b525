"""Independent computations on several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from hexgen_celery.named_modules import register_policies, registered_modules

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def usable_processes() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def map_unordered(
    function: Callable[[ItemT], ResultT], items: Iterable[ItemT], processes: int
) -> Iterator[tuple[ItemT, ResultT]]:
    """Yield each item with its result as soon as it is known, not in order.

    With one process the caller's own is used. Otherwise the processes are spawned, not forked, so
    that a caller with threads is safe; `function` must be importable and items picklable.
    """
    if processes <= 1:
        yield from ((item, function(item)) for item in items)
        return
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=register_policies,
        initargs=(registered_modules(),),
    )
    try:
        futures = {pool.submit(function, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        # After an interruption only what runs already is waited for.
        pool.shutdown(cancel_futures=True)
