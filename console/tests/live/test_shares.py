"""What one viewer may take: bounded, counted once however many pages show it, and given back."""

from console.live import shares
from console.live.shares import Shares


def test_topics_are_bounded_over_all_sockets_and_a_shared_one_counts_once():
    own = Shares()
    for number in range(shares.MAX_TOPICS_OF_VIEWER):
        own.watch("key:a", f"task:{number}")
    assert not own.has_topic_left("key:a", "task:1000")
    assert own.has_topic_left("key:a", "task:0")
    assert own.has_topic_left("key:b", "task:1000")
    own.watch("key:a", "task:0")
    own.unwatch("key:a", "task:0")
    assert not own.has_topic_left("key:a", "task:1000")  # another page still shows it
    own.unwatch("key:a", "task:0")
    assert own.has_topic_left("key:a", "task:1000")


def test_sockets_are_bounded_for_each_viewer_for_strangers_and_for_the_process():
    own = Shares()
    for _ in range(shares.MAX_SOCKETS_OF_VIEWER):
        own.enter("key:a")
    assert not own.has_socket_left("key:a")
    assert own.has_socket_left("key:b")
    own.leave("key:a")
    assert own.has_socket_left("key:a")
    own.strangers = shares.MAX_STRANGERS
    assert not own.has_room(for_stranger=True)
    assert own.has_room(for_stranger=False)
    own.sockets = shares.MAX_SOCKETS_OF_PROCESS
    assert not own.has_room(for_stranger=False)


def test_what_has_ended_leaves_nothing_behind():
    own = Shares()
    own.enter("key:a")
    own.watch("key:a", "stats")
    own.unwatch("key:a", "stats")
    own.leave("key:a")
    assert (dict(own._sockets), own._topics) == ({}, {})
