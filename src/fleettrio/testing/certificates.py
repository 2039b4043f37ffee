"""Throw-away TLS certificates for a private broker, made with the `openssl` program."""

from __future__ import annotations

import subprocess
from pathlib import Path

from fleettrio.errors import FleetTrioError

__all__ = ("make_certificates",)

_DAYS = "30"


def make_certificates(folder: Path, host: str) -> None:
    """Write `ca.pem`, and `server.pem` with `server.key`, which `ca.pem` signed for the name `host` alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", _DAYS]
    authority = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]  # Python 3.13 insists
    _openssl(folder, *new, *authority, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=fleettrio test authority")
    extensions = ["-addext", f"subjectAltName=DNS:{host}", "-addext", "basicConstraints=critical,CA:FALSE"]
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "server.key", "-out", "server.pem"]
    _openssl(folder, *new, *signed, "-subj", f"/CN={host}", *extensions)


def _openssl(folder: Path, *arguments: str) -> None:
    try:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=180)
    except FileNotFoundError as error:
        raise FleetTrioError("openssl is not installed", hint="apt-get install openssl") from error
    except subprocess.CalledProcessError as error:
        raise FleetTrioError(f"openssl failed: {error.stderr.strip()}") from error
