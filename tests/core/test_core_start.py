"""Start-up: what the last process left behind is settled by the rows alone."""

from __future__ import annotations

import msgspec

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.ids import WallMs
from tests.core.builders import pair, told
from tests.core.messages import brief


def test_half_typed_is_unconfirmed_and_never_typed_again() -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.ready(msg_id, "worker")
    assert "record unconfirmed(crashed) owed" in told(beta.start())
    beta.open()
    world.settle()
    assert alpha.fate(msg_id) == "unconfirmed(crashed)"
    assert told(beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))) == []


def test_what_waited_is_delivered_after_the_restart() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    assert "reserve" in told(beta.start())
    beta.put_in(msg_id, "worker")
    assert beta.state(msg_id, "worker") == "injected"


def test_a_reservation_nobody_could_take_is_made_again() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.start()
    beta.run(ev.AgentNotReady(beta.gid("worker"), msg_id, "its delivery is only just starting", "idle"))
    assert told(beta.run(ev.AgentSeen(beta.gid("worker"), "idle"))) == ["reserve"]


def test_what_was_offered_is_offered_again_and_marked() -> None:
    world, alpha, beta = pair()
    msg_id = beta.send("lead@alpha", sender="worker")
    world.settle()
    alpha.pull("lead")
    assert "record waiting repeat" in told(alpha.start())
    alpha.pull("lead")
    assert told(alpha.last) == ["record offered repeat", "resolve offered 1"]
    assert alpha.row(msg_id, "lead").repeat


def test_a_word_that_was_not_confirmed_is_told_again_and_changes_nothing_twice() -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.put_in(msg_id, "worker")
    (notice,) = beta.taken()
    alpha.get(beta.signed(notice))
    beta.start()
    assert "publish INJECTED alpha" in told(beta.open())
    world.settle()
    assert (alpha.fate(msg_id), beta.row(msg_id, "worker").notified) == ("injected", True)
    assert alpha.journal == []


def test_what_was_accepted_or_written_is_unknown_and_asked_for_at_the_first_beat() -> None:
    world, alpha, beta = pair()
    msg_id = alpha.send("worker@beta")
    (publish,) = alpha.taken()
    alpha.hand(publish)
    beta.get(alpha.signed(publish))
    assert "sent outcome-unknown(gateway-restarted)" in told(alpha.start())
    alpha.open()
    beta.run(ev.BeatDue())
    (beat,) = beta.taken()
    assert "publish QUERY beta" in told(alpha.get(beta.signed(beat)))
    world.settle()
    assert alpha.fate(msg_id) == "confirmed"


def test_a_confirm_that_died_with_the_process_is_found_out_again() -> None:
    """It has no commit of its own, so nothing is held up by it; what is lost with it the recipient's host knows."""
    world, alpha, beta = pair()
    msg_id = alpha.send("worker@beta")
    (publish,) = alpha.taken()
    alpha.hand(publish)
    key = msg_id, beta.gid("worker")
    accepted = alpha.outbox[key]
    beta.get(alpha.signed(publish))
    assert do.may_wait(do.parted(alpha.verdict(publish))[0])
    alpha.outbox[key] = accepted  # the process died before the next commit
    assert "sent outcome-unknown(gateway-restarted)" in told(alpha.start())
    alpha.open()
    beta.run(ev.BeatDue())
    world.settle()
    assert alpha.fate(msg_id) == "confirmed"


def test_a_confirm_that_puts_right_what_was_said_is_recorded_at_once() -> None:
    """Lost, the row would go on saying why nothing was known."""
    _, alpha, _ = pair()
    msg_id = alpha.send("worker@beta")
    (publish,) = alpha.taken()
    alpha.hand(publish)
    alpha.run(ev.SessionClosed(1, "reset by peer"))
    assert "outcome-unknown" in alpha.fate(msg_id)
    assert not do.may_wait(do.parted(alpha.verdict(publish))[0])


def test_what_is_called_back_is_called_back_again() -> None:
    world, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    alpha.cancel(msg_id)
    alpha.start()
    alpha.open()
    beta.run(ev.BeatDue())
    (beat,) = beta.taken()
    assert "publish RECALL beta" in told(alpha.get(beta.signed(beat)))
    world.settle()
    assert alpha.fate(msg_id) == "recalled"


def test_many_words_owed_to_one_host_go_together() -> None:
    world, alpha, beta = pair()
    ids = [brief(alpha, beta)[0] for _ in range(3)]
    beta.run(ev.SessionClosed(1, "reset"))
    for msg_id in ids:
        beta.put_in(msg_id, "worker")
    assert beta.out == []
    assert "publish OUTCOME alpha injected injected injected" in told(beta.open())
    world.settle()
    assert {alpha.fate(msg_id) for msg_id in ids} == {"injected"}
    assert all(beta.row(msg_id, "worker").notified for msg_id in ids)


def test_a_word_owed_grows_old_while_another_notice_is_under_way_and_only_the_newest_is_told() -> None:
    _, alpha, beta = pair()
    held, _ = brief(beta, alpha, "lead@alpha", sender="worker")
    (under_way,) = alpha.taken()
    beta.cancel(held)
    for publish in beta.taken():
        alpha.get(beta.signed(publish))
    for publish in alpha.taken():
        beta.get(alpha.signed(publish))
    assert beta.fate(held) == "recalled"
    alpha.hand(under_way)
    assert told(alpha.verdict(under_way)) == []
    assert alpha.state(held, "lead") == "recalled"
    assert beta.journal == []


def test_a_notice_that_was_not_confirmed_is_told_again_later() -> None:
    _, alpha, beta = pair()
    msg_id, _ = brief(alpha, beta)
    beta.put_in(msg_id, "worker")
    (notice,) = beta.taken()
    beta.hand(notice)
    assert told(beta.verdict(notice, "nacked")) == []
    assert "publish INJECTED alpha" in told(beta.wait(31))


def test_an_epoch_left_by_a_wrong_clock_is_not_built_upon() -> None:
    world, alpha, beta = pair()
    beta.epoch = 2**60
    worker = beta.entities[beta.gid("worker")]
    beta.entities[worker.gid] = msgspec.structs.replace(worker, rev=2**60, since=WallMs(2**60))
    beta.clock.advance(1)
    actions = told(beta.start())
    assert "note epoch clock" in actions
    assert int(beta.settings["epoch"]) == beta.clock.wall
    beta.open()
    world.settle()
    assert alpha.gateway.roster.peers[beta.name].epoch == beta.clock.wall


def test_an_epoch_a_little_ahead_of_the_clock_is_built_upon() -> None:
    _, _, beta = pair()
    beta.epoch = beta.clock.wall + 3_600_000
    assert "note epoch clock" not in told(beta.start())
    assert int(beta.settings["epoch"]) == beta.clock.wall + 3_600_001
