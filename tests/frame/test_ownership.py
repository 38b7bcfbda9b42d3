"""bin/up on a folder that somebody else prepared: no symlink is followed, no foreign file written, no process ended."""

import json
import os
import pwd
import subprocess
from pathlib import Path

import pytest
from roundtrip_up import demo, orphan_processes, ports, process_table, venv
from roundtrip_up.embedded import scratch, unprivileged
from roundtrip_up.folders import ROOT, Data, open_data, open_lock, write_private
from roundtrip_up.logs import RotatingFile
from roundtrip_up.ownership import read_own
from roundtrip_up.process import start_time
from roundtrip_up.refusal import Refusal
from roundtrip_up.secrets_store import secrets_of

from tests.frame.conftest import is_alive

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root meets folders of others that it can write to")
NOBODY = pwd.getpwnam("nobody")
PRECIOUS = "what somebody wrote\n"
URLS = {"DATABASE_URL": "postgresql://d", "CELERY_BROKER_URL": "redis://b", "CHANNEL_LAYER_URL": "redis://c"}


@pytest.fixture
def data(tmp_path) -> Data:
    return open_data(tmp_path / "data")


@pytest.fixture
def precious(tmp_path) -> Path:
    file = tmp_path / "precious"
    file.write_text(PRECIOUS)
    return file


def give(path: Path) -> Path:
    os.lchown(path, NOBODY.pw_uid, NOBODY.pw_gid)
    return path


def up(data: Path) -> str:
    done = subprocess.run([str(ROOT / "bin" / "up"), "--data", str(data)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    return line


@ROOT_ONLY
def test_a_folder_of_somebody_else_is_refused_with_words_and_left_as_it_was(tmp_path, precious):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in (".writable", "lock", "log", "processes.json"):
        (folder / name).symlink_to(precious)
        give(folder / name)
    give(folder)
    line = up(folder)
    assert f"{folder} belongs to nobody, and you are root" in line
    assert "Start as nobody, or choose another folder with --data DIR" in line
    assert precious.read_text() == PRECIOUS
    assert sorted(path.name for path in folder.iterdir()) == [".writable", "lock", "log", "processes.json"]


def test_a_folder_that_others_may_write_to_is_refused(data):
    data.folder.chmod(0o757)
    with pytest.raises(Refusal, match="may be written to by other users"):
        open_data(data.folder)


def test_a_way_on_which_others_could_put_another_folder_is_refused(tmp_path):
    between = tmp_path / "between"
    between.mkdir()
    between.chmod(0o777)
    with pytest.raises(Refusal, match="who could put something else in the place of"):
        open_data(between / "data")
    between.chmod(0o1777)  # as /tmp: others may add, and take away only their own
    assert open_data(between / "data").log.is_dir()


@ROOT_ONLY
def test_a_symlink_of_somebody_else_on_the_way_is_refused(tmp_path, data):
    crowd = tmp_path / "crowd"
    crowd.mkdir()
    crowd.chmod(0o1777)
    link = crowd / "link"
    link.symlink_to(data.folder)
    assert open_data(link).lock == link / "lock"  # ours may lead where we like
    give(link)
    with pytest.raises(Refusal, match="belongs to nobody, who could put something else in the place of"):
        open_data(link)


@ROOT_ONLY
def test_a_folder_below_one_of_somebody_else_is_refused(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    give(theirs)
    with pytest.raises(Refusal, match="belongs to nobody, who could put something else in the place of"):
        open_data(theirs / "data")
    assert list(theirs.iterdir()) == []


def test_a_way_in_a_circle_is_refused(tmp_path):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(Refusal, match="leads in a circle"):
        open_data(tmp_path / "circle")


def _write_demo(data: Data) -> None:
    addresses = process_table.Addresses(8000, 21000)
    demo.write_files(data, addresses, process_table.settings(addresses, secrets_of(data), URLS, {}))


def _lock(data: Data) -> None:
    os.close(open_lock(data))


WRITERS = {
    ".writable": lambda data: open_data(data.folder),
    "lock": _lock,
    "log/web.log": lambda data: RotatingFile(data.log / "web.log").write(b"a line\n"),
    "secrets.json": secrets_of,
    "secrets.json.new": secrets_of,
    "ports.json": lambda data: ports.remembered(data, ("postgres",), avoid=8000),
    "ports.json.new": lambda data: ports.remembered(data, ("postgres",), avoid=8000),
    "demo.json": _write_demo,
    "demo.json.new": _write_demo,
    "roundtrip.env": _write_demo,
    "processes.json": lambda data: orphan_processes.Record(data.processes)._write(),
    "processes.json.new": lambda data: write_private(data.processes, "{}"),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_no_file_elsewhere_is_written_through_a_name_in_the_folder(data, precious, name, kind):
    getattr(data.folder / name, kind)(precious)
    try:
        WRITERS[name](data)
    except Refusal as refusal:
        assert name in str(refusal)
    assert precious.read_text() == PRECIOUS


def test_a_log_folder_that_leads_elsewhere_is_refused(data, tmp_path):
    data.log.rmdir()
    data.log.symlink_to(tmp_path)
    with pytest.raises(Refusal, match="cannot be written to"):
        open_data(data.folder)


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(data):
    os.mkfifo(data.lock)
    with pytest.raises(Refusal, match="cannot be written to"):
        open_lock(data)
    os.mkfifo(data.secrets)
    with pytest.raises(PermissionError, match="not a plain file of yours"):
        read_own(data.secrets)


# Processes


@pytest.fixture
def sleeper():
    """Starts a process somewhere, as somebody."""
    started = []

    def start(cwd, **more):
        started.append(subprocess.Popen(["sleep", "60"], cwd=cwd, **more))
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def record(data: Data, pid: int) -> Path:
    write_private(
        data.processes,
        json.dumps({"web": {"pid": pid, "started": start_time(pid), "stop_signal": 15, "rank": 0}}),
    )
    return data.processes


def test_a_recorded_process_that_works_in_the_clone_or_the_folder_is_ended(data, sleeper):
    for cwd in (ROOT, data.folder):
        pid = sleeper(cwd)
        assert orphan_processes.end_leftovers(record(data, pid), grace_seconds=5) == ["web"]
        assert not is_alive(pid)


def test_a_recorded_process_that_works_elsewhere_is_left_alone(data, sleeper, tmp_path):
    pid = sleeper(tmp_path)
    assert orphan_processes.end_leftovers(record(data, pid), grace_seconds=1) == []
    assert is_alive(pid)


@ROOT_ONLY
def test_a_recorded_process_of_another_user_is_left_alone(data, sleeper):
    pid = sleeper(ROOT, user=NOBODY.pw_uid, group=NOBODY.pw_gid, extra_groups=[])
    assert orphan_processes.end_leftovers(record(data, pid), grace_seconds=1) == []
    assert is_alive(pid)


@ROOT_ONLY
def test_a_record_that_somebody_else_wrote_ends_nothing(data, sleeper):
    pid = sleeper(ROOT)
    give(record(data, pid))
    assert orphan_processes.end_leftovers(data.processes, grace_seconds=1) == []
    assert is_alive(pid)


@pytest.mark.parametrize("text", ["[]", '{"web": 1}', '{"web": {"pid": "x"}}', "null", '{"web": {"pid": 1}}', "{"])
def test_a_record_that_is_none_ends_nothing_and_holds_no_start_up(data, text):
    write_private(data.processes, text)
    assert orphan_processes.end_leftovers(data.processes) == []
    assert not data.processes.exists()


def test_a_shell_that_stands_in_the_cluster_is_no_postmaster(tmp_path, sleeper):
    pid = sleeper(tmp_path)
    (tmp_path / "postmaster.pid").write_text(f"{pid}\n")
    assert orphan_processes.end_or_forget_postmaster(tmp_path) is False
    assert is_alive(pid)
    assert not (tmp_path / "postmaster.pid").exists()


# What lies outside


@ROOT_ONLY
@pytest.mark.parametrize("mode", [0o755, 0o777], ids=["of another", "open to all"])
def test_what_lies_in_a_folder_that_is_not_roots_alone_is_not_cleared(tmp_path, monkeypatch, mode):
    elsewhere = tmp_path / "elsewhere"
    inside = elsewhere / ("0" * 16)
    inside.mkdir(parents=True)
    (inside / "belongs-to").write_text("/tmp/gone\n")
    monkeypatch.setattr(unprivileged, "ELSEWHERE", (elsewhere,))
    monkeypatch.setattr(scratch, "ELSEWHERE", (elsewhere,))
    elsewhere.chmod(mode)
    if mode == 0o755:
        give(elsewhere)
    scratch.clear_outside()
    unprivileged.forget(Data(Path("/tmp/gone")), "0" * 16)
    assert (inside / "belongs-to").exists()


def test_an_instance_that_is_a_path_leads_nowhere(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "belongs-to").write_bytes(os.fsencode(tmp_path) + b"\n")
    monkeypatch.setattr(unprivileged, "ELSEWHERE", (tmp_path / "elsewhere",))
    unprivileged.forget(Data(tmp_path), "../precious")
    assert (tmp_path / "precious").exists()


# The venv


def test_the_stamp_of_the_venv_is_not_written_through_a_symlink(tmp_path, precious):
    for name in (venv.RUNTIME, venv.DEVELOPMENT):
        (tmp_path / name).write_text("")
    stamp = tmp_path / "roundtrip.json"
    stamp.symlink_to(precious)
    venv._Stamp(stamp).write(tmp_path, venv.RUNTIME, {})
    assert precious.read_text() == PRECIOUS
    assert venv._Stamp(stamp).fits(tmp_path, venv.RUNTIME)


def test_a_venv_that_is_a_symlink_is_never_emptied(tmp_path, precious):
    (tmp_path / ".venv").symlink_to(tmp_path)
    with pytest.raises(Refusal, match="is a symlink to something that is no venv"):
        venv._make(tmp_path / ".venv", False, lambda _text: None)
    assert precious.read_text() == PRECIOUS


@ROOT_ONLY
def test_the_venv_of_a_third_person_is_not_filled(tmp_path):
    give(tmp_path)
    with pytest.raises(Refusal, match="belongs to nobody"):
        venv._require_ours(tmp_path)
