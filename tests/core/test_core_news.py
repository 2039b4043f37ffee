"""What a person is told of, once in ten minutes; what failed, until its sender knows; when the person was there."""

from __future__ import annotations

from fleettrio.core import events as ev
from fleettrio.core.beside import PersonActed
from fleettrio.core.failures import FailuresTold
from fleettrio.core.news import NEWS
from fleettrio.ids import MsgId
from tests.core.builders import Host, World, agent, pair


def watched() -> tuple[World, Host, Host]:
    """alpha with a lead, beta with a worker; both persons want to be told of everything."""
    world, alpha, beta = pair(news=NEWS)
    for host in (alpha, beta):
        host.notified.clear()
    return world, alpha, beta


def news(host: Host) -> list[tuple[str, str]]:
    """What the person was told since the last look."""
    told = [(notice.what, notice.text) for notice in host.notified]
    host.notified.clear()
    return told


def kinds(host: Host) -> list[str]:
    return [what for what, _ in news(host)]


def seen(host: Host, name: str, status: str) -> None:
    host.run(ev.AgentSeen(host.gid(name), status, looked=True))


def test_a_blocked_agent_is_told_once_in_ten_minutes_however_often_it_is_blocked() -> None:
    _, _, beta = watched()
    seen(beta, "worker", "blocked")
    assert news(beta) == [("blocked", "worker waits at a dialog for a person's answer")]
    for _ in range(3):
        seen(beta, "worker", "working")
        beta.wait(60)
        seen(beta, "worker", "blocked")
    assert "blocked" not in kinds(beta)
    seen(beta, "worker", "idle")
    beta.wait(600)
    seen(beta, "worker", "blocked")
    assert "blocked" in kinds(beta)


def test_each_agent_is_a_subject_of_its_own() -> None:
    _, _, beta = watched()
    beta.run(ev.Attached(beta.call(), agent("other", "beta")))
    seen(beta, "worker", "blocked")
    seen(beta, "other", "blocked")
    assert kinds(beta) == ["blocked", "blocked"]


def test_only_what_the_person_wants_is_told() -> None:
    world, alpha, beta = pair(news=("reply",))
    seen(beta, "worker", "blocked")
    beta.send("human@alpha", sender="worker")
    world.settle()
    assert (kinds(beta), kinds(alpha)) == ([], ["reply"])


def test_an_agent_that_was_blocked_when_the_daemon_ended_is_not_told_again() -> None:
    _, _, beta = watched()
    seen(beta, "worker", "blocked")
    beta.notified.clear()
    beta.start()
    seen(beta, "worker", "blocked")
    assert news(beta) == []


def test_a_reply_for_the_person_is_told_with_the_command_that_shows_it() -> None:
    world, alpha, beta = watched()
    brief = alpha.send("worker@beta")
    world.settle()
    beta.put_in(brief, "worker")
    answer = beta.reply(brief, "worker")
    world.settle()
    assert news(alpha) == [("reply", f"worker@beta answered: fleettrio show {answer[-8:]}")]


def test_what_a_waiting_call_of_the_person_gets_is_no_news() -> None:
    world, alpha, beta = watched()
    brief = alpha.send("worker@beta")
    world.settle()
    beta.put_in(brief, "worker")
    alpha.await_answer(brief)
    beta.reply(brief, "worker")
    world.settle()
    alpha.pull("human", wait=True)
    beta.send("human@alpha", sender="worker")
    world.settle()
    assert news(alpha) == []


def test_what_an_agent_of_this_host_writes_to_the_person_is_told() -> None:
    _, _, beta = watched()
    short = beta.send("human", sender="worker")[-8:]
    assert news(beta) == [("reply", f"worker@beta wrote to you: fleettrio show {short}")]


def test_mail_for_an_agent_is_no_news_for_the_person() -> None:
    world, alpha, beta = watched()
    beta.send("lead@alpha", sender="worker")
    world.settle()
    assert news(alpha) == []


def test_a_failure_is_told_unless_the_call_that_waits_for_it_says_so() -> None:
    world, alpha, beta = watched()
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.run(ev.Detached(beta.call(), beta.gid("worker"), forget=True))
    world.settle()
    ((what, text),) = news(alpha)
    assert what == "failed"
    assert text == f"{brief[-8:]} of lead@alpha to worker@beta failed: recipient-gone"
    alpha.run(ev.SessionClosed(1, "link lost"))
    alpha.send("human@beta", sender="lead")  # fails at once: its call says so
    assert news(alpha) == []


def test_a_loop_is_told() -> None:
    world, alpha, beta = watched()
    for _ in range(12):
        msg = alpha.send("worker@beta", sender="lead")
        world.settle()
        if beta.row(msg, "worker").held:
            break
        beta.put_in(msg, "worker")
        seen(beta, "worker", "idle")
        beta.send("lead@alpha", sender="worker")
        world.settle()
        alpha.take("lead")
    told = [text for what, text in news(beta) if what == "loop"] + [t for w, t in news(alpha) if w == "loop"]
    assert len(told) == 1
    assert "go round in circles" in told[0]
    assert "resume" in told[0]


def test_a_host_that_falls_silent_is_told_after_three_beats_and_its_return_is_noted() -> None:
    _, alpha, beta = watched()
    alpha.wait(10)
    assert news(alpha) == []
    alpha.wait(6)
    assert news(alpha) == [("host", "beta is not heard any more: asleep, off, or cut off")]
    beta.open()
    beats = [publish for publish in beta.taken() if publish.envelope.kind == "PRESENCE"]
    for publish in beats:
        alpha.get(beta.signed(publish))
    noted = [(note.peer, note.reason) for note in alpha.journal if note.what == "host"]
    assert noted == [("beta", "silent"), ("beta", "back")]


def test_a_host_that_says_that_it_leaves_is_told_at_once_and_not_again_as_silent() -> None:
    world, alpha, beta = watched()
    beta.run(ev.Leaving())
    world.settle()
    assert news(alpha) == [("host", "beta has left: its daemon was ended")]
    alpha.wait(700)
    assert [text for _, text in news(alpha) if "beta" in text] == []


def test_without_the_broker_that_is_the_news_and_nothing_is_said_of_hosts() -> None:
    _, alpha, _ = watched()
    alpha.run(ev.SessionClosed(1, "link lost"))
    alpha.wait(60)
    ((what, text),) = news(alpha)
    assert (what, text.startswith("no other host is heard")) == ("host", True)
    assert [note for note in alpha.journal if note.what == "host"] == []


# --- what failed, for its sender


def failed(host: Host, name: str) -> list[str]:
    return [row.msg_id for row in host.gateway.failures.of(host.gid(name))]


def gone_for_good(world: World, alpha: Host, beta: Host) -> MsgId:
    """A brief of alpha's lead that fails after its call was over."""
    brief = alpha.send("worker@beta", sender="lead")
    world.settle()
    beta.run(ev.Detached(beta.call(), beta.gid("worker"), forget=True))
    world.settle()
    return brief


def test_what_failed_is_kept_for_its_sender_until_it_was_told() -> None:
    world, alpha, beta = pair()
    brief = gone_for_good(world, alpha, beta)
    assert failed(alpha, "lead") == [brief]
    assert failed(alpha, "human") == []
    alpha.run(FailuresTold(alpha.gid("lead")))
    assert failed(alpha, "lead") == []


def test_what_failed_is_told_once_over_a_restart_too() -> None:
    world, alpha, beta = pair()
    brief = gone_for_good(world, alpha, beta)
    alpha.start()
    assert failed(alpha, "lead") == [brief]
    alpha.run(FailuresTold(alpha.gid("lead")))
    alpha.start()
    assert failed(alpha, "lead") == []


def test_what_its_own_call_said_is_not_told_again_after_a_restart_either() -> None:
    _, alpha, _ = pair()
    alpha.run(ev.SessionClosed(1, "link lost"))
    alpha.send("worker@beta", sender="lead")
    assert failed(alpha, "lead") == []
    alpha.start()
    assert failed(alpha, "lead") == []


def test_what_a_later_call_said_is_not_told_again() -> None:
    world, alpha, beta = pair()
    brief = gone_for_good(world, alpha, beta)
    alpha.await_answer(brief, "lead", until="delivered")
    assert failed(alpha, "lead") == []
    alpha.start()
    assert failed(alpha, "lead") == []


def test_what_a_call_said_while_others_are_kept_is_told_once_over_a_restart() -> None:
    world, alpha, beta = pair()
    kept = gone_for_good(world, alpha, beta)
    alpha.run(ev.SessionClosed(1, "link lost"))
    alpha.wait(1)
    alpha.send("human@beta", sender="lead")  # fails at once: its call says so
    assert failed(alpha, "lead") == [kept]
    alpha.run(FailuresTold(alpha.gid("lead")))
    alpha.start()
    assert failed(alpha, "lead") == []


def test_a_failure_that_an_answer_disproved_is_not_told() -> None:
    world, alpha, beta = pair()
    brief = gone_for_good(world, alpha, beta)
    beta.run(ev.Attached(beta.call(), agent("worker", "beta")))
    row = alpha.sent(brief)
    alpha.gateway.outbox.answered(row, brief, alpha.clock.now)
    assert failed(alpha, "lead") == []


# --- the person


def test_when_the_person_was_last_there_is_kept_over_a_restart() -> None:
    _, alpha, _ = pair()
    alpha.run(PersonActed())
    at = alpha.gateway.beside.seen_at
    alpha.wait(3_600)
    alpha.start()
    assert alpha.gateway.beside.seen_at == at
    alpha.run(PersonActed())
    assert alpha.gateway.beside.seen_at == alpha.clock.wall
