"""The reference says what the code says."""

from config.management.commands.document import TARGET, reference


def test_the_reference_is_up_to_date():
    assert TARGET.read_text(encoding="utf-8") == reference(), "run: python manage.py document"
