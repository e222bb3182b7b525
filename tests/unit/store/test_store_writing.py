"""Whatever order entries come in, and however often, the store holds the most that was known."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from hexgen_celery.settings import Settings
from hexgen_celery.store.engine import open_store, store_url
from hexgen_celery.store.models import Base, Workflow
from hexgen_celery.store.reading import StoreReader
from hexgen_celery.store.records import QuestionRows, forgotten_rows
from hexgen_celery.store.writing import StoreWriter
from tests.unit.store.question_samples import DEPLOYMENT, question

AT = 1_700_000_000.0
KINDS = ("begun", "forgotten", "whole")


def _rows(name: str, kind: str) -> QuestionRows:
    if kind == "whole":
        return question(name, AT)
    if kind == "forgotten":
        return forgotten_rows(name, "answered", AT + 5, AT + 5, DEPLOYMENT)
    begun = {"status": "running", "finished_at": None, "complete": False, "sql": ""}
    row = {**question(name, AT).rows[Workflow][0], **begun}
    return QuestionRows(name, {Workflow: [row]}, whole=False)


def _open(directory: Path) -> Engine:
    defaults = Settings()
    up = defaults.up.model_copy(update={"directory": directory})
    engine = open_store(defaults.model_copy(update={"up": up}), writing=True)
    Base.metadata.create_all(engine)
    return engine


_BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(KINDS)), max_size=4),
    min_size=1,
    max_size=5,
)


@given(_BATCHES)
@settings(max_examples=40, deadline=None)
def test_the_most_that_was_known_is_stored(batches: list[list[tuple[str, str]]]) -> None:
    with TemporaryDirectory() as directory:
        engine = _open(Path(directory))
        for batch in batches:
            StoreWriter(engine).write([_rows(*each) for each in batch])
        reader = StoreReader(engine, DEPLOYMENT)
        for name in ("a", "b"):
            kinds = {kind for batch in batches for each, kind in batch if each == name}
            found = reader.question(name)
            assert (found is not None) == bool(kinds)
            if found is not None:
                row = found.workflow
                ended = kinds & {"forgotten", "whole"}
                assert row["status"] == ("answered" if ended else "running")
                assert row["complete"] == ("whole" in kinds)
                assert len(found.requests) == (1 if "whole" in kinds else 0)
        engine.dispose()


def test_a_batch_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    engine = _open(tmp_path)
    odd = question("odd", AT, tenant={"no": "text"})
    with pytest.raises(SQLAlchemyError):
        StoreWriter(engine).write([question("good", AT), odd])
    assert StoreReader(engine, DEPLOYMENT).question("good") is None
    assert StoreWriter(engine).write([question("good", AT)]) == 6
    engine.dispose()


def test_without_a_url_the_store_is_a_file_beside_the_cluster(tmp_path: Path) -> None:
    defaults = Settings()
    up = defaults.up.model_copy(update={"directory": tmp_path})
    url = store_url(defaults.model_copy(update={"up": up}))
    assert url.database == str(tmp_path / "store.sqlite")
