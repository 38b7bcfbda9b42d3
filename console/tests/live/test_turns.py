"""Whose topic is read next: bounded waiting for everybody, however greedy the others are."""

from console.live.turns import REFRESH_EVERY, Turns, Wish

READERS = 3


def wish(viewer, *, first=True, slow=False, due=0.0):
    return Wish({viewer}, first, slow, due)


def read_all(turns, wishes, *, at_once=1):
    """The wishes in the order in which they are read, `at_once` under way."""
    order, under_way, left = [], [], list(wishes)
    while left or under_way:
        while len(under_way) < at_once and (chosen := turns.next(left)) is not None:
            left.remove(chosen)
            order.append(chosen)
            under_way.append((chosen, turns.begin(chosen)))
        turns.end(*under_way.pop(0))
    return order


def test_a_newcomer_waits_for_one_turn_of_each_viewer_and_no_more():
    turns = Turns(READERS)
    for name in ("greedy", "other", "newcomer"):
        turns.enter(name)
    many = [wish("greedy") for _ in range(1_500)] + [wish("other") for _ in range(100)]
    own = wish("newcomer", due=9.0)
    assert read_all(turns, [*many, own]).index(own) <= 2


def test_who_comes_in_the_middle_does_not_get_in_front_of_those_who_wait():
    turns = Turns(READERS)
    turns.enter("a")
    turns.enter("b")
    for _ in range(5):
        turns.end(one := wish("a"), turns.begin(one))
    turns.enter("again")  # as somebody who reconnects all the time
    assert next(one.viewers for one in read_all(turns, [wish("again"), wish("b"), wish("a")])) == {"b"}


def test_first_snapshots_go_before_refreshes_but_cannot_starve_them():
    turns = Turns(READERS)
    turns.enter("a")
    firsts, refreshes = [wish("a") for _ in range(9)], [wish("a", first=False) for _ in range(3)]
    order = read_all(turns, [*refreshes, *firsts])
    assert [one.is_first for one in order[:REFRESH_EVERY]] == [True] * (REFRESH_EVERY - 1) + [False]
    assert [one.is_first for one in order].count(False) == 3


def test_one_viewer_never_has_all_readers():
    turns = Turns(READERS)
    turns.enter("greedy")
    wishes = [wish("greedy") for _ in range(5)]
    begun = []
    while (chosen := turns.next(wishes)) is not None:
        wishes.remove(chosen)
        begun.append((chosen, turns.begin(chosen)))
    assert len(begun) == READERS - 1
    turns.enter("other")
    own = wish("other")
    assert turns.next([*wishes, own]) is own
    turns.end(*begun[0])
    assert turns.next(wishes) is not None


def test_topics_known_to_be_slow_have_one_reader_together():
    turns = Turns(READERS)
    slow = [wish(name, slow=True) for name in "abc"]
    held = turns.begin(turns.next(slow))
    first = next(one for one in slow if held in one.viewers)
    rest = [one for one in slow if one is not first]
    assert turns.next(rest) is None
    quick = wish("d", first=False)
    assert turns.next([*rest, quick]) is quick
    turns.end(first, held)
    assert turns.next(rest) in rest


def test_a_shared_topic_is_read_in_the_turn_of_whoever_waited_longest():
    turns = Turns(READERS)
    turns.enter("a")
    for _ in range(3):
        turns.end(one := wish("a"), turns.begin(one))
    shared = Wish({"a", "b"}, is_first=True, is_slow=False, due=5.0)
    assert turns.next([wish("a"), shared]) is shared
    assert turns.begin(shared) == "b"
