"""Measuring a live LLM server into a profile: prefill, decode and the effect of its cache."""

from hexgen_celery.profiling_llm.building import WORST_FIT, Hardware, MeasuredProfile, build_profile
from hexgen_celery.profiling_llm.measuring import MeasuringPlan, measure
from hexgen_celery.profiling_llm.probe import Prober
from hexgen_celery.profiling_llm.profile_file import profile_text
from hexgen_celery.profiling_llm.samples import ProfileRefused
from hexgen_celery.profiling_llm.server_facts import ServerFacts, read_facts

__all__ = [
    "WORST_FIT",
    "Hardware",
    "MeasuredProfile",
    "MeasuringPlan",
    "Prober",
    "ProfileRefused",
    "ServerFacts",
    "build_profile",
    "measure",
    "profile_text",
    "read_facts",
]
