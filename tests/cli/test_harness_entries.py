"""What harnesses are told: hooks that break nothing, MCP entries that need no asking, trust that Codex believes."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fleettrio.clients.harnesses import claude, codex, opencode, programs

HOOK = "/opt/fleettrio/bin/fleettrio-hook"
BELIEVED = {
    "SessionStart": "32ed005719451818bff518496b54f987d355f2e4c6cfd24fe58cbd0de2d28cc2",
    "UserPromptSubmit": "b61a057039c81761adb0d5bfe584f8d43a5069ed7d0e1597c2fb5369e55b7eca",
    "PermissionRequest": "3604efbd4f73f41c1a8647d66542194ef0296b26a4d72ac632bb932e7bac586b",
    "PostToolUse": "fefeb58a0846321be91e97dcecc1f2db91991826b9b75b1645356d6609c869ce",
    "Interrupt": "28b8799c54f3289c7f8a145338b21e593cf32bf62003ef400eaadc759f839f9a",
    "Stop": "8cf6eaf5520b982967032e704f62ee617f6fa0dd34a9805a07b2495c0dedb9d3",
    "SessionEnd": "21d472b536d493140bd78bd4380087a70a5aa136ae464aa4a1332c3f5cc3b9cb",
}
"""What Codex 0.171.0 itself said to be the hash of each of our handlers, when asked for `hooks/list`."""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_installed", lambda script, _: [f"/opt/fleettrio/bin/{script}"])


def run(command: str, given: str = "{}") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", "-c", command], input=given, capture_output=True, text=True, timeout=90)


def test_a_hook_whose_program_was_removed_ends_well_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "_installed", lambda script, _: [str(tmp_path / "it's gone" / script)])
    done = run(programs.hook_command("claude"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_hook_is_run_from_wherever_it_lies_and_its_exit_code_is_the_hooks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "a folder; with $odd 'names'" / "fleettrio-hook"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncat\necho "$*" >&2\nexit 2\n')
    program.chmod(0o755)
    monkeypatch.setattr(programs, "_installed", lambda *_: [str(program)])
    done = run(programs.hook_command("claude", waits=True), "what the harness says")
    assert (done.returncode, done.stdout, done.stderr) == (2, "what the harness says", "wait claude\n")


def test_without_an_installed_script_the_module_is_run_by_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    assert programs.mcp_command() == ["/nowhere/python3", "-P", "-m", "fleettrio", "mcp"]


def test_the_path_on_path_is_written_when_it_is_the_same_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A tool's own folder may have its version in its name; the link to it in the person's folder has not."""
    own, links = tmp_path / "tools" / "fleettrio-1.2" / "bin", tmp_path / "bin"
    for folder in (own, links):
        folder.mkdir(parents=True)
    (own / "fleettrio").write_text("#!/bin/sh\n")
    (own / "fleettrio").chmod(0o755)
    (links / "fleettrio").symlink_to(own / "fleettrio")
    monkeypatch.setattr(sys, "executable", str(own / "python3"))
    monkeypatch.setenv("PATH", str(links))
    assert programs.mcp_command() == [str(links / "fleettrio"), "mcp"]
    (links / "fleettrio").unlink()
    assert programs.mcp_command() == [str(own / "fleettrio"), "mcp"]


@pytest.mark.usefixtures("installed")
def test_claude_is_told_of_hooks_one_that_wakes_and_our_tools() -> None:
    settings = claude.settings()
    assert settings["permissions"] == {"allow": ["mcp__fleet__*"]}
    commands = {
        event: [shlex.split(handler["command"])[2] for group in groups for handler in group["hooks"]]
        for event, groups in settings["hooks"].items()
    }
    plain, waiting = (f"test -x {HOOK} && exec {HOOK} {words} || exit 0" for words in ("claude", "wait claude"))
    assert commands["UserPromptSubmit"] == commands["PermissionRequest"] == commands["SessionEnd"] == [plain]
    assert commands["Stop"] == commands["SessionStart"] == [plain, waiting]
    (woken,) = [h for h in settings["hooks"]["Stop"][0]["hooks"] if h.get("asyncRewake")]
    assert woken["timeout"] >= 3600
    entry = claude.mcp_entry()
    assert (entry["command"], entry["args"], entry["alwaysLoad"]) == ("/opt/fleettrio/bin/fleettrio", ["mcp"], True)


@pytest.mark.usefixtures("installed")
def test_codex_itself_trusts_what_is_vouched_for() -> None:
    hashes = {event: codex.trusted_hash(event, groups[0]["hooks"][0]) for event, groups in codex.hooks().items()}
    assert hashes == {event: f"sha256:{value}" for event, value in BELIEVED.items()}


@pytest.mark.usefixtures("installed")
def test_codexs_overrides_are_toml_and_vouch_for_every_hook_of_ours_and_for_nothing_else() -> None:
    read = [tomllib.loads(line) for line in codex.overrides()]
    hooks = {event: groups for table in read for event, groups in table.get("hooks", {}).items() if event != "state"}
    assert hooks == codex.hooks()
    (state,) = [table["hooks"]["state"] for table in read if "state" in table.get("hooks", {})]
    assert sorted(entry["trusted_hash"] for entry in state.values()) == sorted(f"sha256:{v}" for v in BELIEVED.values())
    (servers,) = [table["mcp_servers"] for table in read if "mcp_servers" in table]
    assert servers == {"fleet": codex.mcp_entry()}
    assert servers["fleet"]["default_tools_approval_mode"] == "approve"
    assert "FLEETTRIO_TOKEN" in servers["fleet"]["env_vars"]


@pytest.mark.parametrize("value", ['"quoted" \\ back', "tab\tline\n", "\x7f\x1b", "ü€🦊", True, [1, "a"], {"a b": {}}])
def test_any_value_goes_through_toml_as_it_is(value: object) -> None:
    assert tomllib.loads(f"x={codex.toml(value)}")["x"] == value


@pytest.mark.usefixtures("installed")
def test_opencode_is_told_of_a_plugin_and_our_server() -> None:
    config = json.loads(json.dumps(opencode.config()))
    assert config["mcp"]["fleet"]["command"] == ["/opt/fleettrio/bin/fleettrio", "mcp"]
    assert config["plugin"] == [opencode.PLUGIN.as_uri()]
