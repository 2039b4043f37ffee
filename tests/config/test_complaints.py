"""What is said of a bad value: a sentence, and no word of the decoder's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleettrio.api.jsonrpc import BadRequest, parse_params, parse_request
from fleettrio.complaints import complaint


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("release", {"key": "k", "fence": 0}, "release: fence: must be at least 1"),
        ("detach", {"name": "n" * 257}, "detach: name: must have at most 256 characters"),
        ("send", {"to": "a", "body": ""}, "send: to: must be a list, not a text"),
        ("send", {"to": [1], "body": ""}, "send: to[0]: must be a text, not a whole number"),
        ("send", {"to": [], "body": "", "priority": 11}, "send: priority: must be at most 9"),
        ("send", {"to": [], "body": "", "when": "soon"}, "send: when: must be one of idle, turn, now"),
    ],
)
def test_a_bad_parameter_is_told_with_what_a_good_one_is(method: str, params: Any, said: str) -> None:
    line = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    with pytest.raises(BadRequest) as refused:
        parse_params(parse_request(line))
    assert refused.value.body.message == said


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (tuple[str, ...], "amqp://x", "broker.uris: must be a list, not a text"),
        (tuple[str, ...], [3], "broker.uris[0]: must be a text, not a whole number"),
        (int | None, "x", "broker.uris: must be a whole number or nothing, not a text"),
    ],
)
def test_a_bad_setting_is_told_by_its_name(kind: Any, value: Any, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as problem:
        msgspec.convert(value, kind)
    assert complaint(problem.value, "broker.uris") == said
