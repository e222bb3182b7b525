"""Every Redis key of the deployment, built in one place.

All keys carry the deployment's prefix and one hash tag, so that two deployments can share a Redis
and a script's keys fall into one slot.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """Key builder. `prefix` names the deployment."""

    prefix: str = "hexgen"

    def _key(self, *parts: str) -> str:
        return ":".join(("{" + self.prefix + "}", *parts))

    def workflow(self, workflow_id: str) -> str:
        """Hash: the question and its status."""
        return self._key("wf", workflow_id)

    def nodes(self, workflow_id: str) -> str:
        """Hash: node id → record, `<node>/spec`, `<node>/result` (JSON)."""
        return self._key("wf", workflow_id, "nodes")

    def bulk(self, workflow_id: str) -> str:
        """Hash: node id → rows (JSON), kept out of the way of every view."""
        return self._key("wf", workflow_id, "bulk")

    def trace(self, workflow_id: str) -> str:
        """List: what happened to this question (JSON), oldest first."""
        return self._key("wf", workflow_id, "trace")

    @property
    def outbox(self) -> str:
        """Sorted set: `workflow/node/attempt` to publish, or `workflow` whose result to store, by
        the time it is due again (the entry's content is the workflow's own state)."""
        return self._key("outbox")

    @property
    def swept(self) -> str:
        """String: when leases were last swept (ms)."""
        return self._key("swept")

    @property
    def deadlines(self) -> str:
        """Sorted set: running workflow id by deadline."""
        return self._key("deadlines")

    @property
    def running(self) -> str:
        """Sorted set: claimed request (`workflow/node/attempt`) by the end of its lease."""
        return self._key("running")

    @property
    def load(self) -> str:
        """Hash: `<queue>:<measure>`, `instance/<name>:<measure>` → integers; see ledger.py."""
        return self._key("load")

    @property
    def events(self) -> str:
        """Stream: the deployment's trace, capped; read by recorder and tuner."""
        return self._key("events")

    @property
    def records(self) -> str:
        """Stream: questions that began or ended and are not yet in the store; behind `:dropped` how
        many were dropped unread and behind `:dropped_at` when the last was (strings), behind
        `:aside` those that cannot be stored (stream)."""
        return self._key("records")

    @property
    def databases(self) -> str:
        """Hash: database name → registration (JSON)."""
        return self._key("databases")

    @property
    def catalogs(self) -> str:
        """Hash: database name → what profiling found in it (JSON)."""
        return self._key("catalogs")

    def part(self, digest: str) -> str:
        """String: the text of a prompt part."""
        return self._key("part", digest)

    def part_tokens(self, model: str, digest: str) -> str:
        """String: how many tokens a prompt part has by the tokenizer of `model`; expires."""
        return self._key("tokens", model, digest)

    @property
    def cancels(self) -> str:
        """Pub/sub channel: workflow ids, or `workflow/node`, whose work must stop now."""
        return self._key("cancels")

    @property
    def instances(self) -> str:
        """Hash: instance name → registration and heartbeat (JSON)."""
        return self._key("instances")

    @property
    def processes(self) -> str:
        """Hash: worker name → what runs there, its version and endpoint, and heartbeat (JSON)."""
        return self._key("processes")

    @property
    def drains(self) -> str:
        """Hash: instance name → why an operator wants no more requests sent there."""
        return self._key("drains")

    @property
    def policies(self) -> str:
        """Hash: scope (`tenant@model`, either may be empty) → dispatch policy in force (JSON)."""
        return self._key("policies")

    @property
    def placements(self) -> str:
        """Stream: prompt beginnings sent to instances, by which routers follow what is cached."""
        return self._key("placements")

    @property
    def estimates(self) -> str:
        """Hash: `state` (what was learnt, JSON), `version`, `learnt` (stream id), `calibration`."""
        return self._key("estimates")

    @property
    def learner(self) -> str:
        """String: the control worker that learns now; expires."""
        return self._key("learner")

    @property
    def tunings(self) -> str:
        """List: what the tuner decided and how its predictions came out (JSON), newest first."""
        return self._key("tunings")

    @property
    def tuning(self) -> str:
        """String: present while a tuner is at work."""
        return self._key("tuning")

    @property
    def tuned_cluster(self) -> str:
        """String: the instances that the tuner saw last, and since when they are so (JSON)."""
        return self._key("tuned", "cluster")

    @property
    def tenants(self) -> str:
        """Hash: JSON [tenant, class, measure] → questions; behind `:<tenant>` the sorted set of its
        running ones, by when they are forgotten."""
        return self._key("tenants")

    def tenants_in(self, seconds: int, number: int) -> str:
        """Hash: as `tenants`, of what was counted in one period: the `number`-th of so many seconds
        since 1970; expires."""
        return f"{self.tenants}@{seconds}:{number}"

    @property
    def queue_root(self) -> str:
        """Where the keys of the queues begin; the rest of them is in lua/lib/queue.lua."""
        return self._key("queue")
