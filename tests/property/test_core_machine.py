"""Two real cores, a broker that loses, repeats and delays, crashes, full disks and clocks: what always holds.

The rules below do one thing at a time to one host; Hypothesis puts them together. What is asserted restates none of the
core's rules: it looks at what was typed, at the rows on the two disks, and at what callers were told.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fleettrio.core import actions as do
from fleettrio.core import events as ev
from fleettrio.core import requests as ask
from fleettrio.core.calls import Offered
from fleettrio.core.rows import InboxRow, InboxState, SentRow
from fleettrio.wire.envelope import MESSAGE_KINDS
from fleettrio.wire.signing import Parsed
from tests.core.builders import Key, World

HOSTS = st.sampled_from(["alpha", "beta"])
TROUBLE = st.sampled_from(["none", "lost", "crash", "disk", "mended", "time", "asleep"])
LAST = frozenset(InboxState) - {InboxState.WAITING, InboxState.OFFERED, InboxState.INJECTING, InboxState.UNCONFIRMED}
TOLD = frozenset({"injected", "drained", "expired", "recalled", "superseded", "failed"})


class Fleet(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World("alpha", "beta")
        self.world.open()
        self.clock = self.world.clock
        self.hosts = {str(host.name): host for host in self.world.hosts}
        self.queues: dict[str, list[Parsed]] = {name: [] for name in self.hosts}
        self.seen: list[tuple[str, Parsed]] = []
        self.unconfirmed: dict[str, list[do.Publish]] = {name: [] for name in self.hosts}
        self.offers: list[tuple[int, str]] = []
        self.send_calls: dict[str, set[int]] = {name: set() for name in self.hosts}
        self.written: Counter[Key] = Counter()
        self.order: list[InboxRow] = []
        self.final: dict[tuple[str, Key], InboxState] = {}
        self.final_sent: dict[tuple[str, Key], SentRow] = {}
        for host in self.hosts.values():
            host.taken()

    # --- clients

    @rule(
        up=st.booleans(),
        when=st.sampled_from(["idle", "turn"]),
        priority=st.integers(0, 9),
        short=st.booleans(),
        steps=st.integers(0, 4),
        then=TROUBLE,
        whom=HOSTS,
    )
    def send(self, up: bool, when: str, priority: int, short: bool, steps: int, then: str, whom: str) -> None:
        """And let it come as far as so many steps take it, and then something happens."""
        if steps:
            self.mend()
        host, to, sender = ("alpha", "worker@beta", "lead") if up else ("beta", "lead@alpha", "worker")
        before = set(self.hosts[host].results)
        lifetime = 60_000 if short else 3_600_000
        self.hosts[host].send(to, sender=sender, when=when, priority=priority, expires_in_ms=lifetime)
        self.send_calls[host] |= {self.hosts[host].call() - 1} - before
        if steps:
            self.flow(steps)
        self._trouble(whom, then, 100.0)

    @precondition(lambda self: self.hosts["beta"].ledger)
    @rule(data=st.data())
    def reply(self, data: st.DataObject) -> None:
        beta = self.hosts["beta"]
        rows = [r for r in beta.ledger.values() if r.kind == "SEND" and r.state in ("injected", "unconfirmed")]
        assume(rows)
        beta.reply(data.draw(st.sampled_from(rows)).msg_id, "worker")

    @rule(session=st.sampled_from(["one", "two"]))
    def pull(self, session: str) -> None:
        offered = self.hosts["alpha"].pull("lead", session)
        if isinstance(offered, Offered) and offered.keys:
            self.offers.append((offered.cursor, session))

    @precondition(lambda self: self.offers)
    @rule(confirm=st.booleans())
    def end_offer(self, confirm: bool) -> None:
        cursor, session = self.offers.pop(0)
        if confirm:
            self.hosts["alpha"].confirm(cursor, session)
        else:
            self.hosts["alpha"].run(ask.CallEnded(None, session, gone=True))

    @precondition(lambda self: all(host.outbox for host in self.hosts.values()))
    @rule(name=HOSTS, data=st.data())
    def cancel(self, name: str, data: st.DataObject) -> None:
        self.hosts[name].cancel(data.draw(st.sampled_from(sorted(key[0] for key in self.hosts[name].outbox))))

    @precondition(lambda self: any(self._failed(name) for name in self.hosts))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name in self.hosts if self._failed(name)]))
        host, rows = self.hosts[name], self._failed(name)
        row = data.draw(st.sampled_from(rows))
        host.run(ask.RetryAsked(host.call(), row, b"done" if row.kind == "REPLY" else b"do it"))

    def _failed(self, name: str) -> list[SentRow]:
        rows = self.hosts[name].outbox.values()
        return [row for row in rows if row.state in ("failed", "unknown", "outcome-unknown")]

    # --- the agent

    @precondition(lambda self: self.hosts["beta"].asked)
    @rule(ready=st.booleans(), outcome=st.sampled_from(["submitted", "unconfirmed", "nothing-written"]))
    def agent(self, ready: bool, outcome: str) -> None:
        self._agent(ready, outcome)

    def _agent(self, ready: bool, outcome: str) -> None:
        beta = self.hosts["beta"]
        asked = beta.asked.pop(0)
        row = asked.row
        if isinstance(asked, do.Inject):
            self.order.append(row)
            self.written[row.msg_id, row.gid] += outcome != "nothing-written"
            beta.run(ev.Injected(row.gid, row.msg_id, outcome, "tmux", ""))
        elif ready:
            beta.run(ev.AgentReserved(row.gid, row.msg_id))
        else:
            beta.run(ev.AgentNotReady(row.gid, row.msg_id, "a draft", "idle"))

    @rule(steps=st.integers(1, 6), outcome=st.sampled_from(["submitted", "submitted", "unconfirmed"]))
    def go_on(self, steps: int, outcome: str) -> None:
        self.flow(steps, outcome)

    def mend(self) -> None:
        for name in self.hosts:
            self.disk(name, False)
            self.reconnect(name)

    def flow(self, steps: int, outcome: str = "submitted") -> None:
        """All is well for a moment: what hangs in the middle goes on."""
        self.mend()
        for _ in range(steps):
            for name, host in self.hosts.items():
                for _ in range(len(host.out)):
                    self._publish(name, "ok")
                for _ in range(len(self.queues[name])):
                    host.get(self.queues[name].pop(0))
            if self.hosts["beta"].asked:
                self._agent(True, outcome)

    @precondition(lambda self: self.hosts["beta"].asked)
    @rule()
    def half_typed(self) -> None:
        """As far as the mark, and no further."""
        self.disk("beta", False)
        while self.hosts["beta"].asked and isinstance(self.hosts["beta"].asked[0], do.Reserve):
            self._agent(True, "")

    # --- the broker

    @precondition(lambda self: any(host.out for host in self.hosts.values()))
    @rule(fate=st.sampled_from(["ok", "ok", "ok", "late", "lost", "nacked", "not handed"]), data=st.data())
    def publish(self, fate: str, data: st.DataObject) -> None:
        self._publish(data.draw(st.sampled_from([name for name, host in self.hosts.items() if host.out])), fate)

    def _publish(self, name: str, fate: str) -> None:
        host = self.hosts[name]
        publish = host.out.pop(0)
        if host.broken or fate == "not handed":
            reason = "store" if host.broken else "broker-blocked"
            host.run(ev.PublishNotHanded(publish.id, reason, ""))
            return
        host.hand(publish)
        if fate in ("ok", "late"):
            self._route(host.signed(publish))
        if fate == "lost":
            self.lose(name)
        elif fate == "late":
            self.unconfirmed[name].append(publish)
        else:
            host.verdict(publish, "nacked" if fate == "nacked" else "confirmed")

    def _route(self, parsed: Parsed) -> None:
        for name, host in self.hosts.items():
            if not parsed.envelope.to.startswith("roster.") and host.owner(parsed.envelope):
                self.queues[name].append(parsed)
                self.seen.append((name, parsed))

    @precondition(lambda self: any(self.unconfirmed.values()))
    @rule(data=st.data())
    def confirm_late(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name, publishes in self.unconfirmed.items() if publishes]))
        self.hosts[name].verdict(self.unconfirmed[name].pop(0))

    @precondition(lambda self: any(self.queues.values()))
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name, queue in self.queues.items() if queue]))
        host = self.hosts[name]
        if not host.gateway.link.is_open:
            return
        was_broken = host.broken
        host.get(self.queues[name][0])
        if not was_broken:
            self.queues[name].pop(0)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """Only messages: what of a queue was acknowledged comes again after a lost link, ahead of what follows it."""
        messages = [item for item in self.seen if item[1].envelope.kind in MESSAGE_KINDS]
        assume(messages)
        name, parsed = data.draw(st.sampled_from(messages))
        self.queues[name].insert(0, parsed)

    @rule(
        name=HOSTS,
        trouble=TROUBLE,
        seconds=st.sampled_from([0.2, 3.0, 31.0, 100.0, 3_700.0]),
    )
    def trouble(self, name: str, trouble: str, seconds: float) -> None:
        self._trouble(name, trouble, seconds)

    def _trouble(self, name: str, trouble: str, seconds: float) -> None:
        match trouble:
            case "none":
                pass
            case "lost":
                self.lose(name)
            case "crash":
                self.crash(name)
            case "time":
                self.time(seconds)
            case "asleep":
                self.asleep(seconds)
            case _:
                self.disk(name, trouble == "disk")

    def lose(self, name: str) -> None:
        host = self.hosts[name]
        host.run(ev.SessionClosed(1, "reset"))
        host.taken()

    @rule(name=HOSTS)
    def reconnect(self, name: str) -> None:
        host = self.hosts[name]
        if host.gateway.link.is_open or host.broken:
            return
        self.unconfirmed[name].clear()
        host.open()
        self.hear(name)

    def hear(self, name: str) -> None:
        """The other host's beat comes in."""
        host, other = self.hosts[name], self.hosts["beta" if name == "alpha" else "alpha"]
        if not host.gateway.link.is_open or not other.gateway.link.is_open or host.broken:
            return
        other.run(ev.BeatDue())
        for publish in [p for p in other.out if p.envelope.to.endswith("_gateway")]:
            other.out.remove(publish)
            other.hand(publish)
            other.verdict(publish)
            parsed = other.signed(publish)
            host.get(parsed)
            other.get(parsed)

    # --- the machine beneath

    def crash(self, name: str) -> None:
        """The process dies; what was asked of its agents may have been done half."""
        host = self.hosts[name]
        for asked in host.asked:
            if isinstance(asked, do.Inject):
                self.order.append(asked.row)
                self.written[asked.row.msg_id, asked.row.gid] += 1
        host.broken = False
        self.unconfirmed[name].clear()
        self.send_calls[name].clear()
        self.offers = [] if name == "alpha" else self.offers
        host.resolved.clear()
        host.start()

    def disk(self, name: str, broken: bool) -> None:
        host = self.hosts[name]
        was, host.broken = host.broken, broken
        if broken and not was:
            host.run(ev.AgentSeen(host.gid("worker" if name == "beta" else "lead"), "idle"))
        if was and not broken and host.gateway.store_fault.trouble:
            host.run(ev.StoreRecovered())

    def time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for host in self.hosts.values():
            host.expire()
            due = host.gateway.next_deadline()
            assert due is None or due > self.clock.mono, "expire leaves nothing due behind"

    def asleep(self, seconds: float) -> None:
        """The machine under both sleeps: time goes by, and their monotonic clock stands still."""
        self.clock.turn(seconds)
        for name, host in self.hosts.items():
            host.run(ev.StoodStill(seconds, seconds))
            self.lose(name)
        self.time(0)

    # --- what always holds

    @invariant()
    def nothing_is_typed_twice(self) -> None:
        assert all(count <= 1 for count in self.written.values())

    @invariant()
    def order_is_kept_per_sender_and_when(self) -> None:
        last: dict[tuple[str, str], int] = {}
        for row in self.order:
            key = (row.sender, row.when)
            assert last.get(key, 0) <= row.seq, "a later one was typed before an earlier one"
            last[key] = row.seq

    @invariant()
    def a_final_row_never_changes(self) -> None:
        for name, host in self.hosts.items():
            for key, row in host.ledger.items():
                before = self.final.get((name, key))
                assert before in (None, row.state)
                if row.state in LAST:
                    self.final[name, key] = row.state

    @invariant()
    def the_recipients_word_stands(self) -> None:
        for name, host in self.hosts.items():
            for key, row in host.outbox.items():
                before = self.final_sent.get((name, key))
                if before is not None:
                    is_same = before.state == row.state
                    assert is_same or (row.answered_by and (before.state, row.state) == ("injected", "drained"))
                if row.said_by == "peer" and row.state in TOLD:
                    self.final_sent[name, key] = row

    @invariant()
    def no_call_ends_twice(self) -> None:
        for host in self.hosts.values():
            assert all(count == 1 for count in host.resolved.values())

    @invariant()
    def honest_hosts_never_contradict_each_other(self) -> None:
        for host in self.hosts.values():
            assert [n for n in host.journal if n.what in ("contradiction", "unknown-word")] == []

    def teardown(self) -> None:
        """All is mended and the time passes: every call has its end, and each sender knows what the recipient knows."""
        for name in self.hosts:
            self.disk(name, False)
            self.lose(name)
        for _ in range(4):
            self._calm_round()
        self._check_invariants_at_the_end()

    def _calm_round(self) -> None:
        for name, host in self.hosts.items():
            if not host.gateway.link.is_open:
                self.reconnect(name)
        for name in self.hosts:
            self.hear(name)
        for _ in range(400):
            busy = False
            for name, host in self.hosts.items():
                while host.out:
                    busy = True
                    publish = host.out.pop(0)
                    host.hand(publish)
                    self._route(host.signed(publish))
                    host.verdict(publish)
                while self.queues[name]:
                    busy = True
                    host.get(self.queues[name].pop(0))
                while host.asked:
                    busy = True
                    self._agent(True, "submitted")
            if not busy:
                break
        self.clock.advance(3_800)
        for host in self.hosts.values():
            host.expire()
        self.offers.clear()

    def _check_invariants_at_the_end(self) -> None:
        for name, host in self.hosts.items():
            assert {call for call in self.send_calls[name] if call not in host.results} == set()
            other = self.hosts["beta" if name == "alpha" else "alpha"]
            for key, sent in host.outbox.items():
                there = other.ledger.get(key)
                if there is None or sent.answered_by or sent.said_by != "peer":
                    assert there is None or sent.answered_by or sent.state in ("unknown", "failed"), (sent, there)
                    continue
                known = "held" if there.state in ("waiting", "offered") else str(there.state)
                if (sent.reason, known) == (f"refused: expired at {other.name}", "recalled"):
                    continue  # it came too late, and was then called back as well
                assert str(sent.state) == known, (sent, there)
        self.nothing_is_typed_twice()
        self.order_is_kept_per_sender_and_when()
        self.a_final_row_never_changes()
        self.the_recipients_word_stands()
        self.honest_hosts_never_contradict_each_other()


Fleet.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestFleet = Fleet.TestCase
