"""Agents that are started, work on code that moves, and are ended."""

from __future__ import annotations

from fleettrio.demo.lead import Lead, StoryFailed
from fleettrio.demo.repository import Repository
from fleettrio.demo.stage import CODER, LEAD, PROJECT_FILE
from fleettrio.demo.stories.parts import ANSWERS_S, HEARD_S, TURN_S, agent, gid_of, same, say_answered

__all__ = ("code_moved", "spawned", "stopped")


def spawned(lead: Lead) -> None:
    """Spawn: the lead has a coder started on beta, in a git worktree of its own"""
    stage = lead.stage
    outside = stage.alpha.cli("spawn", "coder@beta", "--cwd", "/", token=stage.lead_token)
    if outside.code != 3 or "roots" not in outside.err:
        raise StoryFailed(f"beta started an agent outside of the folders it allows: {outside.err}")
    stage.narrator.passed("beta starts nobody outside of the folders that its profile allows")
    body = b"You work on the project. How many bytes is this?\n"
    with stage.narrator.progress(f"{CODER} starts"):
        brief = lead.spawn(body, "coder@beta", "--name", "coder", "--worktree")
    found = stage.narrator.until(f"{LEAD} sees {CODER}", lambda: agent(stage.alpha, CODER), HEARD_S)
    stage.narrator.passed(f"{CODER} is ready: started by a profile of beta that alpha was granted, {found['status']}")
    tree = _worktree(lead)
    stage.narrator.passed(f"it works on branch {tree.git('branch', '--show-current')}, in a folder of its own")
    answer = lead.collect([brief], ANSWERS_S)[brief.msg_id]
    say_answered(lead, brief, lead.check(brief, answer))


def code_moved(lead: Lead) -> None:
    """Drift: the code changes between the writing of a brief and its landing, and everybody is told"""
    stage = lead.stage
    coder, tree = stage.logs[CODER], _worktree(lead)
    coder.hold()
    first = lead.send("a brief that keeps it busy", b"Think about retries.\n", CODER)
    stage.narrator.until(f"{CODER} is at work", lambda: coder.find("read", first.short), TURN_S)
    body = f"Set TRIES in {PROJECT_FILE} to 5.\n".encode()
    second = lead.send("a brief about a file", body, CODER, "--path", PROJECT_FILE, cwd=stage.project.folder)
    stage.narrator.say(f"{LEAD} sent {stage.narrator.id(second.short)} about {PROJECT_FILE} while {CODER} is at work")
    tree.commit("mallory", PROJECT_FILE, "TRIES = 4\n")
    stage.narrator.say(f"meanwhile mallory commits another {PROJECT_FILE} in the coder's worktree")
    coder.release()
    turn = stage.narrator.until("the brief lands", lambda: coder.find("turn", second.short), TURN_S)
    note = " ".join(turn["stale"])
    if PROJECT_FILE not in note or "mallory" not in note:
        raise StoryFailed(f"the coder was not told what moved: {note!r}")
    stage.narrator.passed(f"{CODER} read above the brief: {note}")
    shown = stage.narrator.until(f"{LEAD} is told", lambda: lead.show(second.msg_id)["stale"], HEARD_S)
    same("what the lead's `fleettrio show` says", " ".join(shown.split()), note)
    stage.narrator.passed("the lead's `fleettrio show` says the same")
    answers = lead.collect([first, second], ANSWERS_S)
    for brief in (first, second):
        say_answered(lead, brief, lead.check(brief, answers[brief.msg_id]))


def stopped(lead: Lead) -> None:
    """Stop: the coder is ended for good, and its work stays on its branch"""
    stage = lead.stage
    branch = _worktree(lead).git("branch", "--show-current")
    lead.call("stop", CODER, "--reason", "the demo is over")
    stage.narrator.until(f"alpha sees that {CODER} is gone", lambda: agent(stage.alpha, CODER) is None, HEARD_S)
    same("worktrees that are left", len(stage.clone.git("worktree", "list").splitlines()), 1)
    same("its last commit", stage.clone.git("log", "-1", "--format=%an", branch), "mallory")
    stage.narrator.passed(f"pane, inbox and worktree are gone; what was committed is on branch {branch}")


def _worktree(lead: Lead) -> Repository:
    """Where the coder works."""
    gid_of(lead.stage.alpha, CODER)
    folders = list((lead.stage.beta.paths.state_dir / "worktrees").iterdir())
    same("worktrees on beta", len(folders), 1)
    return Repository(folders[0])
