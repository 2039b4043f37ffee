"""One of many processes that claim and release keys of one daemon, whoever kills it meanwhile.

    python claimant.py SOCKET TOKEN SEED CLAIMS KEYS

Writes a JSON line for each grant it got: `key fence from until` (monotonic, s; `until` null: kept).
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

import msgspec

from fleettrio.api.schema.claims import Claim, Claimed, Release
from fleettrio.clients.client import CallFailed, Client, ConnectionLost, DaemonMissing

_AGAIN_S = 0.05


def _wait_for_daemon(socket: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not socket.exists():
        time.sleep(_AGAIN_S)


class Claimant:
    def __init__(self, socket: Path, token: str) -> None:
        self._socket = socket
        self._token = token
        self._client: Client | None = None

    def call(self, method: str, params: msgspec.Struct) -> Claimed | None:
        """Until the daemon has answered; None when it says no (a release of a grant that is not ours any more)."""
        while True:
            try:
                if self._client is None:
                    self._client = Client.connect(self._socket, self._token)
                answer = self._client.call(method, params)
            except CallFailed as problem:
                if problem.reason == "refused":
                    return None
                raise
            except (ConnectionLost, DaemonMissing, OSError):
                self._client = None
                _wait_for_daemon(self._socket)
            else:
                return answer if isinstance(answer, Claimed) else None


def main(socket: str, token: str, seed: str, claims: str, keys: str) -> None:
    claimant, dice = Claimant(Path(socket), token), random.Random(seed)
    for _ in range(int(claims)):
        key = f"issue-{dice.randrange(int(keys))}"
        claimed = claimant.call("claim", Claim(key))
        assert claimed is not None
        if not claimed.granted:
            print(json.dumps({"key": key, "held_by": claimed.holder, "fence": claimed.fence}), flush=True)
            continue
        start = time.monotonic()
        end = None
        if dice.random() < 0.8:
            end = time.monotonic()
            claimant.call("release", Release(key, claimed.fence))
        print(json.dumps({"key": key, "fence": claimed.fence, "from": start, "until": end}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
