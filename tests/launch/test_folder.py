"""A requested folder must lie under a root of the profile, as the disk says and not as the path reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleettrio.launch.errors import LaunchError
from fleettrio.launch.folder import find_folder


def test_a_folder_under_a_root_is_found_by_its_real_path(tmp_path: Path) -> None:
    (tmp_path / "root" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "root")
    real = (tmp_path / "root").resolve()
    assert find_folder(str(real), [str(real)]) == real
    assert find_folder(str(tmp_path / "link" / "a"), [str(real)]) == real / "a"
    assert find_folder(str(real / "a"), ["/nowhere", str(tmp_path / "link")]) == real / "a"


@pytest.mark.parametrize(
    "wanted", ["{t}/root/../other", "{t}/other", "{t}/root/out", "{t}/rootless", "{t}/root/none", "{t}/root/file", "/"]
)
def test_a_folder_outside_of_the_roots_is_refused(tmp_path: Path, wanted: str) -> None:
    for name in ("root", "other", "rootless"):
        (tmp_path / name).mkdir()
    (tmp_path / "root" / "out").symlink_to(tmp_path / "other")
    (tmp_path / "root" / "file").write_text("")
    with pytest.raises(LaunchError) as caught:
        find_folder(wanted.format(t=tmp_path), [str(tmp_path / "root")])
    assert caught.value.reason == "cwd"


@pytest.mark.parametrize("wanted", ["", "src", "../src", "~/src", "/srv/\0x"])
def test_what_is_no_absolute_path_is_refused(wanted: str) -> None:
    with pytest.raises(LaunchError, match="absolute"):
        find_folder(wanted, ["/"])


def test_a_loop_of_symlinks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(LaunchError):
        find_folder(str(tmp_path / "loop"), [str(tmp_path)])


def test_outside_of_the_roots_nobody_learns_what_exists(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "there").mkdir()
    said = []
    for name in ("there", "nowhere"):
        with pytest.raises(LaunchError) as caught:
            find_folder(str(tmp_path / name), [str(tmp_path / "root")])
        said.append(str(caught.value).replace(name, "x"))
    assert said[0] == said[1]
