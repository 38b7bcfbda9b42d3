"""System checks: half an account of the environment, and schemas that nothing could be made from."""

import pytest

from tasks import checks, kinds
from tasks.accounts import environment
from tasks.kinds import acceptance
from tasks.providers.sandbox import SandboxProvider

FINE = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture
def variables(settings):
    def given(**values):
        settings.SANDBOX_PROVIDER_URL = settings.SANDBOX_PROVIDER_KEY = settings.SANDBOX_WEBHOOK_SECRET = ""
        for name, value in values.items():
            setattr(settings, name, value)
        return [(one.id, one.msg) for one in checks.accounts_of_the_environment_are_complete()]

    return given


def test_half_an_account_of_the_environment_is_an_error_that_names_what_is_missing(variables):
    assert variables() == []
    url = {"SANDBOX_PROVIDER_URL": "http://127.0.0.1:9"}
    rest = "SANDBOX_PROVIDER_KEY and SANDBOX_WEBHOOK_SECRET"
    assert variables(**url) == [("tasks.E001", f"SANDBOX_PROVIDER_URL is set, but {rest} is not.")]
    assert variables(SANDBOX_PROVIDER_KEY="k", SANDBOX_WEBHOOK_SECRET="s") == [
        ("tasks.E001", "SANDBOX_PROVIDER_KEY is set, but SANDBOX_PROVIDER_URL is not.")
    ]
    assert environment.declared() == {}


def test_an_account_without_a_webhook_secret_begins_all_the_same(variables, settings, monkeypatch):
    class Other(SandboxProvider):
        adapter = "other"
        environment = {"api_key": "OTHER_KEY", "webhook_secret": "OTHER_SECRET"}

    monkeypatch.setattr("tasks.providers.registry._adapters", {"other": Other})
    settings.READ_PROVIDER_VARIABLE = {"OTHER_KEY": "k", "OTHER_SECRET": ""}.get
    assert variables() == []
    assert environment.declared() == {"other": {"adapter": "other", "api_key": "k", "webhook_secret": ""}}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nothing"}, "nothing"),
        ({"properties": {}}, '"type": "object"'),
        ({"type": "object"}, '"properties"'),
        ({**FINE, "properties": {"a": {"$ref": "#/$defs/a"}}}, "$ref"),
    ],
)
def test_a_schema_that_nothing_can_be_made_from_is_an_error(schema, words, monkeypatch):
    kind = kinds.Kind("juggling", "Juggling", schema, acceptance.scoring)
    monkeypatch.setitem(kinds.KINDS, "juggling", kind)
    (found,) = checks.schemas_are_schemas()
    assert found.id == "tasks.E002" and "juggling" in found.msg and words in found.msg
