"""What bin/up, bin/test and bin/bench say when they cannot go on, and the files that only the owner reads."""

import fcntl
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from roundtrip_up import demo, ports, process_table, testing
from roundtrip_up.embedded.servers import not_ready
from roundtrip_up.folders import ROOT, open_data
from roundtrip_up.refusal import Refusal, about_folder
from roundtrip_up.secrets_store import secrets_of
from roundtrip_up.supervisor import Backoff
from roundtrip_up.venv import _explain

from config.environment import VARIABLES


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "bin" / argv[0]), *argv[1:]], capture_output=True, text=True, env={**os.environ, **env}, timeout=60
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert not done.stdout.strip()
    return lines[0]


def test_a_taken_port_is_named_with_a_free_one(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = one_line(run("up", "--port", str(port), "--data", str(tmp_path / "data")))
    assert line.startswith(f"bin/up: Port {port} is taken. Stop what listens there, or start with --port ")
    assert ports.is_free(int(line.rstrip(".").split()[-1]))


def test_a_second_start_on_the_same_data_says_who_is_there(tmp_path):
    data = open_data(tmp_path / "my data")
    with data.lock.open("w") as lock:
        lock.write("process 4711, http://127.0.0.1:8000\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        line = one_line(run("up", "--data", str(data.folder)))
    assert "already runs on" in line and "process 4711, http://127.0.0.1:8000" in line and "--port 8010" in line
    assert line.endswith(f" --data '{data.folder}-2'")  # as it can be pasted into a shell


def test_a_data_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    assert "choose another folder with --data DIR" in one_line(run("up", "--data", str(tmp_path / "file" / "data")))


def test_a_full_disk_and_a_read_only_folder_have_words():
    full = about_folder(OSError(28, "No space left on device"), Path("/data"), "choose another folder with --data DIR")
    assert str(full) == "The disk is full at /data. Free some space, or choose another folder with --data DIR."
    read_only = about_folder(OSError(30, "Read-only file system"), Path("/data"), "choose another")
    assert "cannot be written to (Read-only file system)" in str(read_only)
    assert "disk is full" in not_ready("postgres", ["FATAL: could not write lock file: No space left on device"])


def test_too_little_room_is_said_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 30 * 2**20))
    with pytest.raises(Refusal, match="Only 30 MB are free on the disk of"):
        open_data(tmp_path / "data")


def test_without_a_python_one_line_says_what_to_install(tmp_path):
    empty = tmp_path / "bin"
    empty.mkdir()
    for name in ("dirname", "sh"):
        (empty / name).symlink_to(shutil.which(name))
    assert "Python 3.11 or later is needed" in one_line(run("up", PATH=str(empty), PYTHON=""))


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        ("NewConnectionError: Failed to establish a new connection: Temporary failure in name resolution", "Go online"),
        ("PermissionError: [Errno 13] Permission denied: '/x/.venv'", "folder that you own"),
        ("ERROR: No matching distribution found for x==1", "No matching distribution found for x==1"),
    ],
)
def test_what_pip_says_becomes_one_line(output, words):
    assert words in str(_explain(f"a\nb\n{output}\n", "The packages could not be installed"))


def test_an_unknown_bench_lists_those_there_are():
    assert "start" in one_line(run("bench", "no_such_bench"))


@pytest.mark.parametrize("arguments", [("--port", "eighty"), ("--port", "0"), ("--workers", "0"), ("--nonsense",)])
def test_arguments_are_checked(arguments):
    done = run("up", *arguments)
    assert done.returncode == 2
    assert "usage: bin/up" in done.stderr


def test_demo_json_has_its_keys_and_is_for_the_owner_alone(tmp_path):
    data = open_data(tmp_path / "data")
    kept = secrets_of(data)
    urls = {"DATABASE_URL": "postgresql://d", "CELERY_BROKER_URL": "redis://b", "CHANNEL_LAYER_URL": "redis://c"}
    addresses = process_table.Addresses(8000, 21000)
    demo.write_files(data, addresses, process_table.settings(addresses, kept, urls, {}))
    found = json.loads(data.demo.read_text())
    assert list(found) == [
        "url", "api_key", "admin_username", "admin_password",
        "provider_url", "receiver_url", "database_url", "broker_url",
    ]  # fmt: skip
    assert found["url"] == "http://127.0.0.1:8000"
    assert found["database_url"] == "postgresql://d"
    for path in (data.demo, data.secrets, data.folder / "roundtrip.env"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_are_random_for_each_data_folder_and_stay(tmp_path):
    one, other = open_data(tmp_path / "one"), open_data(tmp_path / "other")
    first = secrets_of(one)
    assert secrets_of(one) == first
    assert not {name for name, value in secrets_of(other).items() if value == first[name]} - {"admin_username"}
    assert first["secret_key"].startswith("demo-")


def test_what_the_environment_says_wins_over_what_we_would_say():
    kept = dict.fromkeys(("secret_key", "master_keys", "admin_username", "admin_password", "api_key"), "ours")
    environ = {"PUBLIC_BASE_URL": "https://jobs.example.com", "SECRET_KEY_FILE": "/run/secrets/key"}
    told = process_table.settings(process_table.Addresses(8000), kept, {}, environ)
    assert told["PUBLIC_BASE_URL"] == "https://jobs.example.com"
    assert "SECRET_KEY" not in told
    assert not [name for name in told if name.startswith("SANDBOX_")]


def test_whatever_the_product_knows_is_told_to_manage_py_too():
    kept = dict.fromkeys(("secret_key", "master_keys", "admin_username", "admin_password", "api_key"), "ours")
    environ = {"EVENT_RETENTION_DAYS": "365", "DELIVERY_PROXY_URL_FILE": "/run/secrets/proxy", "HOME": "/h"}
    told = process_table.settings(process_table.Addresses(8000), kept, {}, environ)
    assert (told["EVENT_RETENTION_DAYS"], told["DELIVERY_PROXY_URL_FILE"]) == ("365", "/run/secrets/proxy")
    assert "HOME" not in told


def test_the_declared_variables_are_those_of_the_product():
    assert process_table.declared() == {variable.name for variable in VARIABLES}


def test_ports_are_remembered_while_they_are_free(tmp_path):
    data = open_data(tmp_path / "data")
    first = ports.remembered(data, ("postgres", "valkey"), avoid=8000)
    assert ports.remembered(data, ("postgres", "valkey"), avoid=8000) == first
    with socket.create_server(("127.0.0.1", first["postgres"])):
        second = ports.remembered(data, ("postgres", "valkey"), avoid=8000)
    assert second["postgres"] != first["postgres"]
    assert second["valkey"] == first["valkey"]


def test_bin_test_does_not_take_the_servers_of_the_environment():
    environ = {
        "DATABASE_URL": "postgresql://production/x",
        "MASTER_KEYS_FILE": "/x",
        "ROUNDTRIP_ENV": "demo",
        "EVENT_RETENTION_DAYS": "1",
        "HOME": "/h",
    }
    assert testing.clean(environ) == {"HOME": "/h"}


def test_the_external_topology_needs_all_three_servers():
    with pytest.raises(Refusal, match="set CELERY_BROKER_URL, CHANNEL_LAYER_URL as well"):
        testing._external({"DATABASE_URL": "postgresql://x"})


def test_a_marker_is_asked_for_in_both_halves_of_the_suite():
    assert testing.marked(["-q", "-m", "integration", "-x"]) == ("(integration) and ", ["-q", "-x"])
    assert testing.marked(["-q"]) == ("", ["-q"])
    assert testing.marked(["tasks", "-m"]) == ("", ["tasks", "-m"])


def test_backoff_doubles_up_to_its_limit():
    assert [Backoff().delay(n) for n in (1, 2, 3, 6, 50)] == [1.0, 2.0, 4.0, 30.0, 30.0]


@pytest.mark.parametrize("command", [("help", "--commands"), ("spectacular",)])
def test_a_reader_who_has_enough_is_no_fault(command):
    argv = [sys.executable, str(ROOT / "manage.py"), *command]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, text=True, env=os.environ, timeout=60)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def environments(tmp_path, environ=None):
    """What each process of bin/up is given, by its name."""
    environ = {"PATH": "/bin", **(environ or {})}
    addresses = process_table.Addresses(8000, 21000)
    urls = {"DATABASE_URL": "postgresql://d", "CELERY_BROKER_URL": "redis://b", "CHANNEL_LAYER_URL": "redis://c"}
    product = process_table.settings(addresses, secrets_of(open_data(tmp_path / "data")), urls, environ)
    env = process_table.environment(product, environ)
    table = process_table.programs(Path("python"), addresses, 1, env)
    return {program.name: program.env for program in [*table, process_table.sandbox(Path("python"), addresses, env)]}


def test_the_sandbox_is_told_its_own_variables_and_no_secret_of_the_product(tmp_path):
    told = environments(tmp_path, {"SECRET_KEY_FILE": "/run/key", "MASTER_KEYS": "theirs", "LANG": "C"})["sandbox"]
    assert {name for name in told if name in process_table.declared()} == {
        "SANDBOX_PROVIDER_URL", "SANDBOX_RECEIVER_URL", "SANDBOX_PROVIDER_KEY", "SANDBOX_WEBHOOK_SECRET",
    } | {"SANDBOX_RECEIVER_SECRETS"} & process_table.declared()  # fmt: skip
    assert "SANDBOX_RECEIVER_SECRETS" in told and "SECRET_KEY_FILE" not in told
    assert (told["PATH"], told["LANG"]) == ("/bin", "C")


def test_no_process_holds_the_demos_login_and_beat_no_master_key(tmp_path):
    told = environments(tmp_path)
    assert set(told) == {"web", "worker-delivery-1", "worker-tasks", "beat", "sandbox"}
    assert not [name for env in told.values() for name in env if name.startswith("DEMO_")]
    assert {name for name, env in told.items() if "MASTER_KEYS" in env} == {"web", "worker-delivery-1", "worker-tasks"}
    assert {name for name, env in told.items() if "DATABASE_URL" not in env} == {"sandbox"}
    assert {name for name, env in told.items() if "SANDBOX_RECEIVER_SECRETS" in env} == {"sandbox"}


def test_the_end_of_the_start_says_where_the_password_is_and_never_what_it_is(tmp_path):
    data = open_data(tmp_path / "data")
    kept, addresses = secrets_of(data), process_table.Addresses(8000, 21000)
    product = process_table.settings(addresses, kept, {"DATABASE_URL": "d", "CELERY_BROKER_URL": "b"}, {})
    words = demo.banner(data, addresses, product, 1.0)
    assert f"login    demo; the password is in {data.demo} (admin_password)" in words
    assert not [name for name, secret in kept.items() if name != "admin_username" and secret in words]
