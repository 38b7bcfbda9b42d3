"""What a person sees and presses, in a real browser."""

import json
import re
import time

from playwright.sync_api import expect

from tests.e2e.system import searches, wait_for

BADGE = "[data-live-badge]"


def number_done(page):
    return int(re.search(r"\d+", page.inner_text("[data-live-figure=finished]")).group())


def test_the_live_page_moves_while_the_batch_runs(system, page):
    system.faults(min_ms=1000, max_ms=6000)
    batch = system.submit("map_search", searches(40))
    page.goto(f"{system.url}/batches/{batch['id']}/")
    expect(page.locator(BADGE)).to_have_text(re.compile("Live"), timeout=10_000)
    first = number_done(page)
    wait_for(lambda: number_done(page) > first, 30, "the number to move")
    system.finished(batch)
    wait_for(lambda: number_done(page) == 40, 10, "the page to show the end")


def test_without_its_socket_the_page_polls_and_comes_back_live_by_itself(system, page):
    refuse = {"now": False, "sockets": []}

    def socket_opened(socket):
        if refuse["now"]:
            socket.close(code=1011, reason="server side")
            return
        server = socket.connect_to_server()
        refuse["sockets"].append((socket, server))

    page.route_web_socket(re.compile("/ws/live/"), socket_opened)
    system.faults(min_ms=4000, max_ms=20_000)
    batch = system.submit("map_search", searches(40))
    page.goto(f"{system.url}/batches/{batch['id']}/")
    expect(page.locator(BADGE)).to_have_text(re.compile("Live"), timeout=10_000)
    refuse["now"] = True
    for socket, _server in refuse["sockets"]:
        socket.close(code=1011, reason="server side")
    expect(page.locator(BADGE)).to_have_text(re.compile("Polling"), timeout=15_000)
    first = number_done(page)
    wait_for(lambda: number_done(page) > first, 30, "the numbers to move while polling")
    refuse["now"] = False
    expect(page.locator(BADGE)).to_have_text(re.compile("Live"), timeout=45_000)


def test_a_part_that_is_slow_to_read_says_so_until_its_next_snapshot(system, page):
    """The others go on. The server's refusals are put in the place of one topic's snapshots, which come later."""
    said, held = {}, []

    def socket_opened(socket):
        def passed_on(message):
            topic = json.loads(message).get("topic")
            if topic == "alerts" and said:
                held.append((socket, message))
                message = json.dumps({"type": "error", "topic": topic, "detail": "…", **said})
            socket.send(message)

        socket.connect_to_server().on_message(passed_on)

    page.route_web_socket(re.compile("/ws/live/"), socket_opened)
    line = page.locator("[data-live-topic=alerts] > [data-live-kept-back]")
    for code, words in (("query_too_slow", "is slow to read"), ("internal_error", "cannot be read because of a fault")):
        said["code"] = code
        held.clear()
        page.goto(system.url)
        expect(line).to_have_text(re.compile(rf"This part {words}.*; shown as of \d\d:\d\d:\d\d"), timeout=10_000)
        expect(page.locator(BADGE)).to_have_text("Live, but not all of it")
        expect(page.locator("[data-live-kept-back]")).to_have_count(1)
        socket, message = held[-1]
        said.clear()
        socket.send(message)
        expect(line).to_have_count(0)
        expect(page.locator(BADGE)).to_have_text("Live")


def test_a_dead_letter_is_healed_and_redriven_from_the_admin(system, page):
    url = f"{system.demo['receiver_url']}/status/500/heal"
    policy = {"retry_profile": "custom", "retry_delays": [1, 1], "max_attempts": 2, "breaker_threshold": 2}
    endpoint = system.post(
        "/endpoints/", {"url": url, "event_types": ["heal.*"], "breaker_cooldown_seconds": 5, **policy}, 201
    )
    event = system.post("/events/", {"type": "heal.me", "data": {"n": 1}}, 202)

    def dead():
        rows = system.get("/deliveries/", endpoint=endpoint["id"], state="dead_letter")["results"]
        return rows[0] if rows else None

    delivery = wait_for(dead, 60, "the dead letter", every=1)
    wait_for(
        lambda: system.get(f"/endpoints/{endpoint['id']}/health/")["breaker"] != "closed",
        20,
        "the breaker to open",
    )
    system.session.post(
        f"{system.demo['receiver_url']}/_behaviour", json={"path": "/status/500/heal", "as": "/ok"}, timeout=5
    )
    page.goto(f"{system.url}/admin/delivery/delivery/{delivery['id']}/change/")
    page.get_by_role("link", name=re.compile("Redrive", re.I)).or_(
        page.get_by_role("button", name=re.compile("Redrive", re.I))
    ).first.click()
    reason = page.locator("input[name=reason], textarea[name=reason]").first
    reason.fill("the receiver is healed")
    page.locator("form:has([name=reason]) [type=submit]").first.click()

    def delivered():
        found = system.get(f"/deliveries/{delivery['id']}/")
        return found if found["state"] == "delivered" else None

    wait_for(delivered, 90, "the redriven delivery", every=1)
    entries = system.journal(path="/status/500/heal")
    assert {entry["webhook_id"] for entry in entries} == {event["uid"]}
    assert (entries[0]["status"], entries[-1]["status"]) == (500, 200)


def test_no_page_asks_for_the_password_again_or_leaves_errors_in_the_browser(system, page):
    complaints = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    batch = system.finished(system.submit("scoring", [{"business": {"name": "Uno"}}]))
    for path in (
        "/",
        "/batches/",
        f"/batches/{batch['id']}/",
        "/dead-letters/",
        "/admin/tasks/task/",
        "/admin/delivery/delivery/",
        "/admin/delivery/endpoint/",
        "/admin/webhooks/inboundevent/",
        "/admin/django_celery_beat/periodictask/",
    ):
        answer = page.goto(f"{system.url}{path}")
        assert answer.status == 200, path
        time.sleep(0.3)
    assert complaints == []


CUT = """() => [...document.querySelectorAll("#result_list :is(td, th)[data-label]")]
    .filter((cell) => cell.scrollWidth > cell.clientWidth || cell.scrollHeight > cell.clientHeight)
    .map((cell) => cell.dataset.label + ": " + cell.textContent.trim())"""


def test_on_a_narrow_page_no_value_of_a_list_is_cut_and_nothing_is_beside_the_page(system, page):
    batch = system.finished(system.submit("scoring", [{"business": {"name": "Uno"}}]))
    assert batch["total"] == 1
    page.set_viewport_size({"width": 390, "height": 844})
    for path in (
        "/admin/delivery/delivery/",
        "/admin/delivery/endpoint/",
        "/admin/delivery/event/",
        "/admin/kernel/apikey/",
        "/admin/kernel/apikey/add/",
    ):
        page.goto(f"{system.url}{path}")
        assert page.evaluate(CUT) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
