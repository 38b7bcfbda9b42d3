"""The embedded Valkey 9 for Celery and Channels: its configuration, its command line, whether it answers.

The password stands in a file that only its user can read, since argument lists are visible to everybody on the machine.
"""

import os
import pwd
import socket

from roundtrip_up.embedded.unprivileged import Place
from roundtrip_up.folders import write_private
from roundtrip_up.ports import HOST
from roundtrip_up.process import Program

CONFIGURATION = """\
# Written anew at every start.
bind {host}
port {port}
requirepass {password}
dir ./
appendonly yes
appendfsync everysec
save ""
maxmemory 256mb
maxmemory-policy noeviction
loglevel warning
"""


class Valkey:
    """One server in `place.valkey_data`, which runs as `place.user`."""

    name = "valkey"

    def __init__(self, place: Place, port: int, password: str) -> None:
        self.place, self.port, self.password = place, port, password

    def url(self, number: int) -> str:
        """The URL of one of its numbered databases."""
        return f"redis://:{self.password}@{HOST}:{self.port}/{number}"

    def program(self) -> Program:
        return Program(
            self.name,
            (str(self.place.valkey_program), "valkey.conf"),
            env={"PATH": os.defpath, "LC_ALL": "C"},
            cwd=self.place.valkey_data,
            user=self.place.user,
            grace_seconds=15.0,
            rank=20,
        )

    def prepare(self) -> None:
        """Write its configuration."""
        file = self.place.valkey_data / "valkey.conf"
        entry = pwd.getpwnam(self.place.user) if self.place.user is not None else None
        owner = (entry.pw_uid, entry.pw_gid) if entry is not None else None
        write_private(file, CONFIGURATION.format(host=HOST, port=self.port, password=self.password), owner)

    def is_ready(self, _pid: int) -> bool:
        """Whether it answers to our password (while it loads its file, it answers otherwise)."""
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2 and (part := connection.recv(1024)):
                    answer += part
        except OSError:
            return False
        return answer == b"+OK\r\n+PONG\r\n"

    def after_ready(self) -> None:
        """Nothing to do."""
