"""The fleet that a file declares: a cluster file of the simulator, or a deployment's configuration.

Whoever runs a cluster has its pools in a TOML file already; simulating, tuning and planning for it
should not need a second one.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hexgen_celery.core.fleet import Fleet, FleetInstance
from hexgen_celery.errors import InvalidProfile
from hexgen_celery.profiles_io import load_fleet, load_profile
from hexgen_celery.settings import PoolSettings, Settings, load_settings


def read_fleet(name: str | Path) -> Fleet:
    """The fleet of a cluster file (by path or shipped name) or of a configuration with `[[pools]]`.

    Raises:
        InvalidProfile: the file, or a profile that it names, is missing or wrong.
        InvalidSettings: it is a configuration, and wrong.
    """
    path = Path(name)
    if _declares_pools(path):
        return declared_fleet(load_settings(path), path.stem)
    return load_fleet(name)


def declared_fleet(settings: Settings, name: str) -> Fleet:
    """The declared instances of the model that most of them serve, by their pools' profiles.

    Raises:
        InvalidProfile: there is no pool with an instance, or a profile is missing or wrong.
    """
    if not settings.pools:
        hint = "add [[pools]] with instances, or name a cluster file"
        raise InvalidProfile(f"{name} declares no pool", field="pools", hint=hint)
    counts: Counter[str] = Counter()
    for pool in settings.pools:
        counts[pool.model] += len(pool.instances)
    ((model, most),) = counts.most_common(1)
    if not most:
        hint = "add instances to one of [[pools]], or name a cluster file"
        raise InvalidProfile(f"{name} declares no instance", field="pools.instances", hint=hint)
    serving = [pool for pool in settings.pools if pool.model == model]
    return Fleet(name, model, tuple(one for pool in serving for one in _instances(pool)))


def _instances(pool: PoolSettings) -> list[FleetInstance]:
    # The server may list its model by another name than the profile has.
    profile = replace(load_profile(pool.profile), model=pool.model)
    return [FleetInstance(instance.name, pool.queue, profile) for instance in pool.instances]


def _declares_pools(path: Path) -> bool:
    if path.suffix != ".toml" or not path.is_file():
        return False
    try:
        return "pools" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # Whoever reads it in earnest says what is wrong with it.
        return False
