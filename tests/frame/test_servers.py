"""The embedded PostgreSQL and Valkey, for real: passwords, whose files, restart, kill -9, odd and closed folders."""

import contextlib
import os
import pwd
import shutil
import signal
import stat
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from roundtrip_up import orphan_processes, venv
from roundtrip_up.embedded import scratch, servers, unprivileged
from roundtrip_up.embedded.postgres import FORGETFUL
from roundtrip_up.folders import open_data

from tests.frame.conftest import is_alive

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the servers' user")


@pytest.fixture(scope="module")
def programs() -> venv.Venv:
    found = venv.programs_of(Path(sys.executable))
    return venv.Venv(Path(sys.executable), Path(found["postgres"]), Path(found["valkey"]))


@pytest.fixture(scope="module")
def running(programs):
    """Both servers in a folder whose path has a space and is long."""
    with scratch.data_folder() as data:
        folder = data.folder / "a folder" / ("long " * 20).strip()
        folder.parent.mkdir(mode=0o711)
        inside = open_data(folder)
        with servers.running(inside, servers.plan(inside, programs, {}, settings=FORGETFUL)) as run:
            yield run


def broker(run: servers.Running) -> redis.Redis:
    return redis.Redis.from_url(run.urls["CELERY_BROKER_URL"])


def test_both_answer_in_a_long_path_with_a_space(running):
    with psycopg.connect(running.urls["DATABASE_URL"]) as connection:
        assert connection.execute("SHOW server_version_num").fetchone()[0].startswith("18")
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
        assert connection.execute("SELECT lower('ÅLESUND ŁÓDŹ')").fetchone() == ("ålesund łódź",)
    assert broker(running).info("server")["valkey_version"].startswith("9.")


def test_without_the_password_nobody_gets_in(running):
    url = running.urls["DATABASE_URL"]
    password = url.split(":")[2].split("@")[0]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url.replace(password, "guess"))
    server = running.servers.embedded[1]
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0)).ping()


def test_no_password_stands_in_an_argument_list(running):
    for name, password in (
        ("postgres", running.servers.embedded[0].password),
        ("valkey", running.servers.embedded[1].password),
    ):
        assert password.encode() not in Path(f"/proc/{running.pid(name)}/cmdline").read_bytes()


def test_the_broker_refuses_rather_than_forgets(running):
    settings = broker(running).config_get("*")
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["appendonly"] == "yes"


@ROOT_ONLY
def test_started_by_root_the_servers_run_as_an_ordinary_user(running):
    user = pwd.getpwnam(unprivileged.server_user())
    assert user.pw_uid != 0
    for name in ("postgres", "valkey"):
        words = Path(f"/proc/{running.pid(name)}/status").read_text()
        assert f"Uid:\t{user.pw_uid}\t{user.pw_uid}\t{user.pw_uid}\t{user.pw_uid}" in words
        folder = running.data.folder / name
        assert folder.stat().st_uid == user.pw_uid
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(running.data.secrets.stat().st_mode) == 0o600


def test_what_was_committed_survives_a_stop_and_kill_9(running):
    with psycopg.connect(running.urls["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (n int)")
    for number in (None, signal.SIGKILL):
        with psycopg.connect(running.urls["DATABASE_URL"], autocommit=True) as connection:
            connection.execute("INSERT INTO kept VALUES (1)")
        broker(running).rpush("kept", "1")
        before = running.pid("postgres"), running.pid("valkey")
        # appendfsync everysec: only the machine's crash could take the last second, not the process's.
        running.stop("postgres", number)
        running.stop("valkey", number)
        assert not any(is_alive(pid) for pid in before)
        running.start("postgres")
        running.start("valkey")
    with psycopg.connect(running.urls["DATABASE_URL"]) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (2,)
    assert broker(running).llen("kept") == 2


def test_a_pid_file_that_names_a_stranger_does_not_keep_postgres_down(running):
    running.stop("postgres")
    cluster = running.servers.embedded[0].cluster
    (cluster / "postmaster.pid").write_text(f"{os.getpid()}\n{cluster}\n1\n1\n\n127.0.0.1\n1 1\nready\n")
    running.start("postgres")
    assert is_alive(running.pid("postgres"))


def test_a_postmaster_that_nobody_recorded_is_ended(running):
    pid = running.pid("postgres")
    assert orphan_processes.end_or_forget_postmaster(running.servers.embedded[0].cluster)
    running.stop("postgres")
    assert not is_alive(pid)
    running.start("postgres")


def test_an_interrupted_initdb_is_begun_again(programs):
    with scratch.data_folder() as data:
        plan = servers.plan(
            data, programs, {"CELERY_BROKER_URL": "redis://h/0", "CHANNEL_LAYER_URL": "redis://h/1"}, settings=FORGETFUL
        )
        (postgres,) = plan.embedded
        half = postgres.place.postgres_data / "making"
        half.mkdir()
        (half / "PG_VERSION").write_text("18\n")
        if postgres.place.user:
            shutil.chown(half, postgres.place.user)
        with servers.running(data, plan) as run:
            assert is_alive(run.pid("postgres"))


def test_servers_that_the_environment_names_are_not_started(tmp_path, programs):
    data = open_data(tmp_path / "data")
    environ = {
        "DATABASE_URL": "postgresql://elsewhere/x",
        "CELERY_BROKER_URL": "amqp://elsewhere",
        "CHANNEL_LAYER_URL": "redis://elsewhere/1",
    }
    plan = servers.plan(data, programs, environ)
    assert plan.embedded == ()
    assert plan.urls == environ


@ROOT_ONLY
def test_a_closed_folder_stays_closed_and_the_servers_live_elsewhere(tmp_path, programs, monkeypatch):
    """As in a clone below /root: neither programs nor data can be reached by the servers' user."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    site = closed / "site-packages"
    package = programs.postgres.parent
    shutil.copytree(programs.postgres, site / package.name / programs.postgres.name, symlinks=True)
    shutil.copytree(package.parent / f"{package.name}.libs", site / f"{package.name}.libs", symlinks=True)
    shutil.copy2(programs.valkey, site / "valkey-server")
    hidden = venv.Venv(programs.python, site / package.name / programs.postgres.name, site / "valkey-server")
    elsewhere = Path(tempfile.mkdtemp(prefix="roundtrip-elsewhere-"))
    elsewhere.chmod(0o755)
    monkeypatch.setattr(unprivileged, "ELSEWHERE", (elsewhere,))
    try:
        data = open_data(closed / "var")
        for _ in range(2):
            plan = servers.plan(data, hidden, {}, settings=FORGETFUL)
            with servers.running(data, plan) as run, psycopg.connect(run.urls["DATABASE_URL"]) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS kept ()")
                assert broker(run).ping()
        place = plan.embedded[0].place
        assert place.postgres_programs.is_relative_to(elsewhere)
        assert (data.folder / "postgres").resolve() == place.postgres_data.resolve()
        assert stat.S_IMODE(place.postgres_data.stat().st_mode) == 0o700
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
        assert not [path for path in elsewhere.glob("programs-*/**/*") if path.stat().st_uid != 0]
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(elsewhere)


def superuser_of(run: servers.Running, password: str = "") -> str:
    server = run.servers.embedded[0]
    secret = password or server.superuser_password
    return run.urls["DATABASE_URL"].replace(f"roundtrip_app:{server.password}", f"roundtrip:{secret}")


def test_the_product_owns_its_database_and_may_do_nothing_beyond_it(running):
    with psycopg.connect(running.urls["DATABASE_URL"], autocommit=True) as connection:
        rights = connection.execute(
            "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls FROM pg_roles"
            " WHERE rolname = current_user"
        ).fetchone()
        assert rights == (False,) * 5
        connection.execute("CREATE TABLE ours (id int); DROP TABLE ours")
        for forbidden in (
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "SELECT pg_read_file('PG_VERSION')",
            "CREATE DATABASE x",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden)


def test_a_data_folder_whose_product_was_the_superuser_is_handed_over_at_the_next_start(running):
    server = running.servers.embedded[0]
    with psycopg.connect(superuser_of(running), autocommit=True) as before:
        before.execute("ALTER DATABASE roundtrip OWNER TO roundtrip")
        before.execute("DROP OWNED BY roundtrip_app")
        before.execute("DROP ROLE roundtrip_app")
        before.execute("CREATE TABLE old (id bigint GENERATED ALWAYS AS IDENTITY, day date) PARTITION BY RANGE (day)")
        before.execute("CREATE TABLE old_1 PARTITION OF old FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')")
        before.execute("CREATE VIEW seen AS SELECT id FROM old")
        before.execute("CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1'")
        before.execute("INSERT INTO old (day) VALUES ('2026-05-05')")
        before.execute(f"ALTER ROLE roundtrip PASSWORD '{server.password}'")
    server.after_ready()
    server.after_ready()  # and every start after that changes nothing
    with psycopg.connect(running.urls["DATABASE_URL"], autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM seen").fetchone() == (1,)
        connection.execute("ALTER TABLE old ADD COLUMN n int; ALTER TABLE old_1 SET (fillfactor = 90)")
        connection.execute("DROP VIEW seen; DROP FUNCTION one; DROP TABLE old")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(superuser_of(running, server.password))
