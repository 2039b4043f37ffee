"""A call that the core refuses ends with the core's own exit code and reason, not with a general failure."""

from __future__ import annotations

import pytest

from fleettrio.api import jsonrpc
from fleettrio.calls import CallFailed
from fleettrio.core.actions import Fail


@pytest.mark.parametrize(
    ("code", "reason"), [(2, "not-retryable"), (3, "no-such-recipient"), (4, "expired"), (8, "broker-unreachable")]
)
def test_the_exit_code_of_the_core_reaches_the_command(code: int, reason: str) -> None:
    fail = Fail(call=1, code=code, reason=reason, message="why", hint="what to do")
    body = jsonrpc.failure(CallFailed(fail))
    assert body.data is not None
    assert (body.message, body.data.reason, body.data.hint, body.data.exit) == ("why", reason, "what to do", code)
