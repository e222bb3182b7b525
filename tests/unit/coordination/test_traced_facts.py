"""What of a node's result the trace keeps."""

from __future__ import annotations

import math

from hexgen_celery.coordination.parameters import result_facts


def test_numbers_are_kept_and_texts_of_the_result_are_not() -> None:
    result = {"status": "ok", "row_count": 3, "seconds": 0.1, "preview": [[1]], "error": ""}
    assert result_facts({"result": result}) == {"status": "ok", "row_count": 3, "seconds": 0.1}
    assert result_facts({"result": {"seconds": math.nan, "text": "SELECT 1"}}) == {}


def test_why_a_statement_did_not_run_is_kept_in_short() -> None:
    result = {"status": "error", "error": "no such table: x" + "!" * 1000}
    facts = result_facts({"result": result})
    assert facts["status"] == "error"
    assert facts["message"].startswith("no such table: x!")
    assert len(facts["message"]) == 500
