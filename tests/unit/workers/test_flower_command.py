"""How Flower is started."""

from __future__ import annotations

import os

import pytest

from hexgen_celery.flower import flower_arguments, main, open_api_on_loopback


def test_flower_listens_on_this_machine_unless_told_otherwise() -> None:
    assert "--address=127.0.0.1" in flower_arguments([])
    assert flower_arguments(["--address=0.0.0.0"])[-1] == "--address=0.0.0.0"


@pytest.mark.parametrize(
    ("options", "opened"),
    [
        ([], True),
        (["--address=localhost"], True),
        (["--address=0.0.0.0"], False),
        (["--address="], False),
    ],
)
def test_the_api_is_open_to_this_machine_alone(
    options: list[str], opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLOWER_UNAUTHENTICATED_API", raising=False)
    open_api_on_loopback(flower_arguments(options))
    assert ("FLOWER_UNAUTHENTICATED_API" in os.environ) is opened
    monkeypatch.delenv("FLOWER_UNAUTHENTICATED_API", raising=False)


def test_without_a_broker_flower_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert main([]) == 2
    assert "no cluster runs here" in capsys.readouterr().err
