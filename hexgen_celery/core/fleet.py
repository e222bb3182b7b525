"""The instances that a decision, a simulation or a plan is about."""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.core.profiles import Profile


@dataclass(frozen=True, slots=True)
class FleetInstance:
    """One server: its unique name, the pool it belongs to and how fast it is."""

    name: str
    pool: str
    profile: Profile


@dataclass(frozen=True, slots=True)
class Fleet:
    """Instances that serve one model, in a fixed order.

    Raises:
        ValueError: if there is no instance, a name occurs twice, one serves another model, or the
            instances of a pool differ in profile.
    """

    name: str
    model: str
    instances: tuple[FleetInstance, ...]

    def __post_init__(self) -> None:
        if not self.instances:
            raise ValueError(f"fleet {self.name} has no instances")
        pools: dict[str, Profile] = {}
        names: set[str] = set()
        for instance in self.instances:
            if instance.name in names:
                raise ValueError(f"instance name {instance.name} occurs twice")
            names.add(instance.name)
            if instance.profile.model != self.model:
                raise ValueError(
                    f"instance {instance.name} serves {instance.profile.model}, not {self.model}"
                )
            if pools.setdefault(instance.pool, instance.profile) != instance.profile:
                raise ValueError(f"pool {instance.pool} mixes profiles ({instance.name} differs)")

    @property
    def pools(self) -> tuple[str, ...]:
        """Names of the pools, in order of first appearance."""
        return tuple(dict.fromkeys(instance.pool for instance in self.instances))
