"""`claim` and `release`: who has a key, said so that a script and a person can act on it."""

from __future__ import annotations

from fleettrio.api.schema import claims as schema
from fleettrio.api.schema.base import Done
from tests.cli.fake_daemon import Cli, FakeDaemon

MINE = schema.Claimed(
    key="issue-149", arbiter="beta", granted=True, holder="lead@alpha", fence=12, at=1_800_000_000_000, lapsed=False
)


def other(*, lapsed: bool) -> schema.Claimed:
    return schema.Claimed(
        key="issue-149", arbiter="beta", granted=False, holder="w9@beta", fence=12, at=MINE.at, lapsed=lapsed
    )


def test_a_granted_claim_says_its_fence_and_who_decided(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["claim"] = MINE
    ran = cli("claim", "beta:issue-149")
    assert (ran.code, ran.text.strip()) == (0, "issue-149 is yours (fence 12, decided by beta)")
    assert daemon.params_of("claim") == [schema.Claim("beta:issue-149")]
    assert cli("claim", "issue-149", "--json").decoded(schema.Claimed) == MINE


def test_a_claim_that_another_has_exits_3_and_says_who_and_what_to_do(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["claim"] = other(lapsed=False)
    ran = cli("claim", "issue-149")
    assert ran.code == 3
    assert "held by w9@beta" in ran.err
    assert "--lapsed" not in ran.err
    daemon.answers["claim"] = other(lapsed=True)
    assert "fleettrio claim issue-149 --lapsed" in cli("claim", "issue-149").err


def test_claims_are_listed_and_nobody_is_said_in_words(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["claims"] = schema.Claims("alpha", [other(lapsed=True)], False)
    ran = cli("claim", "--list")
    assert "w9@beta" in ran.text
    assert "lapsed" in ran.text
    daemon.answers["claims"] = schema.Claims("alpha", [], False)
    assert "nobody holds a claim at alpha" in cli("claim", "--list").text


def test_a_claim_without_a_key_is_a_usage_error(cli: Cli, daemon: FakeDaemon) -> None:
    assert cli("claim").code == 2


def test_a_release_says_what_it_freed(cli: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["release"] = Done("'issue-149' is free again at alpha")
    ran = cli("release", "issue-149", "--fence", "12")
    assert (ran.code, ran.text.strip()) == (0, "'issue-149' is free again at alpha")
    assert daemon.params_of("release") == [schema.Release("issue-149", 12)]
