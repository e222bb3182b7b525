"""Parameters of policies reach them as the numbers they were written as."""

from __future__ import annotations

import random
from pathlib import Path

from hexgen_celery.core.dispatch import build_dispatch
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.settings import load_settings
from hexgen_celery.transport.engine_admission import engine_admission
from hexgen_celery.transport.leases import HeldLoad

DOCUMENT = """
[router]
dispatch = "prefix-affinity"
[router.parameters]
imbalance = 3
[admission]
policy = "fixed-slots"
[admission.parameters]
slots = 64
"""


def test_whole_numbers_of_a_file_stay_whole(tmp_path: Path) -> None:
    file = tmp_path / "hexgen.toml"
    file.write_text(DOCUMENT, encoding="utf-8")
    settings = load_settings(file)
    build_dispatch(settings.router.dispatch, random.Random(0), **settings.router.parameters)
    admission = engine_admission(settings.admission, load_profile("l40s-x4-llama-3.1-70b"))
    assert admission(HeldLoad(running=60)).sequences == 4
