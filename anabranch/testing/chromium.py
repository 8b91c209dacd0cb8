"""Chromium for tests of the console: the one that `ANABRANCH_CHROMIUM` names, else Debian's without a window, unpacked into the
cache with the letters that it draws.

What does not live here: driving it (tests/rigs/browser.py).
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch.testing import debian
from anabranch.testing.cache import ServerUnavailable, cache_directory

VARIABLE = "ANABRANCH_CHROMIUM"
_PACKAGES = (("chromium-headless-shell", "fonts-dejavu-core"),)
_PROGRAM = Path("usr/lib/chromium/chromium-headless-shell")
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>
"""


@dataclass(frozen=True, slots=True)
class Chromium:
    """The program, and what it needs around it. `fonts`: None for those of the machine."""

    program: Path
    libraries: tuple[Path, ...] = ()
    fonts: Path | None = None

    def environment(self, scratch: Path) -> dict[str, str]:
        """Return the environment to start it in; `scratch`: a directory that is there as long as it runs."""
        environment = dict(os.environ)
        if self.libraries:
            paths = [*map(str, self.libraries), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
            environment["LD_LIBRARY_PATH"] = os.pathsep.join(paths)
        if self.fonts is not None:
            file = scratch / "fonts.conf"
            file.write_text(_FONTS.format(fonts=self.fonts, cache=scratch / "fonts"))
            environment["FONTCONFIG_FILE"] = str(file)
        return environment


def find_chromium(*, fetch: bool = True) -> Chromium:
    """The Chromium that tests start. Raises ServerUnavailable where there is none, or it does not run."""
    if named := os.environ.get(VARIABLE):
        return _checked(Chromium(Path(named)), f"look at {VARIABLE}")
    name = f"chromium-{platform.machine()}"
    tree = cache_directory() / name
    if not tree.is_dir():
        if not (fetch and debian.is_debian()):
            raise ServerUnavailable("no Chromium", hint=f"set {VARIABLE} to the path of one")
        debian.unpack(name, _PACKAGES)
    places = debian.shared_object_places(tree)
    libraries = (
        *places,
        *(sound for place in places for sound in place.glob("pulseaudio")),
    )  # no path of its own leads there
    return _checked(Chromium(tree / _PROGRAM, libraries, tree / "usr/share/fonts"), f"remove {tree}")


def _checked(found: Chromium, hint: str) -> Chromium:
    environment = (
        os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(map(str, found.libraries))} if found.libraries else None
    )
    missing = _why_not(found.program, environment)
    if missing:
        raise ServerUnavailable(f"{found.program} does not run: {missing}", hint=hint)
    return found


def _why_not(program: Path, environment: Mapping[str, str] | None) -> str:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, env=environment, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr or done.stdout).strip()[-300:] if done.returncode else ""
