"""Who may touch what. Each test is one sentence of docs/architecture.md, read from the source."""

import ast
import functools
import re

from tests.house.source import FLOORS, ROOT, called, modules, place

SQL_CALLS = {"execute", "executemany", "copy", "cursor", "raw", "extra", "RawSQL", "RunSQL"}
SAYS_SQL = re.compile(r"\bSQL\b")

STATE_WRITERS = {
    "tasks/engine/lifecycle.py",
    "tasks/engine/unit_of_work.py",
    "tasks/engine/writing.py",
    "delivery/lifecycle.py",
    "delivery/engine/claims.py",
    "delivery/maintenance/sweeps.py",
}
STATE_INSERTERS = {"tasks/submit.py", "tasks/external/starting.py", "delivery/replays.py", "delivery/events.py"}
STATEFUL = re.compile(r"\b(Task|Delivery|ExternalJob)\.objects\b")
WRITES = {"update", "bulk_update", "update_or_create", "get_or_create"}

SOCKET_MODULES = {"socket", "ssl", "pycurl", "requests", "urllib3", "http.client", "urllib.request", "httpx"}
SOCKET_MODULES |= {"aiohttp", "smtplib", "ftplib", "telnetlib", "websockets"}
MAY_OPEN = {
    "delivery/engine/transport/transfer.py",
    "delivery/engine/transport/handles.py",
    "delivery/engine/transport/reactor.py",
    "delivery/engine/transport/connections.py",  # looks at the kept ones, and closes them
    "delivery/engine/transport/results.py",  # libcurl's numbers for what went wrong
    "kernel/network/http.py",
    "kernel/network/lookup.py",
    "console/health/doctor/address.py",  # asks whether we are reachable from outside
    "console/management/commands/bootstrap_demo.py",  # waits for the sandbox that it has just been told of
}
NO_CALLS = {  # names, certificates and exceptions: nothing of these opens a connection
    "delivery/engine/drain.py": {"socket.gethostname"},
    "console/health/heartbeat.py": {"socket.gethostname"},
    "delivery/checks.py": {"ssl.create_default_context", "ssl.SSLError"},
    "delivery/endpoint_rules.py": {"ssl.create_default_context", "ssl.SSLContext", "ssl.SSLError"},
    "tasks/providers/sandbox/client.py": {"requests.Response", "requests.RequestException", "requests.Session"},
}


OWN_ADDRESSES = (
    "tasks/providers/",
    "config/asgi.py",
)  # a provider's; lanes are chosen before Django knows its addresses


def test_sql_by_hand_stands_only_in_files_whose_first_line_says_so():
    found = [
        place(module, call)
        for module in modules()
        if not SAYS_SQL.search(module.first_line)
        for call in module.nodes(ast.Call)
        if called(call) in SQL_CALLS and _is_sql(call)
    ]
    assert not found, f"say 'SQL' in the first line of the docstring, or use the ORM: {found}"


def _is_sql(call: ast.Call) -> bool:
    """`copy` and `extra` of other things are none, nor is a command; a cursor and a text that is executed are."""
    words = ast.unparse(call.func)
    if words == "super().execute" and any(keyword.arg is None for keyword in call.keywords):
        return False  # `manage.py`'s, which takes options
    return called(call) in {"execute", "executemany", "raw", "RawSQL", "RunSQL"} or words.endswith("connection.cursor")


def test_states_are_written_only_by_the_lifecycles_the_claims_and_the_sweeps():
    found = []
    for module in modules():
        if module.name in STATE_WRITERS or module.floor not in {"tasks", "delivery", "webhooks", "console"}:
            continue
        for call in module.nodes(ast.Call):
            if called(call) in WRITES and _names_state(call) and STATEFUL.search(ast.unparse(call)):
                found.append(place(module, call))
    assert not found


def test_rows_with_a_state_are_made_only_where_work_comes_in():
    made = {
        module.name
        for module in modules()
        for call in module.nodes(ast.Call)
        if called(call) in {"Task", "Delivery", "ExternalJob"} and _names_state(call)
    }
    assert made <= STATE_INSERTERS | STATE_WRITERS


def test_no_text_of_sql_writes_a_state_elsewhere():
    tables = "tasks_task|tasks_externaljob|delivery_delivery"
    update = re.compile(rf"UPDATE\s+({tables})\b(?:(?!WHERE|RETURNING).)*?(?:SET|,)\s+state\s*=", re.I | re.S)
    found = {module.name for module in modules() for text in module.strings() if update.search(text.value)}
    assert found <= STATE_WRITERS


def _names_state(call: ast.Call) -> bool:
    return any(keyword.arg == "state" for keyword in call.keywords)


def test_a_state_is_assigned_to_a_row_only_through_its_unit_of_work():
    found = [
        place(module, node)
        for module in modules()
        if module.floor in {"tasks", "webhooks", "console"} and module.name not in STATE_WRITERS
        for node in module.nodes(ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and target.attr == "state" and ast.unparse(target.value) in {"task", "job"}
    ]
    assert not found


def test_connections_are_opened_only_by_the_transfer_and_by_the_one_client():
    found = []
    for module in modules():
        if module.name in MAY_OPEN:
            continue
        for name, node in _network_names(module):
            if name not in NO_CALLS.get(module.name, set()):
                found.append(f"{place(module, node)} {name}")
    assert not found, f"call kernel.network.http.call, or say here why this opens nothing: {found}"


def _network_names(module):
    """(`socket.create_connection`, where) for every use of a module that can open a connection."""
    known = {}
    for node in module.nodes(ast.Import):
        known |= {(one.asname or one.name): one.name for one in node.names if one.name in SOCKET_MODULES}
    for node in module.nodes(ast.ImportFrom):
        if (node.module or "").split(".")[0] in SOCKET_MODULES or node.module in SOCKET_MODULES:
            yield from ((f"{node.module}.{one.name}", node) for one in node.names)
    for node in module.nodes(ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in known:
            yield f"{known[node.value.id]}.{node.attr}", node


def test_no_floor_names_a_worker_of_a_floor_above_it():
    names = _worker_names()
    assert {"delivery.drain", "tasks.start", "webhooks.sweep_inbox", "console.run_operations"} <= names
    found = [
        f"{place(module, text)} {text.value}"
        for module in modules()
        for text in module.strings()
        if text.value in names and FLOORS.index(text.value.split(".")[0]) < FLOORS.index(module.floor)
    ]
    assert not found


def test_a_worker_is_named_in_one_place_of_its_floor():
    spelled: dict[str, set[str]] = {}
    for module in modules():
        if module.floor != "config":  # the routes of the queues
            for text in module.strings():
                if text.value in _worker_names():
                    spelled.setdefault(text.value, set()).add(module.name)
    assert {name: places for name, places in spelled.items() if len(places) > 1} == {}


@functools.cache
def _worker_names() -> set[str]:
    """What `@shared_task(name=…)` says, by text or by a constant of the floor's `wake` module."""
    constants = {
        target.id: node.value.value
        for module in modules()
        if module.name.endswith("/wake.py")
        for node in module.nodes(ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant)
    }
    names = set()
    for module in modules():
        for call in module.nodes(ast.Call):
            if called(call) == "shared_task":
                given = next(keyword.value for keyword in call.keywords if keyword.arg == "name")
                last = getattr(given, "attr", getattr(given, "id", ""))
                names.add(given.value if isinstance(given, ast.Constant) else constants[last])
    return names


def test_a_step_of_a_task_is_made_in_one_place_which_names_its_batch():
    """`Transition.of`; a step that names none is missing on its batch's page."""
    found = [
        place(module, call)
        for module in modules()
        for call in module.nodes(ast.Call)
        if ast.unparse(call.func).endswith(("Transition", "Transition.objects.create"))
    ]
    assert not found, f"use Transition.of(task, …): {found}"


def test_no_module_or_template_spells_an_address_of_a_page():
    page = re.compile(r"^/(admin|batches|dead-letters|journeys|alerts|operations|metrics|healthz|readyz)(/|$|#|\?)")
    found = [
        f"{place(module, text)} {text.value}"
        for module in modules()
        for text in module.strings()
        if page.match(text.value) and not module.name.startswith(OWN_ADDRESSES)
    ]
    attribute = re.compile(r'(?:href|action|src|data-live-href)="(/[a-z][^"]*)"')
    for template in sorted((ROOT / "templates").rglob("*.html")):
        found += [f"{template.relative_to(ROOT)} {spelled}" for spelled in attribute.findall(template.read_text())]
    assert not found, f"use reverse(), {{% url %}} or {{% address %}}: {found}"
