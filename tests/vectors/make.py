"""Make the frozen vectors of wire format 1 from libraries and the specification alone; fleettrio is not imported.

    python tests/vectors/make.py [FILE]

The file may only be added to: what stands in it is what other implementations were built against.
"""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib
import sys
import uuid
from typing import Any

import cbor2
from nacl.signing import SigningKey

FLEET = "prod"
NOW = 1_800_000_000_000
ALPHA, BETA, OWNER = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
LEAD_SALT, WORKER_SALT = bytes(range(16)), bytes(range(16, 32))
BATCHES = (1, 2, 3, 5, 255, 256)


def canonical(value: Any) -> bytes:
    return cbor2.dumps(value, canonical=True)


def blake2b(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def gid(fleet: str, host: str, salt: bytes) -> str:
    raw = bytearray(blake2b(b"fleettrio/1 gid\0" + fleet.encode() + b"\0" + host.encode() + b"\0" + salt)[:16])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(raw)))


def leaf(header: bytes, body: bytes) -> bytes:
    return blake2b(b"\0" + len(header).to_bytes(4, "big") + header + body)


def tree(leaves: list[bytes]) -> tuple[bytes, list[bytes]]:
    """Root and proofs, level by level; every leaf keeps its place in the level and its siblings so far."""
    places, siblings, level = list(range(len(leaves))), [b"" for _ in leaves], leaves
    while len(level) > 1:
        for number, place in enumerate(places):
            other = place + 1 if place % 2 == 0 else place - 1
            siblings[number] += level[other] if other < len(level) else b""
            places[number] = place // 2
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [blake2b(b"\1" + b"".join(pair)) if len(pair) == 2 else pair[0] for pair in pairs]
    if len(leaves) == 1:
        return level[0], [b""]
    count = len(leaves).to_bytes(2, "big")
    return level[0], [number.to_bytes(2, "big") + count + path for number, path in enumerate(siblings)]


def sign(seed: bytes, message: bytes) -> bytes:
    return SigningKey(seed).sign(message).signature


def public(seed: bytes) -> bytes:
    return bytes(SigningKey(seed).verify_key)


def signed_bytes(fleet: str, count: int, root: bytes) -> bytes:
    return b"fleettrio/1 root\0" + fleet.encode() + b"\0" + count.to_bytes(2, "big") + root


def msg_id(number: int) -> str:
    return f"0192f0c1-7000-7000-8000-{number:012x}"


LEAD = gid(FLEET, "alpha", LEAD_SALT)
WORKER = gid(FLEET, "beta", WORKER_SALT)


def send(number: int = 1, /, **changes: Any) -> dict[str, Any]:
    """Fields of a SEND from alpha's lead to beta's worker; a change to None takes the field out."""
    fields = {
        "v": 1,
        "kind": "SEND",
        "msgId": msg_id(number),
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "from": LEAD,
        "fromSalt": LEAD_SALT,
        "to": WORKER,
        "host": "alpha",
        "keyGen": 1,
        "ts": NOW,
        "expiresAt": NOW + 28_800_000,
        "depth": 0,
    }
    fields.update(changes)
    return {name: value for name, value in fields.items() if value is not None}


def gids() -> list[dict[str, str]]:
    salts = {"gateway": bytes(16), "human": b"\1" * 16, "lead": LEAD_SALT, "worker": WORKER_SALT}
    return [
        {"fleetId": fleet, "host": host, "who": who, "salt": salt.hex(), "gid": gid(fleet, host, salt)}
        for fleet, host in ((FLEET, "alpha"), (FLEET, "beta"), ("dev", "alpha"), ("solo-0011223344556677", "a"))
        for who, salt in salts.items()
    ]


def shown(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def headers() -> list[dict[str, Any]]:
    cases: dict[str, dict[str, Any]] = {
        "nothing": {},
        "one of each type": {"i": 1, "t": "x", "b": b"\0\xff", "yes": True, "no": False},
        "length before letters": {"b": 1, "aa": 2, "a": 3, "ab": 4, "aaa": 5},
        "every length of number": {f"n{at}": n for at, n in enumerate((0, 23, 24, 255, 256, 65535, 65536))},
        "long numbers": {"a": 2**32 - 1, "b": 2**32, "c": 2**63 - 1, "d": 2**63, "e": 2**64 - 1},
        "negative numbers": {"a": -1, "b": -24, "c": -25, "d": -256, "e": -257, "f": -(2**63), "g": -(2**64)},
        "text beyond ASCII": {"ключ": "значение", "名": "漢字かな", "t": "zażółć 🚀 e\u0301"},
        "every length of text": {f"t{n:04}": "x" * n for n in (0, 23, 24, 255, 256, 1000)},
        "key of 23 bytes": {"k" * 23: 1},
        "more than 23 fields": {f"f{n:02}": n for n in range(30)},
        "SEND": send(),
        "SEND, all fields": send(
            when="turn",
            onStale="drop",
            priority=9,
            intent="handoff",
            wantsReply=False,
            causal=canonical({"repo": "r", "head": "h"}),
            claim="beta:issue-149",
            supersedes=msg_id(7),
            later=1,
        ),
        "REPLY": send(kind="REPLY", re=msg_id(2), auto=True, expiresAt=NOW + 14 * 86_400_000),
        "ASK": send(kind="ASK", turnId="turn-1", expiresAt=NOW + 600_000),
        "BROADCAST": send(kind="BROADCAST", to="broadcast.all", expiresAt=NOW + 3_600_000),
        "PRESENCE": send(
            kind="PRESENCE",
            **{"from": gid(FLEET, "alpha", bytes(16)), "fromSalt": bytes(16)},
            to="roster.alpha._gateway",
            expiresAt=NOW + 15_000,
            depth=None,
        ),
        "FAILED": send(kind="FAILED", to="beta", re=msg_id(3), depth=None),
    }
    return [
        {
            "name": name,
            "fields": {key: shown(value) for key, value in fields.items()},
            "canonical": canonical(fields).hex(),
        }
        for name, fields in cases.items()
    ]


def batches() -> list[dict[str, Any]]:
    made = []
    for count in BATCHES:
        messages = [(canonical(send(number)), f"body {number}\n".encode()) for number in range(count)]
        leaves = [leaf(header, body) for header, body in messages]
        root, proofs = tree(leaves)
        chosen = range(count) if count <= 5 else (0, 1, count // 2, count - 2, count - 1)
        made.append(
            {
                "n": count,
                "seed": ALPHA.hex(),
                "publicKey": public(ALPHA).hex(),
                "fleetId": FLEET,
                "firstNumber": 0,
                "leaves": [one.hex() for one in leaves],
                "root": root.hex(),
                "signed": signed_bytes(FLEET, count, root).hex(),
                "sig": sign(ALPHA, signed_bytes(FLEET, count, root)).hex(),
                "messages": [
                    {
                        "index": number,
                        "header": messages[number][0].hex(),
                        "body": messages[number][1].hex(),
                        "leaf": leaves[number].hex(),
                        "proof": proofs[number].hex(),
                    }
                    for number in chosen
                ],
            }
        )
    return made


def fleet_file() -> dict[str, Any]:
    hosts = [
        {
            "host": host,
            "keys": [{"gen": gen, "key": public(seed)} for gen in gens],
            "grants": grants,
            "notAfter": 0,
        }
        for host, seed, gens, grants in (
            ("alpha", ALPHA, (1, 2), ["ask", "broadcast", "reply", "report", "send"]),
            ("beta", BETA, (1,), ["ask", "broadcast", "reply", "send", "spawn:reviewer", "stop"]),
        )
    ]
    body = {
        "v": 1,
        "fleetId": FLEET,
        "rev": 7,
        "notAfter": NOW + 31_536_000_000,
        "hosts": hosts,
        "revoked": [{"host": "alpha", "gen": 2}, {"host": "gamma", "gen": 1}],
    }
    packed = canonical(body)
    file = canonical({"body": packed, "owner": public(OWNER), "sig": sign(OWNER, b"fleettrio/1 fleet\0" + packed)})
    return {"ownerSeed": OWNER.hex(), "ownerKey": public(OWNER).hex(), "body": packed.hex(), "file": file.hex()}


def host_line() -> dict[str, Any]:
    offered = {"host": "beta", "key": public(BETA), "gen": 1}
    packed = canonical(offered | {"sig": sign(BETA, b"fleettrio/1 host\0" + canonical(offered))})
    line = "ft-host-1:" + base64.urlsafe_b64encode(packed).decode().rstrip("=")
    return {"seed": BETA.hex(), "host": "beta", "gen": 1, "key": public(BETA).hex(), "line": line}


def refused_headers() -> list[dict[str, str]]:
    """Bytes that no strict decoder takes, whatever they would mean."""
    cases = {
        "empty": "",
        "not a map": "80",
        "a text": "6161",
        "trailing byte": "a000",
        "ends in the map's head": "b8",
        "ends before a key": "a1",
        "ends before a value": "a16161",
        "ends in a text": "a161616261",
        "ends in a number": "a1616119",
        "more entries than 4 KiB can hold": "ba7fffffff",
        "indefinite map": "bf616101ff",
        "indefinite text": "a161617f6161ff",
        "indefinite bytes": "a161615f4161ff",
        "reserved length": "a161611c",
        "number 1 in two bytes": "a161611801",
        "number 24 in three bytes": "a16161190018",
        "number 256 in five bytes": "a161611a00000100",
        "number 65536 in nine bytes": "a161611b0000000000010000",
        "text of one in two bytes": "a16161780161",
        "key length in two bytes": "a178016101",
        "map of one in two bytes": "b801616101",
        "keys out of order": "a2616201616101",
        "long key before a short one": "a26261610161620" + "1",
        "duplicate key": "a2616101616102",
        "duplicate key, same value": "a2616101616101",
        "key of bytes": "a1416101",
        "key of a number": "a10101",
        "key of 24 bytes": "a17818" + "6b" * 24 + "01",
        "null": "a16161f6",
        "undefined": "a16161f7",
        "simple value": "a16161f820",
        "half float": "a16161f93c00",
        "single float": "a16161fa3f800000",
        "double float": "a16161fb3ff0000000000000",
        "break": "a16161ff",
        "list": "a1616180",
        "nested map": "a16161a0",
        "tag": "a16161c001",
        "bignum": "a16161c24101",
        "text that is not UTF-8": "a1616161ff",
        "text with a surrogate": "a1616163eda080",
        "text in too many bytes": "a1616162c080",
        "key that is not UTF-8": "a161ff01",
        "over 4 KiB": canonical({"b": bytes(4096)}).hex(),
    }
    return [{"name": name, "bytes": data, "reason": "malformed"} for name, data in cases.items()]


def refused_envelopes() -> list[dict[str, str]]:
    """Canonical headers that are no envelope."""
    day = 86_400_000
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "nothing": ({}, "malformed"),
        "a newer version": (send(v=2), "version"),
        "version 0": (send(v=0), "malformed"),
        "version as text": (send(v="1"), "malformed"),
        "no kind": (send(kind=None), "malformed"),
        "kind in small letters": (send(kind="send"), "malformed"),
        "msgId in capitals": (send(msgId=msg_id(0xABC).upper()), "malformed"),
        "msgId of version 4": (send(msgId="0192f0c1-7000-4000-8000-000000000001"), "malformed"),
        "short traceId": (send(traceId="0af7"), "malformed"),
        "from is no gid": (send(**{"from": msg_id(1)}), "malformed"),
        "short salt": (send(fromSalt=bytes(15)), "malformed"),
        "to nothing": (send(to=""), "malformed"),
        "SEND to a host": (send(to="beta"), "malformed"),
        "SEND to everyone": (send(to="broadcast.all"), "malformed"),
        "notice to an inbox": (send(kind="FAILED", re=msg_id(2), depth=None), "malformed"),
        "reserved host": (send(host="human"), "malformed"),
        "key generation 0": (send(keyGen=0), "malformed"),
        "key generation is true": (send(keyGen=True), "malformed"),
        "negative time": (send(ts=-1), "malformed"),
        "expires before it was sent": (send(expiresAt=NOW - 1), "malformed"),
        "SEND for over 14 days": (send(expiresAt=NOW + 14 * day + 1), "malformed"),
        "SEND now for over a day": (send(when="now", expiresAt=NOW + day + 1), "malformed"),
        "SEND without depth": (send(depth=None), "malformed"),
        "REPLY without re": (send(kind="REPLY"), "malformed"),
        "ASK without turnId": (send(kind="ASK", expiresAt=NOW + 1000), "malformed"),
        "when is later": (send(when="later"), "malformed"),
        "priority 10": (send(priority=10), "malformed"),
        "intent is order": (send(intent="order"), "malformed"),
        "wantsReply is 1": (send(wantsReply=1), "malformed"),
        "line feed in claim": (send(claim="a\nb"), "malformed"),
        "PRESENCE of an entity": (
            send(kind="PRESENCE", to="roster.alpha._gateway", depth=None, expiresAt=NOW + 1000),
            "malformed",
        ),
    }
    return [
        {"name": name, "bytes": canonical(fields).hex(), "reason": reason} for name, (fields, reason) in cases.items()
    ]


def refused_proofs() -> list[dict[str, str]]:
    one = bytes(32)
    cases = {
        "too short": b"\0\0\0",
        "batch of none": b"\0\0\0\0",
        "batch of one": b"\0\0\0\1",
        "batch of 257": b"\0\0\1\1" + one * 9,
        "index beyond the batch": b"\0\2\0\2" + one,
        "no sibling": b"\0\0\0\2",
        "a sibling too many": b"\0\0\0\2" + one * 2,
        "half a sibling": b"\0\0\0\2" + one[:16],
        "a sibling for a promoted leaf": b"\0\2\0\3" + one * 2,
    }
    return [{"name": name, "leaf": one.hex(), "proof": proof.hex()} for name, proof in cases.items()]


def delivery(fields: dict[str, Any], *, seed: bytes = ALPHA, fleet: str = FLEET, **more: Any) -> dict[str, Any]:
    header, body = canonical(fields), b"check the parser\n"
    return {
        "header": header.hex(),
        "body": body.hex(),
        "sig": sign(seed, signed_bytes(fleet, 1, leaf(header, body))).hex(),
        "fleetIdHint": fleet,
        "cc": False,
        "queue": WORKER,
        "known": None,
        "now": NOW,
    } | more


def deliveries() -> list[dict[str, Any]]:
    """One delivery each, to be judged by the fleet file above, as from a queue with the one key `queue`."""
    elsewhere = gid(FLEET, "beta", LEAD_SALT)
    gateway = {"from": gid(FLEET, "alpha", bytes(16)), "fromSalt": bytes(16)}
    beat = send(kind="PRESENCE", to="roster.beta._gateway", expiresAt=NOW + 15_000, depth=None, **gateway)
    good = delivery(send())
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("good", "", good),
        ("good, whatever the hint says", "", good | {"fleetIdHint": "dev"}),
        ("good at the last moment of skew", "", good | {"now": NOW + 28_800_000 + 30_000}),
        ("known", "duplicate", good | {"known": leaf(bytes.fromhex(good["header"]), b"check the parser\n").hex()}),
        ("63-byte signature", "signature", good | {"sig": good["sig"][:-2]}),
        ("no signature", "malformed", good | {"sig": None}),
        ("a newer version", "version", delivery(send(v=2))),
        ("another fleet", "wrong-fleet", delivery(send(), fleet="dev")),
        ("unknown host", "unknown-host", delivery(send(host="delta"), seed=OWNER)),
        ("revoked generation", "revoked", delivery(send(keyGen=2))),
        ("revoked host", "revoked", delivery(send(host="gamma"), seed=OWNER)),
        ("unknown generation", "key-generation", delivery(send(keyGen=3))),
        ("another key", "signature", delivery(send(), seed=BETA)),
        ("another body", "signature", good | {"body": b"check the lexer\n".hex()}),
        ("sender of another host", "wrong-host", delivery(send(**{"from": elsewhere}))),
        ("presence for another host", "wrong-host", delivery(beat, queue="roster.beta._gateway")),
        ("another inbox", "wrong-recipient", good | {"queue": LEAD}),
        ("copied by CC", "wrong-recipient", good | {"cc": True}),
        ("unknown kind", "unknown-kind", delivery(send(kind="FLEET"))),
        (
            "not granted",
            "not-authorised",
            delivery(send(kind="PAUSE", to="beta", depth=None, expiresAt=NOW + 1000), queue="beta"),
        ),
        ("known with another body", "conflict", good | {"known": bytes(32).hex()}),
        ("expired", "expired", good | {"now": NOW + 28_800_000 + 30_001}),
        ("sent in the future", "future", good | {"now": NOW - 30_001}),
    ]
    return [{"name": name, "result": result, **case} for name, result, case in cases]


def causals() -> list[dict[str, Any]]:
    """What the header's `causal` holds: canonical, fingerprints (SHA-256 of contents) in the order of the paths."""
    root, head = hashlib.sha1(b"root").hexdigest(), hashlib.sha1(b"head").hexdigest()  # noqa: S324 - as git names them
    long_root = hashlib.sha256(b"root").hexdigest()
    one, two = hashlib.sha256(b"one\n").digest(), hashlib.sha256(b"").digest()
    cases: list[tuple[str, dict[str, Any]]] = [
        ("a repository alone", {"repo": root}),
        ("a repository and its head", {"repo": root, "head": head}),
        ("longer ids", {"repo": long_root, "head": long_root}),
        ("files", {"repo": root, "head": head, "paths": ["src/a.rs", "日本 語.md"], "fingerprints": [one, two]}),
        ("files without a head", {"repo": root, "paths": ["z", "a"], "fingerprints": [two, one]}),
    ]
    return [
        {
            "name": name,
            "repo": fields["repo"],
            "head": fields.get("head", ""),
            "paths": fields.get("paths", []),
            "fingerprints": [print_.hex() for print_ in fields.get("fingerprints", [])],
            "hex": canonical(fields).hex(),
        }
        for name, fields in cases
    ]


def vectors() -> dict[str, Any]:
    return {
        "format": "fleettrio wire 1; bytes in hex; leaf, root, proof, sig and gid as in the specification",
        "gids": gids(),
        "headers": headers(),
        "batches": batches(),
        "fleetFile": fleet_file(),
        "hostLine": host_line(),
        "refusedHeaders": refused_headers(),
        "refusedEnvelopes": refused_envelopes(),
        "refusedProofs": refused_proofs(),
        "deliveries": deliveries(),
        "causals": causals(),
    }


def main() -> None:
    default = pathlib.Path(__file__).with_name("wire-v1.json")
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    path.write_text(json.dumps(vectors(), indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
