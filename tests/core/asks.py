"""Steps of ask and answer: beta's worker asks alpha's lead, which listens or does not."""

from __future__ import annotations

import msgspec

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Offered, WaitOver
from fleettrio.core.compose import control, message
from fleettrio.ids import Gid, MsgId, TurnId, WallMs
from fleettrio.wire.bodies import TurnNotice
from fleettrio.wire.envelope import Kind
from fleettrio.wire.signing import Parsed
from tests.core.builders import TRACE, Host, World

TURN = TurnId("turn-1")


def asking(
    host: Host, to: str = "lead@alpha", sender: str = "worker", body: bytes = b"which port?", **fields: object
) -> MsgId:
    """The msgId of a question; what came of it is in `results` under the last call."""
    msg_id = host.new_id()
    asked = ask.AskAsked(
        call=host.call(), sender=host.gid(sender), to=to, body=body, msg_id=msg_id, trace_id=TRACE, turn_id=TURN
    )
    host.last = host.run(msgspec.structs.replace(asked, **fields))
    return msg_id


def answering(host: Host, question: MsgId, sender: str = "lead", body: bytes = b"4711") -> tuple[MsgId, int]:
    """The msgId of an answer, and its call."""
    row = host.row(question, sender)
    event = ask.AnswerAsked(call=host.call(), sender=host.gid(sender), question=row, body=body, msg_id=host.new_id())
    host.last = host.run(event)
    return event.msg_id, event.call


def listening(host: Host, name: str = "lead", session: str = "ear") -> int:
    """A pull that waits."""
    call = host.call()
    host.last = host.run(ask.PullAsked(call, session, host.gid(name), 50, True, None))
    return call


def waiting(host: Host, question: MsgId, sender: str = "worker", session: str = "asker") -> int:
    """The call in which whoever asked waits."""
    rows = tuple(row for row in host.outbox.values() if row.msg_id == question)
    call = host.call()
    host.last = host.run(ask.WaitAsked(call, session, host.gid(sender), rows, "answer"))
    return call


def heard(host: Host, call: int) -> list[MsgId]:
    """What a pull was given."""
    result = host.results.get(call)
    return [msg_id for msg_id, _ in result.keys] if isinstance(result, Offered) else []


def answers(host: Host, call: int) -> list[MsgId]:
    """What a waiting call was given as its result."""
    result = host.results.get(call)
    return [msg_id for msg_id, _ in result.answers] if isinstance(result, WaitOver) else []


def again(host: Host, name: str, call: int, session: str) -> list[do.Action]:
    """A call's time is over: nothing yet, call again."""
    return host.run(ask.CallTimedOut(call, session), ask.CallAgain(session, host.gid(name)))


def beating(world: World, seconds: int) -> None:
    """Time passes, and every host is heard meanwhile."""
    for _ in range(seconds // 5):
        for host in world.hosts:
            host.run(ev.BeatDue())
        world.settle()
        world.clock.advance(5)
        for host in world.hosts:
            host.expire()
        world.settle()
    for host in world.hosts:
        host.run(ev.BeatDue())
    world.settle()


def notice(kind: Kind, sender: Host, to: Host, re: MsgId, gid: Gid, turn_id: TurnId = TURN, reason: str = "") -> Parsed:
    """A notice about a question or an answer, signed by `sender`."""
    body = TurnNotice(gid=gid, reason=reason, at=WallMs(sender.clock.wall))
    envelope = control(sender.gateway.settings.me, kind, to.name, trace_id=TRACE, now=sender.clock.now, re=re)
    envelope = msgspec.structs.replace(envelope, turn_id=turn_id, msg_id=sender.new_id())
    return sender.sign(envelope, body.to_bytes())


def answer_by_hand(sender: Host, name: str, to: Gid, re: MsgId, turn_id: TurnId = TURN) -> Parsed:
    """An ANSWER that the sender's own core knows nothing of."""
    envelope = message(
        sender.gateway.settings.me,
        Kind.ANSWER,
        sender.entities[sender.gid(name)],
        to,
        msg_id=sender.new_id(),
        trace_id=TRACE,
        expires_in_ms=600_000,
        now=sender.clock.now,
        depth=1,
        re=re,
        turn_id=turn_id,
    )
    return sender.sign(envelope, b"by hand")
