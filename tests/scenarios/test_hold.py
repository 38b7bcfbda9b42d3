"""A receiver that refuses everybody, from the first 401 to the last delivery, and postbacks, on a whole system."""

import csv
import io

import psycopg
import pytest

from tests.e2e.system import System, wait_for
from tests.scenarios.load import Caller, all_arrived, arrived, endpoint, settled

pytestmark = pytest.mark.fault
CAP = 20
UNDER_WAY = ("pending", "in_flight")


def balance(system: System, subscriber: str) -> dict[str, int]:
    """The line of `account` for today; it must balance."""
    done = system.manage("account", "--csv", "--subscriber", subscriber)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    total = {name: sum(int(row[name]) for row in rows) for name in rows[0] if name not in ("day", "subscriber")}
    assert total["difference"] == 0, rows
    return total


def hold_and_heal(system: System, name: str, count: int) -> dict[str, int]:
    """So many events to a receiver that answers 401; healed, resumed and redriven. Returns what was seen on the way."""
    path = f"/status/401/{name}"
    to = endpoint(system, name, "/status/401", max_concurrency=CAP)
    caller = Caller(system, name, count, batch=min(1000, count // 4), pause=0)
    caller.start()
    during = wait_for(lambda: caller.accepted and balance(system, name), 60, "the first events")
    caller.join(180)
    assert len(caller.accepted) == count

    def held() -> dict | None:
        found = system.get(f"/endpoints/{to['id']}/")
        return found if found["state"] == "needs_attention" else None

    assert "401" in wait_for(held, 60, "the endpoint to be held", every=0.5)["hold_reason"]
    no_more_in_the_air(system, to["id"])
    before = balance(system, name)
    assert before["dead"] == 5
    assert before["dead"] + before["held"] == before["recorded"] == count
    assert during["difference"] == 0
    burnt = system.every("/deliveries/", endpoint=to["id"], state="dead_letter")
    heal(system, path)
    system.post(f"/endpoints/{to['id']}/resume/", {"reason": "credentials corrected"}, 200)
    found = all_arrived(system, path, caller.accepted, seconds=300)
    settled(system, to["id"])
    assert set(found) == set(caller.accepted) and set(found.values()) == {1}
    after = balance(system, name)
    assert (after["delivered"], after["dead"], after["held"], after["waiting"]) == (count, 0, 0, 0)
    return {"events": count, "dead_letters": len(burnt), "held": before["held"], "delivered": after["delivered"]}


def no_more_in_the_air(system: System, endpoint_id: str) -> None:
    rows = {"endpoint": endpoint_id, "state": "in_flight", "limit": 1}
    wait_for(lambda: not system.get("/deliveries/", **rows)["results"], 30, "the last answers", every=0.3)


def heal(system: System, path: str) -> None:
    answer = system.session.post(
        f"{system.demo['receiver_url']}/_behaviour", json={"path": path, "as": "/ok"}, timeout=5
    )
    assert answer.status_code == 200


def test_a_rotated_credential_costs_a_handful_and_resume_delivers_them_all(system):
    seen = hold_and_heal(system, "rotated", 2000)
    assert seen["delivered"] == 2000


def test_a_delivery_deleted_by_hand_is_missed_by_name(system):
    to = endpoint(system, "thief")
    for n in range(3):
        system.post("/events/", {"type": "a.b", "subscriber": "thief", "uid": f"thief_{n}", "data": {"n": n}}, 202)
    settled(system, to["id"])
    balance(system, "thief")
    with psycopg.connect(system.demo["database_url"]) as database:
        which = "event_id = (SELECT id FROM delivery_event WHERE uid = 'thief_1')"
        database.execute(f"CREATE TEMP TABLE taken AS SELECT * FROM delivery_delivery WHERE {which}")
        database.execute(f"DELETE FROM delivery_delivery WHERE {which}")
        database.commit()
        done = system.manage("account", check=False)
        database.execute("INSERT INTO delivery_delivery SELECT * FROM taken")
        database.commit()
    assert done.returncode == 1
    assert "thief_1" in done.stderr and "thief_0" not in done.stderr
    balance(system, "thief")


def test_a_get_postback_arrives_rightly_encoded_a_duplicate_counts_and_no_log_knows_the_click(system):
    click = "klick-0815-geheim"
    base = system.demo["receiver_url"]
    rule = {"success": "ok", "duplicate": "duplicate", "refused": "invalid click"}
    answers = {"pb": "ok", "pbdup": "duplicate", "pbno": "invalid%20click"}
    for subscriber, answer in answers.items():
        url = f"{base}/body/{answer}/pb?click={{data.click_id}}&name={{data.name}}&sum={{data.payout}}"
        body = {"url": url, "subscriber": subscriber, "request_form": "postback", "method": "GET", "body_rule": rule}
        system.post("/endpoints/", body, 201)
        data = {"click_id": click, "name": "Łódź & Co", "payout": "12.50"}
        system.post("/events/", {"type": "lead.sale", "subscriber": subscriber, "data": data}, 202)

    def states() -> dict[str, tuple[str, str]] | None:
        rows = {who: system.get("/deliveries/", subscriber=who)["results"] for who in answers}
        found = {who: (row[0]["state"], row[0]["last_outcome"]) for who, row in rows.items() if row}
        return (
            found
            if len(found) == 3 and all(state not in ("pending", "in_flight") for state, _ in found.values())
            else None
        )

    assert wait_for(states, 60, "the postbacks") == {
        "pb": ("delivered", "delivered"),
        "pbdup": ("delivered", "duplicate"),
        "pbno": ("dead_letter", "refused"),
    }
    (entry,) = system.journal(path="/body/ok/pb")
    assert entry["method"] == "GET"
    assert entry["query"] == f"click={click}&name=%C5%81%C3%B3d%C5%BA%20%26%20Co&sum=12.50"
    assert arrived(system, "/body/duplicate/pb")
    assert click not in system.logs() and click not in system.log.read_text(errors="replace")
