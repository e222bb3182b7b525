"""Where a submission says its requests may run."""

from __future__ import annotations

from typing import Any

import pytest

from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.settings import PipelineSettings
from hexgen_celery.workflows.pipeline_options import resolve_options
from hexgen_celery.workflows.routing_options import (
    RoutingOptions,
    routing_options,
    without_routing,
)


def test_they_are_told_from_the_workflows_own() -> None:
    options = {"model": "m", "tags": ["eu"], "candidates": 2}
    assert routing_options(options) == RoutingOptions(model="m", tags=("eu",))
    assert without_routing(options) == {"candidates": 2}
    assert resolve_options(options, PipelineSettings()).candidates == 2


def test_none_of_them_need_be_given() -> None:
    assert routing_options({}) == RoutingOptions()


@pytest.mark.parametrize("wrong", [{"model": 3}, {"tags": "eu"}, {"tags": [1]}, {"model": None}])
def test_the_wrong_kind_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSubmission):
        routing_options(wrong)


@pytest.mark.parametrize("misspelt", ["modle", "tag"])
def test_the_hint_for_a_misspelt_one_names_them(misspelt: str) -> None:
    with pytest.raises(InvalidSubmission) as caught:
        resolve_options({misspelt: "m"}, PipelineSettings())
    assert {"model", "tags"} <= set(caught.value.hint.replace(",", "").split())
