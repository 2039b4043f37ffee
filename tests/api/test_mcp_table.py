"""The tools of MCP as a model sees them: few words, and the same as in the documentation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fleettrio.api.mcp.call import Refusal
from fleettrio.api.mcp.server import INSTRUCTIONS
from fleettrio.api.mcp.table import TOOLS, Tool, find_tool, tools_for
from fleettrio.api.mcp.talk import names
from fleettrio.clients.mcp_away import TABLE
from tests.api.brought_tools import as_it_should_be

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| [^|]+\| ([^|]*)\|$", PAGE, re.MULTILINE)
CHARACTERS_A_TOKEN = 3.0
"""A low guess: names and JSON cut into more tokens than prose, which has four or five."""


def _words(tool: Tool) -> str:
    return json.dumps({"name": tool.name, "description": tool.description, "inputSchema": tool.schema})


def test_all_tools_of_a_lead_together_cost_at_most_2500_tokens() -> None:
    everything = "".join(map(_words, tools_for("lead", ""))) + INSTRUCTIONS
    assert len(everything) / CHARACTERS_A_TOKEN <= 2_500


def test_the_documentation_has_every_tool_with_its_arguments_in_order() -> None:
    drawn = [(name, re.findall(r"`(\w+)`", arguments)) for name, arguments in ROWS]
    assert drawn == [(tool.name, list(tool.schema["properties"])) for tool in TOOLS]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_schema_is_one_flat_object_that_any_client_reads(tool: Tool) -> None:
    schema = json.loads(json.dumps(tool.schema))
    assert schema["type"] == "object"
    assert "$ref" not in json.dumps(schema)
    assert set(schema.get("required", ())) <= set(schema["properties"])


def test_what_a_model_must_know_of_messages_is_said() -> None:
    said = INSTRUCTIONS + "".join(tool.description for tool in TOOLS)
    for words in ("not your person's consent", "brief you were given", "never send thanks", "call again"):
        assert words in said


@pytest.mark.parametrize(
    ("role", "names", "more"), [("", "", 0), ("worker", "", 0), ("lead", "", 2), ("lead", "seed4", 6)]
)
def test_which_tools_are_listed_depends_on_the_role_and_the_set_asked_for(role: str, names: str, more: int) -> None:
    assert len(tools_for(role, names)) == 9 + more


def test_a_tool_that_is_not_listed_can_be_called_and_one_of_another_set_cannot() -> None:
    assert find_tool("fleet_stop", "").name == "fleet_stop"
    with pytest.raises(Refusal, match="no tool"):
        find_tool("msg_send", "")


def test_numbers_that_a_model_wrote_as_text_are_numbers() -> None:
    assert find_tool("fleet_poll", "").read({"wait_s": "5", "limit": "3"}).wait_s == 5.0


def test_the_tools_that_the_program_brings_along_are_those_of_the_daemon() -> None:
    assert json.loads(Path(TABLE).read_bytes()) == as_it_should_be(), "`make docs` writes it anew"


@pytest.mark.parametrize("to", ["a, b@c", ["a", "b@c"], '["a", "b@c"]', "a,b@c"])
def test_several_recipients_may_be_given_as_clients_give_lists(to: str | list[str]) -> None:
    assert names(find_tool("fleet_send", "").read({"to": to, "text": "x"}).to) == ["a", "b@c"]
