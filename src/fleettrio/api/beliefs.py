"""What a sender believes about the code its message is about: taken by the daemon, in the folder the sender stands in.

The daemon looks and not the command, so that every client gets it and a command starts as quickly as before. It reads
with the daemon's rights, hence the rule: an agent is believed about its own work tree only, a person about any.
"""

from __future__ import annotations

import trio

from fleettrio.api import schema
from fleettrio.api.callers import Caller
from fleettrio.api.rpc import CallError
from fleettrio.core.drift import Belief
from fleettrio.core.events import TreeMoved
from fleettrio.errors import USAGE
from fleettrio.ids import Gid
from fleettrio.panes.git import LIMIT_S, believe, mentioned, trees_of
from fleettrio.panes.worktree import NotJudged
from fleettrio.perform import Performer

__all__ = ("Beliefs",)


class Beliefs:
    def __init__(self, performer: Performer) -> None:
        self._performer = performer
        self._roster = performer.gateway.roster

    async def of(self, params: schema.Send, caller: Caller) -> tuple[Belief | None, frozenset[Gid]]:
        """What the sender sees, and which entities here work in the same tree; None where there is nothing to say.

        Without `paths`, the tracked files that the body names are what the message is about. Raises `CallError` when
        the caller asked for what cannot be had.
        """
        if not params.cwd and not params.paths and params.on_stale != "drop":
            return None, frozenset()
        with trio.move_on_after(LIMIT_S):
            return await self._look(params, caller)
        return self._nothing(params, f"the disk with {params.cwd} did not answer within a second")

    async def _look(self, params: schema.Send, caller: Caller) -> tuple[Belief | None, frozenset[Gid]]:
        trees = await trees_of([params.cwd, *(e.cwd for e in self._roster.entities.values() if e.cwd)])
        own = self._roster.entities.get(Gid(caller.gid))
        is_own_tree = own is not None and params.cwd in trees and trees.get(own.cwd) == trees[params.cwd]
        belief = None
        if caller.is_person or is_own_tree:
            mentions = [] if params.paths else mentioned(params.body.decode("utf-8", "ignore"))
            try:
                belief = await believe(params.cwd, params.paths, mentions)
            except NotJudged as error:
                text = f"the message cannot be about that: {error}"
                raise CallError(USAGE, "bad-path", text, "--path names files of the work tree") from None
        if belief is None:
            return self._nothing(params, _why_not(params, caller, trees))
        if own is not None and is_own_tree:
            await self._performer.handle(TreeMoved(own.gid, belief.repo, belief.head))
        shared = (e.gid for e in self._roster.entities.values() if trees.get(e.cwd) == belief.tree)
        return belief, frozenset(shared)

    @staticmethod
    def _nothing(params: schema.Send, why: str) -> tuple[None, frozenset[Gid]]:
        """A message goes without a belief, unless its sender asked for what needs one."""
        if params.paths or params.on_stale == "drop":
            text = f"--path and --on-stale drop need to know what you see in a work tree: {why}"
            raise CallError(USAGE, "no-work-tree", text, "leave the option away")
        return None, frozenset()


def _why_not(params: schema.Send, caller: Caller, trees: dict[str, str]) -> str:
    if params.cwd not in trees:
        return f"{params.cwd or 'where you are'} is in no git work tree"
    if not caller.is_person:
        return f"{trees[params.cwd]} is not the one that {caller.name} is attached in"
    return f"{trees[params.cwd]} has no commit, is a shallow clone, or git did not answer within a second"
