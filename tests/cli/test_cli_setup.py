"""`setup` in settings as people have them: what is ours goes in once, and out again to the byte."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import tomllib
from collections.abc import Callable

import pytest

from fleettrio.api.mcp.table import TOOLS
from fleettrio.clients.setup.jsontree import read_json
from fleettrio.clients.setup.plans import plan
from tests.architecture.sources import ROOT
from tests.cli.fake_daemon import Cli

FILES = pathlib.Path(__file__).with_name("dotfiles")
PLACES = {
    "claude": {"claude-settings.json": ".claude/settings.json", "claude-state.json": ".claude.json"},
    "codex": {"codex-config.toml": ".codex/config.toml", "codex-hooks.json": ".codex/hooks.json"},
    "opencode": {"opencode.jsonc": ".config/opencode/opencode.jsonc"},
}
FORMS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda data: data,
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "no last line end": lambda data: data.rstrip(b"\n"),
    "with a mark": lambda data: b"\xef\xbb\xbf" + data,
}


@dataclasses.dataclass
class Person:
    """Somebody's home folder, and `fleettrio` in it."""

    folder: pathlib.Path
    cli: Cli

    def write(self, place: str, data: bytes) -> pathlib.Path:
        file = self.folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    def has(self, harness: str, form: str = "as it is") -> None:
        for name, place in PLACES[harness].items():
            # A TOML file never begins with that mark: Codex itself would refuse it.
            change = FORMS["as it is" if form == "with a mark" and name.endswith(".toml") else form]
            self.write(place, change((FILES / name).read_bytes()))

    def everything(self) -> dict[str, bytes | str]:
        """Every file, link and folder, by name."""
        found: dict[str, bytes | str] = {}
        for path in sorted(self.folder.rglob("*")):
            name = str(path.relative_to(self.folder))
            if path.is_symlink():
                found[name] = f"→ {os.readlink(path)}"
            else:
                found[name] = path.read_bytes() if path.is_file() else "folder"
        return found

    def ok(self, *words: str) -> str:
        done = self.cli(*words)
        assert done.code == 0, done.err
        return done.text


@pytest.fixture
def person(cli: Cli, folder: pathlib.Path) -> Person:
    return Person(folder, cli)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("harness", PLACES)
def test_twice_is_once_and_undo_gives_back_the_same_bytes(person: Person, harness: str, form: str) -> None:
    person.has(harness, form)
    before = person.everything()
    assert "written" in person.ok("setup", harness, "--yes")
    once = person.everything()
    assert once != before
    assert "nothing to change" in person.ok("setup", harness, "--yes")
    assert person.everything() == once
    person.ok("setup", harness, "--undo", "--yes")
    assert person.everything() == before
    assert "nothing to take back" in person.ok("setup", harness, "--undo", "--yes")


@pytest.mark.parametrize("harness", PLACES)
def test_where_nothing_was_there_nothing_is_left(person: Person, harness: str) -> None:
    person.ok("setup", harness, "--yes")
    assert person.everything()
    person.ok("setup", harness, "--undo", "--yes")
    assert person.everything() == {}


def test_claude_gets_hooks_our_server_and_its_permission_and_keeps_what_it_had(person: Person) -> None:
    person.has("claude")
    person.ok("setup", "claude", "--yes")
    settings = json.loads((person.folder / ".claude/settings.json").read_bytes())
    stops = settings["hooks"]["Stop"]
    assert stops[0]["hooks"][0]["command"].startswith("notify-send")
    assert [handler.get("asyncRewake", False) for handler in stops[1]["hooks"]] == [False, True]
    assert {"UserPromptSubmit", "SessionStart", "Stop", "Notification", "SessionEnd", "PermissionRequest"} <= set(
        settings["hooks"]
    )
    assert settings["permissions"]["allow"][-1] == "mcp__fleet__*"
    assert settings["permissions"]["deny"] == ["Read(./.env)"]
    state = json.loads((person.folder / ".claude.json").read_bytes())
    server = state["mcpServers"]["fleet"]
    assert server["alwaysLoad"] is True
    assert os.path.isabs(server["command"])
    assert state["projects"]["/home/ann/src/parser"]["mcpServers"]["fleet"]["command"] == "/opt/ships/fleet"
    assert (person.folder / ".claude/skills/fleet/SKILL.md").read_text("utf-8").startswith("---\nname: fleet\n")


def test_codex_gets_hooks_and_a_server_that_needs_no_asking(person: Person) -> None:
    person.has("codex")
    person.ok("setup", "codex", "--yes")
    text = (person.folder / ".codex/config.toml").read_text("utf-8")
    assert text.startswith((FILES / "codex-config.toml").read_text("utf-8"))
    server = tomllib.loads(text)["mcp_servers"]["fleet"]
    assert server["default_tools_approval_mode"] == "approve"
    assert "required" not in server, "a removed package must not keep Codex from starting"
    hooks = json.loads((person.folder / ".codex/hooks.json").read_bytes())["hooks"]
    assert hooks["SessionStart"][0]["hooks"][0]["command"] == "cat ~/notes.md"
    assert all("fleettrio" in groups[-1]["hooks"][0]["command"] for groups in hooks.values())


def test_opencode_gets_a_server_and_a_plugin_between_its_comments(person: Person) -> None:
    person.has("opencode")
    person.ok("setup", "opencode", "--yes")
    text = (person.folder / ".config/opencode/opencode.jsonc").read_text("utf-8")
    value = read_json(text).value
    assert list(value["mcp"]) == ["docs", "fleet"]
    assert value["mcp"]["fleet"]["type"] == "local"
    plugin = (person.folder / ".config/opencode/plugins/fleettrio.js").read_text("utf-8")
    assert "chat.message" in plugin
    assert 'JSON.parse(process.env.FLEETTRIO_HOOK || "[' in plugin, "it knows where this installation's hook is"
    for comment in ("// Mine. Keep the order!", "// the cheap one", '/* "theme": "system", */', '// "old"'):
        assert comment in text


@pytest.mark.parametrize("harness", PLACES)
def test_what_was_edited_since_stays_and_only_our_parts_go(person: Person, harness: str) -> None:
    person.has(harness)
    person.ok("setup", harness, "--yes")
    wanted = {}
    for name, place in PLACES[harness].items():
        file, edit = person.folder / place, (b"ann", b"eve")
        before = (FILES / name).read_bytes()
        old, new = (b'"model"', b'"newmodel"') if b'"model"' in before else edit
        if old not in before:
            old, new = b"notes.md", b"other.md"
        file.write_bytes(file.read_bytes().replace(old, new))
        wanted[place] = before.replace(old, new)
    told = person.ok("setup", harness, "--undo", "--yes")
    assert "edited since it was set up: only our parts are taken out" in " ".join(told.split())
    assert {name: data for name, data in person.everything().items() if data != "folder"} == wanted


def test_what_was_added_behind_ours_stays(person: Person) -> None:
    person.has("codex")
    person.ok("setup", "codex", "--yes")
    config = person.folder / ".codex/config.toml"
    added = b'\n[mcp_servers.fleet.tools.fleet_send]\napproval_mode = "approve"\n\n# mine\n[features]\nhooks = true\n'
    config.write_bytes(config.read_bytes() + added)
    assert "nothing to change" in person.ok("setup", "codex", "--yes"), "what Codex adds to our table is no damage"
    person.ok("setup", "codex", "--undo", "--yes")
    before = (FILES / "codex-config.toml").read_bytes()
    assert config.read_bytes() == before + b"\n# mine\n[features]\nhooks = true\n"


def test_a_handler_that_somebody_put_into_our_group_stays(person: Person) -> None:
    person.ok("setup", "claude", "--yes")
    file = person.folder / ".claude/settings.json"
    settings = json.loads(file.read_bytes())
    settings["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say done"})
    file.write_text(json.dumps(settings), "utf-8")
    person.ok("setup", "claude", "--undo", "--yes")
    left = json.loads(file.read_bytes())
    assert left == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}


def test_a_permission_that_was_there_before_stays(person: Person) -> None:
    file = person.write(".claude/settings.json", b'{"permissions": {"allow": ["mcp__fleet__*"]}}')
    person.ok("setup", "claude", "--yes")
    file.write_bytes(file.read_bytes() + b"\n")
    person.ok("setup", "claude", "--undo", "--yes")
    assert file.read_bytes() == b'{"permissions": {"allow": ["mcp__fleet__*"]}}\n'


def test_what_somebody_added_to_our_server_is_kept_by_another_setup(person: Person) -> None:
    person.ok("setup", "claude", "--yes")
    file = person.folder / ".claude.json"
    state = json.loads(file.read_bytes())
    state["mcpServers"]["fleet"]["env"] = {"FLEETTRIO_HOME": "/srv/fleet"}
    file.write_text(json.dumps(state), "utf-8")
    assert "nothing to change" in person.ok("setup", "claude", "--yes")
    person.ok("setup", "claude", "--undo", "--yes")
    assert not file.exists()


def test_our_parts_of_another_version_are_exchanged_and_the_oldest_bytes_come_back(person: Person) -> None:
    person.has("claude")
    before = person.everything()
    person.ok("setup", "claude", "--yes")
    file = person.folder / ".claude/settings.json"
    once = file.read_bytes()
    file.write_bytes(once.replace(b'"asyncRewake": true', b'"asyncRewake": false'))
    person.ok("setup", "claude", "--yes")
    assert file.read_bytes() == once
    person.ok("setup", "claude", "--undo", "--yes")
    assert person.everything() == before


def test_without_the_record_our_parts_are_found_all_the_same(person: Person) -> None:
    person.has("claude")
    before = person.everything()
    person.ok("setup", "claude", "--yes")
    (person.cli.home / "state" / "setup" / "claude.json").unlink()
    told = person.ok("setup", "claude", "--undo", "--yes")
    assert "not in this home's records: only our parts are taken out" in " ".join(told.split())
    left = person.everything()
    assert {name: data for name, data in left.items() if data != "folder"} == {
        name: data for name, data in before.items() if data != "folder"
    }


@pytest.mark.parametrize(
    ("harness", "place", "data", "told"),
    [
        ("claude", ".claude/settings.json", b'{"model": "opus",, }', "line 1"),
        ("claude", ".claude/settings.json", b'{\n  "hooks": "none"\n}', "hooks should be an object"),
        ("claude", ".claude/settings.json", b"\xff\xfe{\x00}\x00", "not UTF-8"),
        ("claude", ".claude/settings.json", b"[" * 5000, "levels"),
        ("claude", ".claude.json", b'{"mcpServers": {"fleet": {"command": "ships"}}}', "another mcpServers.fleet"),
        ("claude", ".claude/skills/fleet/SKILL.md", b"all about ships", "is there already"),
        ("codex", ".codex/config.toml", b'model = "x"\nmodel = "y"\n', "Cannot overwrite a value"),
        ("codex", ".codex/config.toml", b'mcp_servers = { docs = { command = "x" } }\n', "written as one value"),
        ("codex", ".codex/hooks.json", b'{"hooks": {"Stop": {}}}', "hooks.Stop should be a list"),
        ("opencode", ".config/opencode/opencode.json", b'{"mcp": {}} /* no end', "does not end"),
    ],
)
def test_a_broken_file_is_named_and_nothing_is_written(
    person: Person, harness: str, place: str, data: bytes, told: str
) -> None:
    person.write(place, data)
    before = person.everything()
    done = person.cli("setup", harness, "--yes")
    assert done.code == 3
    assert place in done.err.replace("\n       ", "")
    assert told in " ".join(done.err.split())
    assert "nothing was written" in " ".join(done.err.split())
    assert "hint:" in done.err
    assert person.everything() == before


def test_a_read_only_file_is_left_alone_and_so_are_the_others(person: Person) -> None:
    person.has("claude")
    state = person.folder / ".claude.json"
    state.chmod(0o400)
    before = person.everything()
    done = person.cli("setup", "claude", "--yes")
    assert done.code == 3
    assert "read-only" in done.err
    assert "chmod u+w" in done.err
    assert person.everything() == before


def test_links_stay_links_and_modes_stay_modes(person: Person) -> None:
    kept = person.write("dotfiles/claude/settings.json", (FILES / "claude-settings.json").read_bytes())
    kept.chmod(0o640)
    (person.folder / ".claude").mkdir()
    link = person.folder / ".claude/settings.json"
    link.symlink_to("../dotfiles/claude/settings.json")
    before = person.everything()
    person.ok("setup", "claude", "--yes")
    assert link.is_symlink()
    assert b"fleettrio" in kept.read_bytes()
    assert kept.stat().st_mode & 0o777 == 0o640
    person.ok("setup", "claude", "--undo", "--yes")
    assert person.everything() == before
    assert kept.stat().st_mode & 0o777 == 0o640


def test_a_failure_half_way_puts_everything_back(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    person.has("claude")
    before = person.everything()
    replace, done = os.replace, []

    def fail_at_the_second(source: str, target: pathlib.Path) -> None:
        if str(target).startswith(str(person.folder)):
            done.append(target)
            if len(done) == 2:
                raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_at_the_second)
    ended = person.cli("setup", "claude", "--yes")
    assert ended.code == 3
    assert "No space left on device" in " ".join(ended.err.split())
    assert person.everything() == before


def test_a_dry_run_shows_the_change_and_makes_none(person: Person) -> None:
    person.has("claude")
    before = person.everything()
    shown = person.ok("setup", "claude", "--dry-run")
    assert "+++ ~/.claude/settings.json" in shown
    assert '+    "allow": ["Bash(git diff:*)", "Bash(make:*)", "mcp__docs", "mcp__fleet__*"],' in shown
    assert person.everything() == before


def test_where_nobody_can_be_asked_nothing_is_written(person: Person) -> None:
    before = person.everything()
    done = person.cli("setup", "claude")
    assert done.code == 2
    assert "--yes" in done.err
    assert person.everything() == before


def test_an_agent_sets_nothing_up(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    done = person.cli("setup", "claude", "--yes")
    assert done.code == 3
    assert "only the person of this host" in " ".join(done.err.split())
    assert person.everything() == {}


@pytest.mark.parametrize(
    ("harness", "variable", "place"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("claude", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
    ],
)
def test_the_harness_s_own_variables_say_where_its_files_are(
    person: Person, harness: str, variable: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(person.folder / "elsewhere"))
    person.ok("setup", harness, "--yes")
    assert (person.folder / "elsewhere" / place).exists()
    monkeypatch.delenv(variable)
    person.ok("setup", harness, "--undo", "--yes")
    assert person.everything() == {}, "also when the variable is gone by then"


def test_uninstall_takes_back_everything_and_says_what_stays(person: Person) -> None:
    for harness in PLACES:
        person.has(harness)
    before = person.everything()
    for harness in PLACES:
        person.ok("setup", harness, "--yes")
    (person.cli.home / "fleettrio.toml").write_text("", "utf-8")
    told = person.ok("uninstall", "--yes")
    assert person.everything() == before
    assert "no daemon runs here" in told
    assert "uninstall --purge" in told
    assert "pip uninstall fleettrio" in told


def test_purge_throws_away_what_is_ours_and_nothing_beside_it(person: Person) -> None:
    home = person.cli.home
    (home / "fleettrio.toml").write_text("", "utf-8")
    (home / "state" / "keys").mkdir(parents=True)
    (home / "state" / "keys" / "host.json").write_text("{}", "utf-8")
    (home / "state" / "thesis.txt").write_text("years of work", "utf-8")
    told = person.ok("uninstall", "--purge", "--yes")
    assert not (home / "fleettrio.toml").exists()
    assert not (home / "state" / "keys").exists()
    assert (home / "state" / "thesis.txt").read_text("utf-8") == "years of work"
    assert "stays" in told
    assert "to be thrown away: " in told
    assert "\nthrown away\n" in told
    assert max(len(line) for line in told.splitlines()) <= 80


@pytest.mark.parametrize(("harness", "page"), [("claude", "claude-code"), ("codex", "codex"), ("opencode", "opencode")])
def test_the_page_of_a_harness_names_every_file_that_is_written(harness: str, page: str) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text("utf-8")
    for piece in plan(harness, {"HOME": "~"}).pieces:
        assert f"`{piece.path}`" in text


@pytest.mark.parametrize("page", ["src/fleettrio/clients/setup/SKILL.md", "docs/how-to/script.md"])
def test_what_agents_are_told_names_tools_that_there_are(page: str) -> None:
    named = set(re.findall(r"\bfleet_\w+", (ROOT / page).read_text("utf-8")))
    assert named
    assert named <= {tool.name for tool in TOOLS}
