"""Looking at real work trees: what is drift, what is none, and what a hostile `causal` cannot do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import trio

from fleettrio.core.drift import Drift, Relation, drift
from fleettrio.ids import WallMs
from fleettrio.panes import git
from fleettrio.panes.git import believe, look, mentioned, place_of
from fleettrio.panes.worktree import MOST_BYTES, NotJudged, read_file, top_of
from fleettrio.wire.causal import MOST_PATHS, Causal
from tests.local.repositories import WRITTEN, Repo

BOUND_S = 60.0
HERDR = "crates/src/herdr.rs"


async def judged(tree: Repo, causal: Causal) -> Drift | None:
    """What a message with this belief gets when it lands in `tree` now."""
    seen = await look(tree.cwd, causal)
    return drift(causal, seen, WallMs(WRITTEN)) if seen else None


async def believed(sender: Repo, head: str, *paths: str) -> Causal:
    belief = await believe(sender.cwd, paths)
    assert belief is not None
    return belief.causal(head)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """git may take its time on a machine that is busy with other things; the bound has tests of its own."""
    monkeypatch.setattr(git, "LIMIT_S", BOUND_S)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.new(tmp_path / "work", crates__src__herdr_rs="one\n", other_md="text\n")


# --- what is drift ------------------------------------------------------------------------------


async def test_nothing_moved_and_nothing_is_said(repo: Repo) -> None:
    assert await judged(repo, await believed(repo, repo.head, HERDR, "other.md")) is None


async def test_the_note_names_commits_paths_and_author(repo: Repo) -> None:
    causal, first = await believed(repo, repo.head, HERDR, "other.md"), repo.head
    repo.commit(5, "w9", crates__src__herdr_rs="two\n")
    repo.commit(7, "w3", unrelated_txt="x\n")
    repo.commit(12, "w9", crates__src__herdr_rs="three\n")
    assert await judged(repo, causal) == Drift(
        f"herdr.rs changed twice since this was written (12 min later), by w9 · "
        f"HEAD {first[:7]} → {repo.head[:7]}, 3 commits",
        is_stale=True,
    )


async def test_several_authors_are_named_once_each(repo: Repo) -> None:
    causal = await believed(repo, repo.head, HERDR)
    for at, by in enumerate(["w9", "w3", "w9"]):
        repo.commit(at + 1, by, crates__src__herdr_rs=f"{at}\n")
    found = await judged(repo, causal)
    assert found is not None
    assert "herdr.rs changed 3 times since this was written (3 min later), by w9 and w3" in found.note


async def test_a_commit_that_was_there_before_the_message_is_not_said_to_be_after_it(repo: Repo) -> None:
    """The announced HEAD may be a moment old."""
    causal, first = await believed(repo, repo.head, HERDR), repo.head
    repo.commit(-5, "w9", crates__src__herdr_rs="two\n")
    found = await judged(repo, causal)
    assert found is not None
    assert f"herdr.rs changed once since {first[:7]}, by w9" in found.note


async def test_an_uncommitted_change_is_told(repo: Repo) -> None:
    causal = await believed(repo, repo.head, HERDR)
    repo.write(3, crates__src__herdr_rs="mid-edit\n")
    assert await judged(repo, causal) == Drift(
        "herdr.rs has an uncommitted change since this was written (3 min later)", is_stale=True
    )


async def test_a_deleted_file_is_told(repo: Repo) -> None:
    causal = await believed(repo, repo.head, HERDR)
    (repo.folder / HERDR).unlink()
    assert await judged(repo, causal) == Drift("herdr.rs was deleted, uncommitted", is_stale=True)


async def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    repo = Repo.new(tmp_path / "work", a__mod_rs="1\n", b__mod_rs="1\n")
    causal = await believed(repo, repo.head, "a/mod.rs", "b/mod.rs")
    repo.commit(1, "w9", b__mod_rs="2\n")
    found = await judged(repo, causal)
    assert found is not None
    assert found.note.startswith("b/mod.rs changed once")


async def test_many_changed_files_make_one_short_note(tmp_path: Path) -> None:
    files = {f"file{i}_txt": "1\n" for i in range(MOST_PATHS)}
    repo = Repo.new(tmp_path / "work", **files)
    causal = await believed(repo, repo.head, *(name.replace("_", ".") for name in files))
    repo.commit(1, "w9" * 200, **dict.fromkeys(files, "2\n"))
    found = await judged(repo, causal)
    assert found is not None
    assert len(found.note) <= 400
    assert "more files changed" in found.note


async def test_a_sender_in_a_clone_that_is_behind_is_told_what_it_has_not_seen(repo: Repo, tmp_path: Path) -> None:
    """Whatever it heard of the recipient's HEAD, it wrote of what it saw."""
    repo.git("clone", "-q", repo.cwd, str(tmp_path / "clone"))
    sender = Repo(tmp_path / "clone")
    repo.commit(-10, "w9", crates__src__herdr_rs="two\n")
    for heard in (repo.head, sender.head, ""):
        found = await judged(repo, await believed(sender, heard, HERDR))
        way = f"HEAD {sender.head[:7]} → {repo.head[:7]}, 1 commit"
        assert found == Drift(f"herdr.rs changed once since {sender.head[:7]}, by w9 · {way}", is_stale=True)
    assert await judged(repo, await believed(sender, repo.head, "other.md")) == Drift(way, is_stale=True)
    sender.git("pull", "-q")
    assert await judged(repo, await believed(sender, repo.head, HERDR, "other.md")) is None


@pytest.mark.parametrize("where", ["ahead", "apart", "on no branch"])
async def test_a_sender_that_is_elsewhere_than_behind_makes_no_false_stale(
    repo: Repo, tmp_path: Path, where: str
) -> None:
    repo.git("clone", "-q", repo.cwd, str(tmp_path / "clone"))
    sender = Repo(tmp_path / "clone")
    match where:
        case "ahead":
            sender.commit(-20, "lead", crates__src__herdr_rs="of the sender\n")
        case "apart":
            sender.commit(-20, "lead", crates__src__herdr_rs="of the sender\n")
            repo.commit(-10, "w9", crates__src__herdr_rs="two\n")
        case _:
            sender.git("checkout", "-q", "--detach")
            repo.commit(-10, "w9", crates__src__herdr_rs="two\n")
    assert await judged(repo, await believed(sender, repo.head, HERDR)) is None


# --- what is no drift ---------------------------------------------------------------------------


async def test_worktrees_on_different_branches_make_no_false_stale(repo: Repo, tmp_path: Path) -> None:
    worker = repo.worktree(tmp_path / "wt", "feature")
    worker.commit(-30, "w9", crates__src__herdr_rs="of the feature\n")
    causal = await believed(repo, worker.head, HERDR, "other.md")
    assert await judged(worker, causal) is None
    worker.commit(4, "w9", crates__src__herdr_rs="more of it\n")
    found = await judged(worker, causal)
    assert found is not None
    assert found.note.startswith("herdr.rs changed once since this was written (4 min later), by w9 · HEAD ")


async def test_unfinished_work_of_the_recipient_from_before_is_no_drift(repo: Repo, tmp_path: Path) -> None:
    worker = repo.worktree(tmp_path / "wt", "feature")
    worker.write(-10, crates__src__herdr_rs="half done\n")
    assert await judged(worker, await believed(repo, worker.head, HERDR)) is None


async def test_another_branch_is_said_and_is_drift_only_where_a_file_changed(repo: Repo, tmp_path: Path) -> None:
    worker = repo.worktree(tmp_path / "wt", "feature")
    worker.commit(-30, "w9", feature_txt="x\n")
    causal = await believed(repo, worker.head, HERDR)
    worker.git("checkout", "-q", "-b", "second", "main")
    there, here = causal.head[:7], worker.head[:7]
    another = f"written against another branch ({there}, HEAD here is {here})"
    assert await judged(worker, causal) == Drift(another, is_stale=False)
    worker.commit(8, "w9", crates__src__herdr_rs="new\n")
    found = await judged(worker, causal)
    assert found is not None
    assert found.is_stale
    assert found.note.startswith("herdr.rs changed once since this was written (8 min later), by w9 · written against")


async def test_a_detached_head_is_a_head_like_any_other(repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach")
    causal, first = await believed(repo, repo.head), repo.head
    assert await judged(repo, causal) is None
    repo.commit(1, "w9", new_txt="x\n")
    assert await judged(repo, causal) == Drift(f"HEAD {first[:7]} → {repo.head[:7]}, 1 commit", is_stale=True)


async def test_another_path_on_the_other_host_is_the_same_repository(repo: Repo, tmp_path: Path) -> None:
    repo.git("clone", "-q", repo.cwd, str(tmp_path / "elsewhere" / "checkout"))
    other = Repo(tmp_path / "elsewhere" / "checkout")
    for file in other.folder.rglob("*.*"):
        os.utime(file, (WRITTEN / 1000 - 999, WRITTEN / 1000 - 999))
    causal = await believed(repo, other.head, HERDR)
    assert await judged(other, causal) is None
    other.commit(2, "w9", crates__src__herdr_rs="two\n")
    found = await judged(other, causal)
    assert found is not None
    assert "by w9" in found.note


async def test_an_unknown_head_is_said_and_only_changed_files_are_drift(repo: Repo) -> None:
    causal = await believed(repo, "c" * 40, HERDR)
    note = f"written against a commit that is not here (ccccccc, HEAD here is {repo.head[:7]})"
    assert await judged(repo, causal) == Drift(note, is_stale=False)
    repo.write(-5, crates__src__herdr_rs="other\n")
    found = await judged(repo, causal)
    assert found is not None
    assert found.is_stale


async def test_without_a_head_only_what_was_written_later_is_drift(repo: Repo, tmp_path: Path) -> None:
    worker = repo.worktree(tmp_path / "wt", "feature")
    worker.commit(-30, "w9", crates__src__herdr_rs="of the feature\n")
    causal = await believed(repo, "", HERDR)
    assert await judged(worker, causal) is None
    worker.write(6, crates__src__herdr_rs="later\n")
    assert await judged(worker, causal) == Drift(
        "herdr.rs has an uncommitted change since this was written (6 min later)", is_stale=True
    )


async def test_another_repository_gets_no_note(repo: Repo, tmp_path: Path) -> None:
    other = Repo.new(tmp_path / "other", crates__src__herdr_rs="something else\n")
    other.commit(3, "w9", crates__src__herdr_rs="again\n")
    assert await judged(other, await believed(repo, repo.head, HERDR)) is None


async def test_a_shallow_clone_says_no_more_than_it_knows(repo: Repo, tmp_path: Path) -> None:
    first = repo.head
    causal = await believed(repo, first, HERDR)
    repo.commit(1, "w9", crates__src__herdr_rs="two\n")
    repo.git("clone", "-q", "--depth", "1", f"file://{repo.cwd}", str(tmp_path / "shallow"))
    shallow = Repo(tmp_path / "shallow")
    place = await place_of(shallow.cwd)
    assert place is not None
    assert (place.repo, place.head, place.is_shallow) == ("", repo.head, True)
    assert await believe(shallow.cwd, ()) is None  # who does not know the repository sends no belief
    assert await judged(shallow, causal) is None  # the commit is cut off: it may be another repository
    at_the_tip = await believed(repo, repo.head, HERDR)
    assert await judged(shallow, at_the_tip) is None
    shallow.write(2, crates__src__herdr_rs="three\n")
    found = await judged(shallow, at_the_tip)
    assert found is not None
    assert "uncommitted change" in found.note


async def test_a_repository_with_longer_ids_is_understood_too(tmp_path: Path) -> None:
    repo = Repo.new(tmp_path / "work")
    shutil.rmtree(repo.folder / ".git")
    repo.git("init", "-q", "-b", "main", "--object-format=sha256")
    repo.commit(-60, "lead", a_rs="one\n")
    worker = repo.worktree(tmp_path / "wt", "feature")
    worker.commit(-30, "w9", a_rs="of the feature\n")
    causal = await believed(repo, worker.head, "a.rs")
    assert len(causal.head) == 64
    assert await judged(worker, causal) is None
    worker.commit(4, "w9", a_rs="more\n")
    found = await judged(worker, causal)
    assert found is not None
    assert "by w9" in found.note


async def test_a_submodule_is_a_repository_of_its_own(repo: Repo, tmp_path: Path) -> None:
    library = Repo.new(tmp_path / "library", lib_rs="one\n")
    repo.git("submodule", "--quiet", "add", library.cwd, "vendor")
    repo.commit(-20, "lead")
    inside = Repo(repo.folder / "vendor")
    place = await place_of(inside.cwd)
    assert place is not None
    assert (place.tree, place.repo) == (inside.cwd, library.head)
    causal = await believed(repo, repo.head, "vendor/lib.rs")
    assert await judged(repo, causal) is None
    inside.write(2, lib_rs="two\n")
    found = await judged(repo, causal)
    assert found is not None
    assert "lib.rs" in found.note
    with pytest.raises(NotJudged, match="not a regular file"):
        await believe(repo.cwd, ["vendor"])


@pytest.mark.parametrize("kind", ["no repository", "no commit yet", "broken", "bare", "gone", "relative"])
async def test_where_there_is_no_commit_nothing_is_believed_and_nothing_said(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    cwd = str(folder)
    match kind:
        case "no commit yet":
            Repo(folder).git("init", "-q")
        case "broken":
            Repo.new(tmp_path / "around")  # a repository further up must not be taken for it
            (folder / ".git").write_text("gitdir: nowhere\n")
        case "bare":
            Repo(folder).git("init", "-q", "--bare")
        case "gone":
            folder.rmdir()
        case "relative":
            cwd = "work"
    assert await place_of(cwd) is None
    assert await believe(cwd, ()) is None
    assert await look(cwd, Causal(repo="a" * 40, head="b" * 40)) is None


# --- what a sender believes ---------------------------------------------------------------------


async def test_paths_are_named_from_where_the_sender_stands(repo: Repo) -> None:
    for cwd, path in [(repo.cwd, HERDR), (f"{repo.cwd}/crates", "src/herdr.rs"), ("/", f"{repo.cwd}/{HERDR}")]:
        belief = await believe(cwd if cwd != "/" else repo.cwd, [path])
        assert belief is not None
        assert belief.paths == (HERDR,)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../outside", "not the path"),
        ("/etc/passwd", "not the path"),
        (".git/config", "not the path"),
        ("nothing.rs", "not exist"),
    ],
)
async def test_a_path_that_cannot_be_believed_in_is_an_error_for_its_sender(repo: Repo, path: str, why: str) -> None:
    with pytest.raises(NotJudged, match=why):
        await believe(repo.cwd, [path])


async def test_more_paths_than_travel_are_an_error_for_their_sender(tmp_path: Path) -> None:
    repo = Repo.new(tmp_path / "work", **{f"f{i}_txt": "x" for i in range(30)})
    with pytest.raises(NotJudged, match="at most 24"):
        await believe(repo.cwd, [f"f{i}.txt" for i in range(30)])


async def test_tracked_files_that_the_text_speaks_of_are_believed_in(repo: Repo) -> None:
    repo.write(0, secret_env="password\n")
    text = f"Please look at `{HERDR}:12` and (other.md), not at secret.env, ../x, https://example.org/a.b or v1.2."
    belief = await believe(repo.cwd, (), mentioned(text))
    assert belief is not None
    assert belief.paths == (HERDR, "other.md")


# --- hostile ------------------------------------------------------------------------------------


async def test_nothing_outside_the_tree_is_read_through_a_symlink(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret\n")
    (repo.folder / "link").symlink_to(tmp_path / "secret" / "key")
    (repo.folder / "folder").symlink_to(tmp_path / "secret")
    for path in ("link", "folder/key"):
        with pytest.raises(NotJudged):
            read_file(repo.cwd, path)
    causal = Causal(repo=repo.head, paths=("link", "folder/key"), fingerprints=(b"\0" * 32,) * 2)
    seen = await look(repo.cwd, causal)
    assert seen is not None
    assert seen.files == ()


async def test_pipes_devices_and_huge_files_are_left_alone_in_bounded_time(repo: Repo) -> None:
    os.mkfifo(repo.folder / "pipe")
    with (repo.folder / "huge").open("wb") as huge:
        huge.truncate(MOST_BYTES + 1)
    (repo.folder / "folder").mkdir()
    paths = ("pipe", "huge", "folder", "folder/nothing", f"{HERDR}/under-a-file")
    causal = Causal(repo=repo.head, head=repo.head, paths=paths, fingerprints=(b"\0" * 32,) * len(paths))
    with trio.fail_after(BOUND_S):
        seen = await look(repo.cwd, causal)
    assert seen is not None
    assert [file.path for file in seen.files] == ["folder/nothing"]
    assert drift(causal, seen, WallMs(WRITTEN)) is None


async def test_a_git_that_hangs_is_ended_at_the_bound(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntrap '' TERM\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(git, "LIMIT_S", 0.5)
    with trio.fail_after(BOUND_S):
        assert await look(repo.cwd, Causal(repo="a" * 40)) is None


async def test_without_git_nothing_is_said(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await look(repo.cwd, Causal(repo="a" * 40)) is None


async def test_looking_runs_nothing_that_the_repository_names_and_changes_nothing(repo: Repo, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\nexec cat\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "gpg.program", "filter.x.clean", "diff.external"):
        repo.git("config", key, str(trap))
    repo.git("config", "log.showSignature", "true")
    (repo.folder / ".gitattributes").write_text("* filter=x\n")
    shutil.copy(trap, repo.folder / ".git" / "hooks" / "post-index-change")
    causal = Causal(repo=repo.head, head=repo.head, paths=(HERDR,), fingerprints=(b"\0" * 32,))
    index = (repo.folder / ".git" / "index").read_bytes()
    repo.write(4, crates__src__herdr_rs="two\n")
    found = await judged(repo, causal)
    assert found is not None
    assert await believe(repo.cwd, (), [HERDR]) is not None
    assert not (tmp_path / "sprung").exists()
    assert (repo.folder / ".git" / "index").read_bytes() == index


async def test_a_daemon_started_inside_a_hook_looks_at_the_right_repository(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repo.new(tmp_path / "other", a_txt="x\n")
    monkeypatch.setenv("GIT_DIR", f"{other.cwd}/.git")
    monkeypatch.setenv("GIT_WORK_TREE", other.cwd)
    place = await place_of(repo.cwd)
    assert place is not None
    assert place.repo == repo.head


def test_the_top_is_the_nearest_folder_with_a_repository(repo: Repo) -> None:
    assert top_of(f"{repo.cwd}/crates/src") == repo.cwd
    assert top_of("crates") is None


async def test_a_look_knows_how_the_commits_lie(repo: Repo) -> None:
    first = repo.head
    second = repo.commit(1, "w9", a_txt="x\n")
    for head, relation in [(second, Relation.SAME), (first, Relation.BEHIND), ("", Relation.UNSAID)]:
        seen = await look(repo.cwd, Causal(repo=first, head=head))
        assert seen is not None
        assert seen.relation is relation
    repo.git("reset", "-q", "--hard", first)
    seen = await look(repo.cwd, Causal(repo=first, head=second))
    assert seen is not None
    assert seen.relation is Relation.APART
