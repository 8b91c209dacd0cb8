"""A private SFTP server for tests: OpenSSH's, without root's rights, for one user and one key.

Its programs come from Debian. A server keeps keys, settings and log in one directory, and can be started again there.
"""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from anabranch.testing import debian
from anabranch.testing.cache import ServerUnavailable, cache_directory
from anabranch.testing.packages import Software
from anabranch.testing.processes import Daemon, Surroundings, give_away
from anabranch.testing.servers import free_port

_PACKAGES = (("openssh-server", "openssh-sftp-server", "openssh-client"),)
_SETTINGS = """ListenAddress 127.0.0.1
Port {port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp internal-sftp {options}
"""


@dataclass
class SftpServer:
    """A running server. `user` and `key` enter it, `host_key` is the fingerprint of its own key."""

    port: int
    user: str
    key: Path
    host_key: str
    daemon: Daemon

    def url(self, directory: str | Path, port: int = 0) -> str:
        """Return the URL of a trail in a directory of the server; `port`: that of a line to it."""
        place = f"{self.user}@127.0.0.1:{port or self.port}"
        return f"trail+sftp://{place}{directory}?key={self.key}&host_key={self.host_key.replace('+', '%2B')}"


def find_openssh() -> Software:
    """Find OpenSSH's server: of the machine, else Debian's, unpacked into the cache."""
    libraries: tuple[Path, ...] = ()
    tree = cache_directory() / f"openssh-{platform.machine()}"
    if (found := shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")) and shutil.which("ssh-keygen"):
        sshd = Path(found)
    elif debian.is_debian():
        sshd = debian.unpack(tree.name, _PACKAGES) / "usr/sbin/sshd"
        libraries = debian.shared_object_places(tree)
    else:
        raise ServerUnavailable("no SFTP server", hint="install openssh-server")
    return Software("openssh", "", tree, (sshd.parent, tree / "usr/bin", Path("/usr/bin")), libraries)


def start_sftp(directory: Path, options: str = "") -> SftpServer:
    """Start a server. `options`: of its program sftp-server, such as "-P hardlink" for one that does not know links."""
    directory = directory.resolve()
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    software = find_openssh()
    for name in ("host_key", "user_key"):
        if not (directory / name).exists():
            _checked(
                software, [str(software.program("ssh-keygen")), "-qt", "ed25519", "-N", "", "-f", str(directory / name)]
            )
            give_away(directory / name)
    (user_key := directory / "key").write_bytes((directory / "user_key").read_bytes())
    user_key.chmod(0o600)
    port = free_port()
    settings = directory / "sshd_config"
    settings.write_text(_SETTINGS.format(port=port, directory=directory, options=options))
    give_away(directory)
    surroundings = Surroundings(
        directory=directory, log=directory / "server.log", environment=software.environment(), reads=(software.home,)
    )
    daemon = Daemon(surroundings, [software.program("sshd"), "-D", "-e", "-f", settings], lambda pid: _answers(port))
    daemon.start()
    shown = _checked(software, [str(software.program("ssh-keygen")), "-lf", str(directory / "host_key.pub")]).split()[1]
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    return SftpServer(port, user, user_key, shown, daemon)


def _checked(software: Software, command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=software.environment())
    if done.returncode:
        raise ServerUnavailable(f"{Path(command[0]).name} failed: {done.stderr.strip()}")
    return done.stdout


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
