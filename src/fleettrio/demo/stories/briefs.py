"""Briefs and their answers: every body byte for byte, and whatever is killed meanwhile, once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fleettrio.demo.examples import Example, examples
from fleettrio.demo.lead import Brief, Lead, StoryFailed
from fleettrio.demo.stage import LEAD, WORKER
from fleettrio.demo.stories.parts import ANSWERS_S, TURN_S, all_answered, ids, say_answered

__all__ = ("beta_killed", "broker_killed", "delegate_and_reply", "late_reply")


def delegate_and_reply(lead: Lead) -> None:
    """Delegate and reply: every example body, byte for byte, from the lead and from the person at alpha"""
    stage = lead.stage
    with ThreadPoolExecutor(max_workers=2) as both:
        asked = [
            both.submit(lead.ask, example.name, example.body, TURN_S, by_person=number % 2 == 1)
            for number, example in enumerate(examples())
        ]
        for example, waiting in zip(examples(), asked, strict=True):
            with stage.narrator.progress(f"{WORKER} works on {example.name}"):
                brief, answer = waiting.result()
            say_answered(lead, brief, lead.check(brief, answer))


def late_reply(lead: Lead) -> None:
    """A late reply: alpha killed, the broker restarted, beta switched off, and still it is there"""
    stage = lead.stage
    example = examples()[0]
    stage.worker.hold()
    brief, early = lead.ask(example.name, b"Take your time. " + example.body, 3.0)
    if early is not None:
        raise StoryFailed(f"{early.short} came although the worker sat on it")
    stage.narrator.say(f"{LEAD} sent {stage.narrator.id(brief.short)} ({brief.name}) and stopped waiting (exit 6)")
    stage.narrator.until(f"{WORKER} has read it", lambda: stage.worker.find("read", brief.short), TURN_S)
    stage.alpha.kill()
    stage.narrator.say("alpha is killed (SIGKILL)")
    stage.worker.release()
    replied = stage.narrator.until(f"{WORKER} has replied", lambda: stage.worker.find("answered", brief.short), TURN_S)
    stage.narrator.say(f"{WORKER} replied {stage.narrator.id(replied['reply'][-8:])}; the broker has it")
    stage.beta.stop()
    stage.kill_broker()
    stage.narrator.say("beta is switched off, the broker is killed (SIGKILL), alpha and the broker start again")
    stage.alpha.begin()
    stage.start_broker()
    stage.alpha.wait_ready()
    answer = lead.collect([brief], ANSWERS_S)[brief.msg_id]
    stage.narrator.say(f"{LEAD} fetched it with `fleettrio inbox --take`, while beta is off")
    say_answered(lead, brief, lead.check(brief, answer))


def broker_killed(lead: Lead) -> None:
    """The broker is killed in the middle of traffic and comes back"""
    stage = lead.stage
    bodies = _numbered(6)
    sent = [lead.send(*item) for item in bodies[:2]]
    stage.narrator.say(f"{LEAD} sent {ids(stage, sent)}")
    stage.kill_broker()
    stage.narrator.say("the broker is killed (SIGKILL), and the lead goes on sending")
    meanwhile = [lead.send(*item) for item in bodies[2:4]]
    for brief in meanwhile:
        stage.narrator.say(f"{stage.narrator.id(brief.short)} exit {brief.code}: {brief.sentence}")
    if any(brief.code == 0 for brief in meanwhile):
        raise StoryFailed("a send without a broker said that it went well")
    stage.start_broker()
    for host in stage.hosts:
        host.wait_ready()
    stage.narrator.say("the broker is back, both hosts found it by themselves; what failed is sent again as it was")
    sent += [_sent_again(lead, brief) for brief in meanwhile]
    sent += [lead.send(*item) for item in bodies[4:]]
    all_answered(lead, sent)


def beta_killed(lead: Lead) -> None:
    """beta is killed with briefs in hand and comes back: nothing is typed twice"""
    stage = lead.stage
    bodies = _numbered(4)
    stage.worker.hold()
    sent = [lead.send(*item) for item in bodies[:3]]
    stage.narrator.say(f"{LEAD} sent {ids(stage, sent)}")
    first = stage.narrator.until(
        f"{WORKER} is at work", lambda: next((b for b in sent if stage.worker.find("read", b.short)), None), TURN_S
    )
    stage.beta.kill()
    stage.narrator.say(f"beta is killed (SIGKILL) while {WORKER} works on {stage.narrator.id(first.short)}")
    late = lead.send(*bodies[3])
    stage.narrator.say(f"{LEAD} sent {stage.narrator.id(late.short)}: {late.sentence}")
    stage.worker.release()
    stage.beta.start()
    stage.narrator.say("beta is back; the worker lived on in its pane")
    all_answered(lead, [*sent, late])


def _numbered(count: int) -> list[tuple[str, bytes]]:
    """So many different briefs: no two have the same bytes."""
    bodies: Sequence[Example] = examples()
    some = [bodies[index % len(bodies)] for index in range(count)]
    return [(f"{e.name} no. {n}", b"%d of %d. " % (n, count) + e.body) for n, e in enumerate(some, 1)]


def _sent_again(lead: Lead, brief: Brief) -> Brief:
    def again() -> Brief | None:
        tried = lead.send_again(brief)
        return tried if tried.code == 0 else None

    return lead.stage.narrator.until(f"{brief.short} is sent again", again, TURN_S)
