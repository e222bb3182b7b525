"""Admission of an LLM worker: what its one server may still take, by the policies of core."""

from __future__ import annotations

from hexgen_celery.core.admission import AdmissionPolicy, Allowance, EngineLoad, build_admission
from hexgen_celery.core.profiles import Profile
from hexgen_celery.core.registry import InvalidParameter, UnknownName
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.settings import AdmissionSettings
from hexgen_celery.transport.leases import HeldLoad
from hexgen_celery.transport.process import Admission


def engine_admission(settings: AdmissionSettings, profile: Profile) -> Admission:
    """The chosen policy over a server of `profile` that runs what this process holds.

    Raises:
        InvalidSettings: the policy or one of its parameters is unknown.
    """
    policy = _policy(settings)

    def allowance(load: HeldLoad) -> Allowance:
        return policy.allowance(
            EngineLoad(profile, load.running, load.kv_tokens, load.prefill_tokens)
        )

    return allowance


def _policy(settings: AdmissionSettings) -> AdmissionPolicy:
    try:
        return build_admission(settings.policy, **settings.parameters)
    except (UnknownName, InvalidParameter) as error:
        raise InvalidSettings(
            str(error), field="admission", hint="see docs/configuration.md for the policies"
        ) from error
