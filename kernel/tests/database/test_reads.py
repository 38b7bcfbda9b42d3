"""What a read may cost: PostgreSQL ends the statement, nothing of the bound stays on the connection."""

import threading

import pytest
from django.db import OperationalError, ProgrammingError, connection, transaction

from kernel.database import reads

pytestmark = pytest.mark.django_db(transaction=True)


def timeout():
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return cursor.fetchone()[0]


def sleep(seconds):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [seconds])


def test_a_statement_that_takes_too_long_is_ended_by_the_server():
    with pytest.raises(OperationalError) as ended, reads.at_most(0.05):
        sleep(30)
    assert reads.is_too_slow(ended.value)
    assert timeout() == "0"


def test_many_statements_have_one_budget_together():
    with pytest.raises(reads.ReadTooSlow), reads.at_most(0.1):
        for _ in range(100):
            sleep(0.03)


def test_the_bound_holds_within_and_is_gone_after_also_where_a_transaction_was_rolled_back():
    with reads.at_most(5):
        assert timeout() == "5s"
        with reads.at_most(2):
            assert timeout() == "2s"
        assert timeout() == "5s"
    assert timeout() == "0"
    with pytest.raises(RuntimeError), transaction.atomic(), reads.at_most(7):
        assert timeout() == "7s"
        raise RuntimeError
    with transaction.atomic():
        assert timeout() == "0"
    with reads.at_most(7):
        assert timeout() == "7s"
    assert timeout() == "0"


def test_no_budget_is_no_bound():
    with reads.at_most(0):
        assert timeout() == "0"


def test_another_error_of_the_database_is_not_told_as_too_slow():
    with pytest.raises(ProgrammingError) as ended, reads.at_most(5), connection.cursor() as cursor:
        cursor.execute("SELECT nothing_here")
    assert not reads.is_too_slow(ended.value)


def test_a_connection_apart_is_not_one_of_the_pool():
    pooled = {**connection.settings_dict["OPTIONS"], "pool": {"min_size": 0, "max_size": 1}}
    seen = {}

    def work():
        connection.settings_dict = {**connection.settings_dict, "OPTIONS": pooled}
        reads.use_own_connection()
        seen["pool"], seen["answers"] = connection.pool, timeout()
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == {"pool": None, "answers": "0"}
