"""The host line, both ways and damaged; the words by which people compare the key in it."""

from __future__ import annotations

import re

import nacl.signing
import pytest

from fleettrio.errors import ConfigError
from fleettrio.wire.fingerprint import fingerprint, words
from fleettrio.wire.fleet import HostKey
from fleettrio.wire.hostline import host_line, read_host_line
from fleettrio.wire.wordlist import WORDS
from tests.vectors.load import VECTORS
from tests.wire.makers import ALPHA, BETA, OWNER_SEED, signer

OWNER = bytes(nacl.signing.SigningKey(OWNER_SEED).verify_key)


def test_a_host_line_comes_back() -> None:
    line = host_line(ALPHA, 4, b"\6" * 32)
    assert "\n" not in line
    assert read_host_line(f"  {line}\n") == HostKey(ALPHA, 4, bytes(nacl.signing.SigningKey(b"\6" * 32).verify_key))


def test_frozen_host_line() -> None:
    frozen = VECTORS["hostLine"]
    assert host_line(frozen["host"], frozen["gen"], bytes.fromhex(frozen["seed"])) == frozen["line"]
    assert read_host_line(frozen["line"]) == HostKey(BETA, 1, bytes.fromhex(frozen["key"]))


def test_a_damaged_host_line_is_refused_wherever_it_is_damaged() -> None:
    line = host_line(ALPHA, 1, b"\6" * 32)
    for at in range(len(line)):
        for damaged in (line[:at] + line[at + 1 :], line[:at] + ("A" if line[at] != "A" else "B") + line[at + 1 :]):
            with pytest.raises(ConfigError, match="host line"):
                read_host_line(damaged)


@pytest.mark.parametrize("line", ["", "ssh-ed25519 AAAA", "ft-host-1:", "ft-host-1:é", "ft-host-1:" + "A" * 2000])
def test_what_is_no_host_line(line: str) -> None:
    with pytest.raises(ConfigError, match="host line"):
        read_host_line(line)


def test_a_host_line_for_a_reserved_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="'human' is not a host id"):
        read_host_line(host_line("human", 1, b"\6" * 32))


def test_words_and_fingerprint_are_of_the_key() -> None:
    assert len(set(WORDS)) == len(WORDS) == 256
    assert all(re.fullmatch("[a-z]{3,8}", word) for word in WORDS)
    assert len(words(OWNER).split()) == 6
    assert words(OWNER) == words(OWNER) != words(signer().public_key)
    assert re.fullmatch("([0-9a-f]{4} ){7}[0-9a-f]{4}", fingerprint(OWNER))
