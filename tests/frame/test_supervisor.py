"""The supervisor with small programs of the tests' own: stop, order, restart, recovery."""

import json
import os
import signal
import time

import pytest

from tests.frame.conftest import is_alive, wait_until

SLEEPER = "print('here', __import__('os').getpid()); __import__('time').sleep(600)"
STUBBORN = (
    "import signal, time, os; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " print('here', os.getpid()); time.sleep(600)"
)
POLITE = (
    "import signal, sys, time, os\n"
    "def bye(*_):\n print('bye'); sys.exit(0)\n"
    "signal.signal(signal.SIGTERM, bye); print('here', os.getpid())\n"
    "time.sleep(600)"
)


def pid_in(line: str) -> int:
    return int(line.rpartition(" ")[2])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_clean_stop_leaves_no_process_and_no_record(supervised, tmp_path, number):
    run = supervised(f"[python('one', {SLEEPER!r}), python('two', {SLEEPER!r})]")
    pids = [pid_in(run.read_until("here")) for _ in range(2)]
    assert run.stop(number) == 0
    assert not any(is_alive(pid) for pid in pids)
    assert not (tmp_path / "data" / "processes.json").exists()
    assert "all stopped" in run.seen[-1]


def test_lower_ranks_stop_before_higher_ones(supervised):
    run = supervised(f"[python('base', {POLITE!r}, rank=30), python('web', {POLITE!r}), python('work', {POLITE!r})]")
    for _ in range(3):
        run.read_until("here")
    assert run.stop() == 0
    order = [line.split()[0] for line in run.seen if line.endswith("| bye")]
    assert sorted(order[:2]) == ["web", "work"] and order[2] == "base"


def test_whoever_outlasts_its_grace_is_killed_with_a_line(supervised):
    run = supervised(f"[python('deaf', {STUBBORN!r}, grace_seconds=0.3)]")
    pid = pid_in(run.read_until("here"))
    began = time.monotonic()
    assert run.stop() == 0
    assert time.monotonic() - began < 5
    assert not is_alive(pid)
    assert any("deaf did not stop in time; killing it" in line for line in run.seen)


def test_a_child_that_dies_comes_back_with_a_line_and_a_growing_delay(supervised):
    run = supervised("[python('fragile', 'raise SystemExit(3)')]")
    delays = [run.read_until("ended with status 3; starting it again in").split()[-2] for _ in range(3)]
    assert delays == ["0.1", "0.2", "0.4"]
    assert run.stop() == 0


def test_a_killed_child_comes_back(supervised):
    run = supervised(f"[python('one', {SLEEPER!r})]")
    first = pid_in(run.read_until("here"))
    os.kill(first, signal.SIGKILL)
    assert "one was ended by SIGKILL" in run.read_until("starting it again")
    assert pid_in(run.read_until("here")) != first
    assert run.stop() == 0


def test_a_program_that_is_missing_is_tried_again_and_does_not_end_the_others(supervised):
    run = supervised(f"[Program('ghost', ('/no/such/program',)), python('one', {SLEEPER!r})]")
    run.read_until("ghost could not be started")
    pid = pid_in(run.read_until("here"))
    run.read_until("ghost could not be started")
    assert is_alive(pid)
    assert run.stop() == 0


def test_a_childs_own_children_go_with_it(supervised):
    code = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '600']); print('here', p.pid); "
        "sys.stdout.flush(); time.sleep(0.2); raise SystemExit(1)"
    )
    run = supervised(f"[python('parent', {code!r})]")
    grandchild = pid_in(run.read_until("here"))
    run.read_until("starting it again")
    assert wait_until(lambda: not is_alive(grandchild))
    assert run.stop() == 0


def test_after_kill_9_of_the_supervisor_the_kernel_stops_its_children(supervised):
    run = supervised(f"[python('one', {POLITE!r})]")
    pid = pid_in(run.read_until("here"))
    run.process.kill()
    run.process.wait()
    assert wait_until(lambda: not is_alive(pid))


def test_after_kill_9_of_the_supervisor_the_next_start_ends_what_is_left(supervised, tmp_path):
    run = supervised(f"[python('deaf', {STUBBORN!r})]")
    pid = pid_in(run.read_until("here"))
    run.process.kill()
    run.process.wait()
    assert is_alive(pid)
    again = supervised(f"[python('one', {SLEEPER!r})]")
    again.read_until("ended deaf")
    again.read_until("all started")
    assert not is_alive(pid)
    assert list(json.loads((tmp_path / "data" / "processes.json").read_text())) == ["one"]
    assert again.stop() == 0


def test_a_recorded_id_that_now_belongs_to_somebody_else_is_left_alone(supervised, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    stranger = {"pid": os.getpid(), "started": "another boot:1", "stop_signal": 15, "rank": 0}
    (data / "processes.json").write_text(json.dumps({"web": stranger}))
    run = supervised("[]")
    run.read_until("all started")
    assert run.stop() == 0
    assert not any("ended web" in line for line in run.seen)


def test_a_console_that_nobody_reads_does_not_hold_the_children_up(supervised, tmp_path):
    chatty = "for n in range(40_000): print('x' * 60)\nprint('done')\nimport time; time.sleep(600)"
    run = supervised(f"[python('chatty', {chatty!r})]")
    log = tmp_path / "data" / "log" / "chatty.log"
    assert wait_until(lambda: log.exists() and log.read_bytes().endswith(b"done\n"), 20)
    run.process.send_signal(signal.SIGTERM)
    assert wait_until(lambda: run.process.poll() is not None, 10)


def test_idle_it_sleeps(supervised):
    run = supervised(f"[python('one', {SLEEPER!r})]")
    run.read_until("all started")
    run.read_until("here")
    ticks = lambda: sum(map(int, open(f"/proc/{run.process.pid}/stat").read().rpartition(")")[2].split()[11:13]))  # noqa: E731, SIM115
    before = ticks()
    time.sleep(1)
    assert ticks() - before <= 1
    assert run.stop() == 0
