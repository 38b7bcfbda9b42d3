"""`/endpoints/`: what a caller may set, sees, and must not see."""

import itertools
from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import replays
from delivery.models import Delivery, Endpoint
from delivery.policy import signing
from delivery.tests import factories
from kernel.models import IdempotencyRecord
from kernel.rotation import places, sample
from kernel.tests import hostile

pytestmark = pytest.mark.django_db
URL = "https://hooks.example.com/in?token=s3cret"


@pytest.fixture(autouse=True)
def no_name_service(monkeypatch):
    monkeypatch.setattr("delivery.endpoint_rules.within", lambda host, seconds: ())


def test_create_tells_the_secret_once(api):
    answer = api.post("/api/v1/endpoints/", {"url": URL, "event_types": ["task.*"]}, format="json")
    assert answer.status_code == 201, answer.data
    body = answer.json()
    assert body["secret"].startswith("whsec_")
    assert body["url"] == URL
    assert body["id"] == str(Endpoint.objects.get().pk)
    assert body["state"] == "active"
    assert body["gives_up"] == "after 5 attempts, about 8 minutes after the first"
    assert "secret" not in api.get(f"/api/v1/endpoints/{body['id']}/").json()


def test_a_repeat_gives_the_first_answer_and_no_secret_is_kept(api):
    def create(url):
        return api.post("/api/v1/endpoints/", {"url": url}, format="json", HTTP_IDEMPOTENCY_KEY="k1")

    first, again = create(URL), create(URL)
    assert first.json() == again.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert Endpoint.objects.count() == 1
    kept = str(IdempotencyRecord.objects.get().answer)
    assert "whsec" not in kept and "s3cret" not in kept
    assert create("https://other.example.com/").status_code == 422


def test_every_wrong_field_is_a_problem_row(api):
    bad = {"url": "http://192.168.0.1/", "max_attempts": 0, "headers": {"Host": "x"}, "nonsense": 1}
    answer = api.post("/api/v1/endpoints/", bad, format="json")
    assert answer.status_code == 400
    assert answer["content-type"].startswith("application/problem+json")
    assert {"field": "nonsense", "code": "unknown_field", "detail": "There is no such field."} in answer.json()[
        "errors"
    ]
    del bad["nonsense"]
    rows = {row["field"]: row["code"] for row in api.post("/api/v1/endpoints/", bad, format="json").json()["errors"]}
    assert rows == {"url": "private", "max_attempts": "out_of_range", "headers": "reserved"}
    assert not Endpoint.objects.exists()


@pytest.mark.parametrize("slash", ["", "/"])
def test_both_spellings_without_a_redirect(api, slash):
    assert api.post(f"/api/v1/endpoints{slash}", {"url": URL}, format="json").status_code == 201
    pk = Endpoint.objects.get().pk
    assert api.get(f"/api/v1/endpoints/{pk}{slash}").status_code == 200
    assert api.post(f"/api/v1/endpoints/{pk}/pause{slash}").status_code == 200
    assert api.get(f"/api/v1/endpoints/{pk}/health{slash}").status_code == 200


def test_readers_see_masked_urls_and_headers(client_with):
    pk = factories.endpoint(url=URL, headers={"x-key": "hush"}).pk
    reader = client_with("deliveries:read")
    body = reader.get(f"/api/v1/endpoints/{pk}/").json()
    assert body["url"] == "https://hooks.example.com/•••"
    assert body["headers"] == {"x-key": "•••"}
    assert reader.post(f"/api/v1/endpoints/{pk}/pause/").status_code == 403
    assert client_with("endpoints:write", "deliveries:read").get(f"/api/v1/endpoints/{pk}/").json()["url"] == URL


def test_a_bound_key_sees_and_makes_only_its_own(client_with):
    other = factories.endpoint(subscriber="other")
    mine = client_with(subscriber="acme")
    for path in ("", "health/"):
        assert mine.get(f"/api/v1/endpoints/{other.pk}/{path}").status_code == 404
    verbs = ("pause", "resume", "enable", "test", "rotate-secret", "end-secret", "replay", "fix-rate", "lift-throttle")
    for verb in verbs:
        assert mine.post(f"/api/v1/endpoints/{other.pk}/{verb}/", {}, format="json").status_code == 404
    assert mine.patch(f"/api/v1/endpoints/{other.pk}/", {"name": "x"}, format="json").status_code == 404
    assert mine.delete(f"/api/v1/endpoints/{other.pk}/").status_code == 404
    assert mine.get("/api/v1/endpoints/").json()["results"] == []
    assert mine.post("/api/v1/endpoints/", {"url": URL}, format="json").json()["subscriber"] == "acme"
    refused = mine.post("/api/v1/endpoints/", {"url": URL, "subscriber": "other"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "other_subscriber")


def test_the_verbs(api):
    pk = factories.endpoint().pk

    def post(verb, body=None):
        return api.post(f"/api/v1/endpoints/{pk}/{verb}/", body or {}, format="json")

    assert post("pause", {"reason": "holiday"}).json()["hold_reason"] == "holiday"
    assert post("resume").json()["state"] == "active"
    assert post("test").json()["event_type"] == "endpoint.test"
    rotated = post("rotate-secret", {"overlap_seconds": 3600}).json()
    assert rotated["secret"].startswith("whsec_")
    standing, earlier = rotated["secrets"]
    assert (standing["ends_at"], earlier["scheme"], set(earlier)) == (
        None,
        "v1",
        {"id", "scheme", "created_at", "ends_at"},
    )
    last = post("end-secret", {"id": standing["id"]})
    assert (last.status_code, last.json()["code"]) == (409, "last_secret")
    ended = post("end-secret", {"id": earlier["id"], "reason": "leaked"})
    assert (ended.status_code, ended.json()["secrets"]) == (200, [standing])
    again = post("end-secret", {"id": earlier["id"]})
    assert (again.status_code, again.json()["errors"][0]["code"]) == (400, "unknown_secret")
    assert "whsec" not in ended.content.decode()
    Endpoint.objects.update(disabled_at=factories.NOW)
    assert (post("resume").status_code, post("resume").json()["code"]) == (409, "wrong_state")
    assert post("enable").json()["state"] == "active"
    changed = api.patch(f"/api/v1/endpoints/{pk}/", {"rate_per_minute": 60}, format="json")
    assert changed.json()["rate_per_minute"] == 60
    assert api.patch(f"/api/v1/endpoints/{pk}/", {"secret": "x"}, format="json").status_code == 400
    assert api.delete(f"/api/v1/endpoints/{pk}/").status_code == 204
    assert api.get(f"/api/v1/endpoints/{pk}/").status_code == 404
    assert Delivery.objects.get().state == "cancelled"


def test_health_tells_the_learned_pace_and_two_verbs_settle_it(api):
    now = timezone.now()
    pace = {"pace_per_second": 1.0, "pace_lowered_at": now, "throttle_status": 429}
    waits = {"throttled_until": now + timedelta(hours=1), "wait_reason": "throttled"}
    pk = factories.endpoint(health=pace | waits).pk

    def health():
        return api.get(f"/api/v1/endpoints/{pk}/health/").json()

    assert health()["pace"] == "We send about 1.0/s, because they answer 429."
    assert (health()["wait_reason"], health()["pace_per_second"]) == ("throttled", 1.0)
    fixed = api.post(f"/api/v1/endpoints/{pk}/fix-rate/", {}, format="json")
    assert (fixed.json()["rate_per_minute"], health()["pace"], health()["wait_reason"]) == (60, "", "throttled")
    again = api.post(f"/api/v1/endpoints/{pk}/fix-rate/", {}, format="json")
    assert (again.status_code, again.json()["code"]) == (409, "wrong_state")
    assert api.post(f"/api/v1/endpoints/{pk}/lift-throttle/", {}, format="json").status_code == 200
    assert (health()["throttled_until"], health()["wait_reason"]) == (None, "")


@pytest.mark.parametrize(("asked", "state"), [({}, "pending"), ({"redrive_refused": False}, "dead_letter")])
def test_resume_redrives_the_refused_unless_it_is_told_not_to(api, asked, state):
    endpoint = factories.endpoint(attention_at=timezone.now())
    factories.delivery(endpoint, state="dead_letter", last_outcome="redirect")
    assert api.post(f"/api/v1/endpoints/{endpoint.pk}/resume/", asked, format="json").status_code == 200
    assert Delivery.objects.get().state == state


def test_a_reader_changes_no_pace(client_with):
    pk = factories.endpoint(health={"pace_per_second": 1.0}).pk
    reader = client_with("deliveries:read")
    for verb in ("fix-rate", "lift-throttle"):
        assert reader.post(f"/api/v1/endpoints/{pk}/{verb}/", {}, format="json").status_code == 403


def test_rotation_repeated_with_a_key_tells_the_same_secret(api):
    pk = factories.endpoint().pk
    first, again = (
        api.post(f"/api/v1/endpoints/{pk}/rotate-secret/", {}, format="json", HTTP_IDEMPOTENCY_KEY="r") for _ in "12"
    )
    assert first.json()["secret"] == again.json()["secret"] != ""


def test_a_private_key_is_told_to_nobody(api):
    made = api.post("/api/v1/endpoints/", {"url": URL}, format="json").json()
    path = f"/api/v1/endpoints/{made['id']}/rotate-secret/"
    rotated = api.post(path, {"signature_scheme": "v1a"}, format="json")
    other = api.post("/api/v1/endpoints/", {"url": URL, "signature_scheme": "v1a"}, format="json")
    brought = api.post(path, {"secret": signing.new_secret("v1a")[0]}, format="json", HTTP_IDEMPOTENCY_KEY="b")
    repeat = api.post(path, {"secret": "x"}, format="json")
    assert repeat.status_code == 400
    for answer in (rotated, other, brought):
        assert answer.status_code in (200, 201)
        assert "whsk_" not in answer.content.decode()
        assert (answer.json()["secret"], answer.json()["public_key"][:5]) == ("", "whpk_")
        assert answer.json()["secrets"][0]["scheme"] == "v1a"


def test_the_state_that_is_filtered_is_the_state_that_is_shown(api):
    switches = ("paused_at", "attention_at", "disabled_at")
    for chosen in (chosen for size in range(4) for chosen in itertools.combinations(switches, size)):
        factories.endpoint(**dict.fromkeys(chosen, factories.NOW))
    shown = {row["id"]: row["state"] for row in api.get("/api/v1/endpoints/").json()["results"]}
    assert sorted(shown.values()) == ["active"] + ["disabled"] * 4 + ["needs_attention"] * 2 + ["paused"]
    for state in ("active", "paused", "needs_attention", "disabled"):
        listed = api.get(f"/api/v1/endpoints/?state={state}").json()["results"]
        assert {row["id"] for row in listed} == {pk for pk, word in shown.items() if word == state}


def test_one_unreadable_endpoint_hides_no_other_and_can_be_mended(api, settings):
    from cryptography.fernet import Fernet

    lost = Fernet.generate_key().decode()
    known = settings.MASTER_KEYS
    settings.MASTER_KEYS = [lost]
    broken = [factories.endpoint(url=URL, headers={"x-key": "hush"}, client_certificate="PEM").pk for _ in "12"]
    settings.MASTER_KEYS = known
    good = factories.endpoint(url=URL).pk
    pk = broken[0]
    listed = {row["id"]: row["unreadable"] for row in api.get("/api/v1/endpoints/").json()["results"]}
    everything = ["client_certificate", "headers", "secret", "url"]
    assert listed == {str(good): [], **{str(one): everything for one in broken}}
    shown = api.get(f"/api/v1/endpoints/{pk}/").json()
    assert (shown["url"], shown["headers"], shown["secrets"], shown["host"]) == ("", {}, [], "hooks.example.com")
    preview = api.post(f"/api/v1/endpoints/{pk}/preview-postback/", {}, format="json")
    assert (preview.status_code, preview.json()["code"]) == (409, "unreadable_secret")
    assert api.patch(f"/api/v1/endpoints/{pk}/", {"name": "mended"}, format="json").json()["name"] == "mended"
    rotated = api.post(f"/api/v1/endpoints/{pk}/rotate-secret/", {}, format="json").json()
    assert rotated["secret"].startswith("whsec_") and len(rotated["secrets"]) == 1
    changed = {"url": URL, "headers": {"x-key": "new"}, "client_certificate": ""}
    mended = api.patch(f"/api/v1/endpoints/{pk}/", changed, format="json").json()
    assert (mended["unreadable"], mended["url"], mended["headers"]) == ([], URL, {"x-key": "new"})
    assert api.delete(f"/api/v1/endpoints/{broken[1]}/").status_code == 204
    assert [row["id"] for row in api.get("/api/v1/endpoints/").json()["results"]] == [str(good), str(pk)]
    assert not any(sample(place, 100).closed for place in places())  # nothing is left that nobody could mend


def test_replay_and_preview(api):
    endpoint = factories.endpoint(
        url="https://partner.example.com/pb?c={data.click}", request_form="postback", method="GET"
    )
    event = factories.event(data={"click": "Łódź & Co"})
    shown = api.post(
        f"/api/v1/endpoints/{endpoint.pk}/preview-postback/", {"event": str(event.pk)}, format="json"
    ).json()
    assert shown["url"] == "https://partner.example.com/pb?c=%C5%81%C3%B3d%C5%BA%20%26%20Co"
    assert shown["method"] == "GET"
    missing = api.post(f"/api/v1/endpoints/{endpoint.pk}/preview-postback/", {"data": {}}, format="json")
    assert (missing.status_code, missing.json()["code"]) == (400, "missing_field")
    bad = api.post(f"/api/v1/endpoints/{endpoint.pk}/preview-postback/", {"url": "https://e.com/{x}"}, format="json")
    assert (bad.status_code, bad.json()["errors"][0]["field"]) == (400, "url")
    done = api.post(f"/api/v1/endpoints/{endpoint.pk}/replay/", {"events": [str(event.pk)]}, format="json")
    answer = {"deliveries": 1, "deliveries_is_capped": False, "next_after": None, "warnings": [], "dry_run": False}
    assert (done.status_code, done.json()) == (202, answer)
    assert api.post(f"/api/v1/endpoints/{endpoint.pk}/replay/", {}, format="json").status_code == 400


def test_a_dry_run_counts_what_one_call_would_make_and_says_if_there_are_more(api, monkeypatch):
    monkeypatch.setattr(replays, "MOST", 2)
    endpoint = factories.endpoint()
    asked = {"events": [str(factories.event().pk) for _ in range(3)], "dry_run": True}

    def dry(events):
        path = f"/api/v1/endpoints/{endpoint.pk}/replay/"
        seen = api.post(path, {**asked, "events": events}, format="json").json()
        return seen["deliveries"], seen["deliveries_is_capped"]

    assert dry(asked["events"]) == (2, True)
    assert dry(asked["events"][:2]) == (2, False)


def test_a_replay_says_what_waits_already_and_what_was_sent_a_moment_ago(api):
    endpoint = factories.endpoint()
    sent, waits, old, fresh = (factories.event() for _ in range(4))
    now = timezone.now()
    factories.delivery(endpoint, sent, "delivered", delivered_at=now - timedelta(minutes=2, seconds=5))
    factories.delivery(endpoint, waits, "failed")
    factories.delivery(endpoint, old, "delivered", delivered_at=now - timedelta(days=3))
    factories.delivery(factories.endpoint(), fresh, "pending")
    path, asked = f"/api/v1/endpoints/{endpoint.pk}/replay/", {"since": (now - timedelta(hours=1)).isoformat()}
    seen = api.post(path, {**asked, "dry_run": True}, format="json")
    words = [
        "1 of these already waits for this endpoint and will be sent once more.",
        "1 of these was sent to it within the last day, the latest 2 minutes ago.",
    ]
    assert (seen.status_code, seen.json()["deliveries"], seen.json()["warnings"]) == (200, 4, words)
    assert not Delivery.objects.filter(is_replay=True).exists()
    assert api.post(path, asked, format="json").json()["warnings"] == words
    again = api.post(path, asked, format="json").json()
    assert again["warnings"][0] == "4 of these already wait for this endpoint and will be sent once more."


@pytest.mark.parametrize("asked", [{"events": []}, {"types": [], "since": "2026-01-01T00:00:00Z"}])
def test_a_replay_of_an_empty_list_is_refused(api, asked):
    endpoint = factories.endpoint()
    factories.event()
    assert api.post(f"/api/v1/endpoints/{endpoint.pk}/replay/", asked, format="json").status_code == 400
    assert not Delivery.objects.exists()


def test_lists_filter_and_cost_the_same_for_many(api, django_assert_num_queries):
    for number in range(5):
        factories.endpoint(subscriber=f"s{number}", paused_at=factories.NOW if number == 0 else None)
    with django_assert_num_queries(2):
        assert len(api.get("/api/v1/endpoints/").json()["results"]) == 5
    assert len(api.get("/api/v1/endpoints/?state=paused").json()["results"]) == 1
    assert len(api.get("/api/v1/endpoints/?subscriber=s3").json()["results"]) == 1


def test_strangers_get_401_and_nothing_else(client):
    for path in ("endpoints", "events", "deliveries"):
        assert client.get(f"/api/v1/{path}/").status_code == 401


def test_a_client_certificate_that_does_not_fit_is_refused_and_an_expired_one_warned_about(api, tmp_path):
    made = hostile.Certificates(tmp_path)
    one, two = (made.pem_file("client.example", days=(-10, -1)).read_text() for _ in range(2))
    wrong = one[: one.index("-----BEGIN CERT")] + two[two.index("-----BEGIN CERT") :]
    for pem, words in (
        (wrong, "does not belong"),
        ("junk", "There is no certificate"),
        (wrong[:300], "no certificate"),
    ):
        answer = api.post("/api/v1/endpoints/", {"url": URL, "client_certificate": pem}, format="json")
        assert answer.status_code == 400
        (row,) = answer.json()["errors"]
        assert (row["field"], row["code"]) == ("client_certificate", "bad_certificate") and words in row["detail"]
    body = api.post("/api/v1/endpoints/", {"url": URL, "client_certificate": one}, format="json").json()
    assert body["has_client_certificate"] and body["warnings"][0].startswith("The client certificate expired on")
    assert "PRIVATE" not in str(body)
    assert (
        api.patch(f"/api/v1/endpoints/{body['id']}/", {"client_certificate": wrong}, format="json").status_code == 400
    )
    plain = api.patch(f"/api/v1/endpoints/{body['id']}/", {"client_certificate": ""}, format="json").json()
    assert (plain["has_client_certificate"], plain["warnings"]) == (False, [])
