"""Topics: one canonical name for one meaning, and who may watch which."""

import pytest

from console.live.topics import Topic, TopicRefused, parse, permitted
from console.live.viewers import Viewer

ALL = frozenset({"tasks:read", "deliveries:read", "operations:read", "alerts:read", "figures:deliveries"})
NAMES = (
    "task:1",
    "batch:1",
    "delivery:1",
    "endpoint:1",
    "operation:1",
    "tasks?state=queued",
    "deliveries",
    "stats",
    "alerts",
)


@pytest.mark.parametrize("name", NAMES)
def test_every_topic_of_the_contract_is_known_and_keeps_its_name(name):
    assert parse(name).name == name


def test_filters_are_sorted_so_that_viewers_share_a_snapshot():
    assert parse("tasks?state=queued&kind=scoring") == parse("tasks?kind=scoring&state=queued")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "unknown_topic"),
        (None, "unknown_topic"),
        ("nothing", "unknown_topic"),
        ("task:", "unknown_topic"),
        ("task:x", "unknown_topic"),
        ("task:²", "unknown_topic"),
        ("task:99999999999999999999", "unknown_topic"),
        ("tasks?nothing=1", "bad_filter"),
        ("tasks?batch=x", "bad_filter"),
        ("tasks?kind=%00", "bad_filter"),
        ("tasks?state=", "bad_filter"),
        ("tasks?kind=", "bad_filter"),
        ("tasks?batch=", "bad_filter"),
        ("deliveries?state=", "bad_filter"),
        ("deliveries?endpoint=", "bad_filter"),
        ("deliveries?type=", "bad_filter"),
        ("tasks?state=queued&state=running", "bad_filter"),
        ("stats?x=1", "unknown_topic"),
        ("t" * 401, "unknown_topic"),
    ],
)
def test_what_is_no_topic_is_refused_with_a_word(text, code):
    with pytest.raises(TopicRefused) as refusal:
        parse(text)
    assert refusal.value.code == code


@pytest.mark.parametrize("name", NAMES)
def test_each_topic_needs_its_own_grant(name):
    topic = parse(name)
    with pytest.raises(TopicRefused) as refusal:
        permitted(topic, Viewer("nobody", frozenset()))
    assert refusal.value.code == "permission_denied"
    opened = [grant for grant in ALL if _may(topic, Viewer("one", frozenset({grant})))]
    assert len(opened) == 1


def _may(topic, viewer):
    try:
        permitted(topic, viewer)
    except TopicRefused:
        return False
    return True


def test_a_bound_viewer_gets_only_the_subscribers_own_list():
    bound = Viewer("key:1", ALL, subscriber="acme")
    assert permitted(parse("tasks?state=queued"), bound) == Topic(
        "tasks", filter=(("state", "queued"), ("subscriber", "acme"))
    )
    for name in ("tasks?subscriber=other", "stats", "alerts", "operation:1"):
        with pytest.raises(TopicRefused) as refusal:
            permitted(parse(name), bound)
        assert refusal.value.code == "other_subscriber"


def test_a_live_token_opens_only_its_topics():
    token = Viewer("key:1", ALL, topics=frozenset({"batch:1"}))
    assert permitted(parse("batch:1"), token) == Topic("batch", 1)
    with pytest.raises(TopicRefused):
        permitted(parse("batch:2"), token)


@pytest.mark.parametrize(
    ("grants", "name"),
    [
        ({"figures:tasks", "figures:deliveries"}, "stats"),
        ({"figures:tasks"}, "stats?side=tasks"),
        ({"figures:deliveries"}, "stats?side=deliveries"),
    ],
)
def test_the_figures_are_narrowed_to_the_sides_that_a_viewer_may_see(grants, name):
    viewer = Viewer("one", frozenset(grants))
    narrowed = permitted(parse("stats"), viewer)
    assert narrowed.name == name
    assert permitted(narrowed, viewer) == narrowed == parse(name)  # a socket looks again, a token names it so


def test_a_sides_figures_cannot_be_asked_for_by_whoever_sees_the_other():
    with pytest.raises(TopicRefused) as refusal:
        permitted(parse("stats?side=tasks"), Viewer("one", frozenset({"figures:deliveries"})))
    assert refusal.value.code == "permission_denied"
