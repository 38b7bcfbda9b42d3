"""What ends a command in words, and what stays a traceback because it is a fault of ours."""

import pytest
from django.core.management import CommandError
from django.db import IntegrityError, connection

from kernel.management.base import STOPPED, Command
from kernel.models import ApiKey
from kernel.secrets import UndecryptableSecret


def run(act):
    class One(Command):
        requires_system_checks = []

        def handle(self, *args, **options):
            act()

    command = One()
    options = vars(command.create_parser("manage.py", "one").parse_args([]))
    options.pop("version", None)
    return command.execute(**options)


def refusal(act):
    with pytest.raises(CommandError) as caught:
        run(act)
    return caught.value


def sql(text):
    def act():
        with connection.cursor() as cursor:
            cursor.execute(text)

    return act


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT 1 FROM no_such_table", "Run: python manage.py migrate"),
        ("SELECT no_such_column FROM delivery_event", "Run: python manage.py migrate"),
        ("SELECT 'x'::int", "Give another."),
        ("SET LOCAL transaction_read_only = on; DELETE FROM delivery_event", "Name the primary server in DATABASE_URL"),
        ("SET LOCAL statement_timeout = 1; SELECT pg_sleep(5)", "run this again"),
    ],
)
def test_what_the_database_refuses_is_told_with_what_to_do(text, words):
    assert words in str(refusal(sql(text)))


def test_a_file_is_named_with_what_ails_it(tmp_path):
    words = str(refusal(lambda: (tmp_path / "no" / "file").read_text()))
    assert words.startswith(f"{tmp_path}/no/file cannot be read or written: No such file or directory. Mend that")


def test_a_secret_that_no_key_opens_says_which_command_mends_it():
    def act():
        raise UndecryptableSecret("Put the old key back.")

    assert str(refusal(act)) == "Put the old key back."


def test_ctrl_c_is_no_traceback_and_has_the_shells_exit_code():
    def act():
        raise KeyboardInterrupt

    error = refusal(act)
    assert (error.returncode, str(error)) == (STOPPED, "Stopped. What was done until now stays done.")


@pytest.mark.django_db
def test_a_fault_of_ours_and_a_reader_who_has_enough_stay_what_they_are():
    def enough():
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run(enough)
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 / 0)
    with pytest.raises(IntegrityError):
        run(lambda: ApiKey.objects.create(name=None))
