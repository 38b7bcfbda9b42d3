"""The embedded PostgreSQL 18: its cluster, its command line, its readiness. Loopback TCP, scram, no socket file."""

import os
import pwd
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from roundtrip_up.embedded.unprivileged import Place
from roundtrip_up.folders import NEEDED_BYTES
from roundtrip_up.orphan_processes import end_or_forget_postmaster
from roundtrip_up.ports import HOST
from roundtrip_up.process import Program
from roundtrip_up.refusal import Refusal

MAJOR = "18"
SUPERUSER = DATABASE = "roundtrip"  # only this module ever logs in as it
ROLE = "roundtrip_app"  # what the product logs in as: owns the database, and may do nothing beyond it
SMALL = {
    "shared_buffers": "128MB",
    "max_connections": "100",
    "max_wal_size": "1GB",
    "jit": "off",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "log_line_prefix": "%b ",
}
DURABLE = {**SMALL, "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
# For tests: only the machine's own crash loses something. synchronous_commit stays on, or a killed server would, too.
FORGETFUL = {**SMALL, "fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"}


# Passwords come from the environment: neither an argument list nor our own text holds one.
OWN_PASSWORD = f"""\\getenv own ROUNDTRIP_SUPERUSER_PASSWORD
ALTER ROLE {SUPERUSER} PASSWORD :'own';
"""
ROLES = """\\getenv password ROUNDTRIP_ROLE_PASSWORD
SELECT 'CREATE ROLE {role}' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') \\gexec
ALTER ROLE {role} LOGIN NOCREATEROLE NOREPLICATION NOBYPASSRLS {rights} PASSWORD :'password';
SELECT 'CREATE DATABASE {database} OWNER {role}'
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '{database}') \\gexec
ALTER DATABASE {database} OWNER TO {role};
"""
# Tables and functions of a data folder from before the product had a role of its own. Partitions are named one by one;
# a column's sequence follows its table; what an extension brought stays the superuser's.
HAND_OVER = f"""SET search_path = pg_catalog;
SELECT format('ALTER %s %s OWNER TO {ROLE}',
              CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                           ELSE 'TABLE' END, c.oid::regclass)
  FROM pg_class c
 WHERE relkind IN ('r', 'p', 'v', 'm', 'S') AND relowner = '{SUPERUSER}'::regrole AND c.oid >= 16384
   AND relnamespace::regnamespace::text !~ '^(pg_|information_schema)'
   AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid
                      AND (deptype = 'e' OR (relkind = 'S' AND deptype IN ('a', 'i')))) \\gexec
SELECT format('ALTER ROUTINE %s OWNER TO {ROLE}', p.oid::regprocedure)
  FROM pg_proc p
 WHERE proowner = '{SUPERUSER}'::regrole AND p.oid >= 16384
   AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
 \\gexec
"""


class Postgres:
    """One cluster in `place.postgres_data`. It runs as `place.user`; every file of it belongs to that user."""

    name = "postgres"

    def __init__(
        self,
        place: Place,
        port: int,
        passwords: tuple[str, str],
        settings: Mapping[str, str] = DURABLE,
        rights: str = "NOSUPERUSER NOCREATEDB",
    ) -> None:
        """`passwords`: the superuser's and the role's. `rights`: what the role may beyond its own database, in SQL."""
        self.place, self.port, self.settings, self.rights = place, port, dict(settings), rights
        self.superuser_password, self.password = passwords
        self.cluster = place.postgres_data / MAJOR
        self._bin = place.postgres_programs / "bin"
        self._env = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}:{self.password}@{HOST}:{self.port}/{DATABASE}"

    def program(self) -> Program:
        """SIGINT is PostgreSQL's fast shutdown: sessions are ended, everything committed is kept."""
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **self.settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Program(
            self.name,
            (str(self._bin / "postgres"), "-D", str(self.cluster), *options),
            env=self._env,
            cwd=self.place.postgres_data,
            user=self.place.user,
            stop_signal=signal.SIGINT,
            grace_seconds=30.0,
            rank=30,
        )

    def prepare(self) -> None:
        """Make the cluster if there is none, and deal with a server that is left in it. Refusal when that fails."""
        if self.cluster.exists():
            end_or_forget_postmaster(self.cluster)
            return
        with tempfile.NamedTemporaryFile("w", dir=self.place.postgres_data, prefix=".password-") as file:
            file.write(self.superuser_password)
            file.flush()
            if self.place.user is not None:
                entry = pwd.getpwnam(self.place.user)
                os.fchown(file.fileno(), entry.pw_uid, entry.pw_gid)
            self._initdb(Path(file.name))

    def _initdb(self, password_file: Path) -> None:
        """Into a folder beside, then renamed: an interrupted initdb leaves nothing that looks like a cluster."""
        making = self.place.postgres_data / "making"
        if making.exists():
            self._run("/bin/rm", "-rf", "--", str(making))
        made = self._run(
            str(self._bin / "initdb"), "-D", str(making), "-U", SUPERUSER, "--pwfile", str(password_file),
            "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C",
            "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--no-instructions",
        )  # fmt: skip
        if made.returncode:
            raise _explain(made.stdout + made.stderr, self.place.postgres_data)
        making.rename(self.cluster)

    def is_ready(self, pid: int) -> bool:
        """Whether the postmaster with this id takes connections: the last line of postmaster.pid says so."""
        try:
            lines = (self.cluster / "postmaster.pid").read_text(errors="replace").splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def after_ready(self) -> None:
        """Make the product's role and database where they are missing, and hand over what an older folder holds."""
        roles = ROLES.format(role=ROLE, database=DATABASE, rights=self.rights)
        done = self._sql("postgres", roles)
        if done.returncode and "password authentication failed" in done.stderr:
            self._take_own_password()
            done = self._sql("postgres", roles)
        if not done.returncode:
            done = self._sql(DATABASE, HAND_OVER)
        if done.returncode:
            raise _explain(done.stderr, self.place.postgres_data)

    def _take_own_password(self) -> None:
        """Once the product itself logged in as the superuser: from now on that one has a password of its own."""
        changed = self._sql("postgres", OWN_PASSWORD, PGPASSWORD=self.password)
        if changed.returncode:
            raise _explain(changed.stderr, self.place.postgres_data)

    def _sql(self, database: str, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        passwords = {
            "PGPASSWORD": self.superuser_password,
            "ROUNDTRIP_SUPERUSER_PASSWORD": self.superuser_password,
            "ROUNDTRIP_ROLE_PASSWORD": self.password,
        }
        return self._run(
            str(self._bin / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", HOST, "-p", str(self.port),
            "-U", SUPERUSER, "-d", database, "-f", "-", text=script, **{**passwords, **env},
        )  # fmt: skip

    def _run(self, *argv: str, text: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        identity: dict = {}
        if self.place.user is not None:
            entry = pwd.getpwnam(self.place.user)
            identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        return subprocess.run(
            argv, cwd=self.place.postgres_data, env={**self._env, **env}, input=text, capture_output=True,
            text=True, errors="replace", **identity,
        )  # fmt: skip


def _explain(output: str, folder: Path) -> Refusal:
    if "No space left" in output:
        return Refusal(
            f"The disk is full at {folder}. Free {NEEDED_BYTES // 2**20} MB, or choose another folder with --data DIR."
        )
    words = (
        [line for line in output.splitlines() if "error" in line.lower() or "FATAL" in line]
        or output.splitlines()
        or ["no output"]
    )
    return Refusal(f"PostgreSQL could not be set up in {folder}: {words[-1].strip()}. Try an empty folder: --data DIR.")
