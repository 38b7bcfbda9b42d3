"""The id of a journey ends with the block it was bound for."""

from kernel import correlation


def test_binding_ends_with_its_block():
    with correlation.bind("outer-000"):
        with correlation.bind("inner-000"):
            assert correlation.current() == "inner-000"
        assert correlation.current() == "outer-000"
