"""Where an agent is started: a requested folder must lie under one of its profile's roots, as the disk says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fleettrio.launch.errors import LaunchError

__all__ = ("find_folder",)


def find_folder(wanted: str, roots: Sequence[str]) -> Path:
    """The real path of `wanted`, which lies under one of `roots` once every symlink is followed. Blocks shortly.

    Raises `LaunchError` for anything else. A relative path would be another folder for each reader, so it is refused.
    """
    path = Path(wanted)
    if "\0" in wanted or not path.is_absolute() or ".." in path.parts:
        raise LaunchError("cwd", f"{wanted!r} is not an absolute path without `..`")
    allowed = [real for root in roots if (real := _real(Path(root))) is not None]
    real = _real(path)
    # Whether a folder outside exists is none of the requester's business: both cases get the same answer.
    if real is None or not any(real.is_relative_to(root) for root in allowed):
        raise LaunchError("cwd", f"{wanted} is not a folder under the roots of this profile ({' '.join(roots)})")
    return real


def _real(path: Path) -> Path | None:
    try:
        real = path.resolve(strict=True)
        return real if real.is_dir() else None
    except (OSError, RuntimeError):
        return None
