"""Keys open what their scopes say, and nothing after they end."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.test import override_settings
from django.urls import path
from django.utils import timezone
from rest_framework.response import Response
from rest_framework.test import APIClient
from rest_framework.views import APIView

from kernel import auth
from kernel.auth import HasScope, Scope, create_key, find_key, subscriber_for
from kernel.models import ApiKey


class Open(APIView):
    permission_classes = [HasScope(Scope.TASKS_READ, Scope.TASKS_WRITE)]

    def get(self, request):
        return Response({"caller": auth.caller_of(request).name})

    def post(self, request):
        return Response({"subscriber": subscriber_for(request, request.data.get("subscriber", ""))})


class Forgotten(APIView):
    def get(self, request):
        return Response({})


urlpatterns = [path("open/", Open.as_view()), path("forgotten/", Forgotten.as_view())]
pytestmark = [pytest.mark.urls(__name__), pytest.mark.django_db]


def client_with(scopes, **more):
    key, token = create_key("k", scopes, **more)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client, key, token


def test_a_key_with_the_scope_is_let_in_and_named_by_its_id():
    client, key, _ = client_with([Scope.TASKS_READ])
    assert client.get("/open/").json() == {"caller": f"key:{key.key_id}"}


def test_reading_is_not_writing():
    client, _, _ = client_with([Scope.TASKS_READ])
    answer = client.post("/open/", {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    assert answer.json()["detail"] == "This key lacks the scope tasks:write; ask an operator for a key that has it."


def test_no_key_is_a_401_with_a_challenge():
    answer = APIClient().get("/open/")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert "Authorization: Bearer rt_" in answer.json()["detail"]


@pytest.mark.parametrize("token", ["", "rt_x", "rt_abc_def_ghi", "rt_unknown_secret", "Bearer", "k\xe9y", "rt__x"])
def test_junk_tokens_are_401(token):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert client.get("/open/").status_code == 401


def test_a_wrong_secret_for_a_right_id_is_refused():
    _, key, _ = client_with([Scope.TASKS_READ])
    assert find_key(f"rt_{key.key_id}_{'0' * 64}", timezone.now()) is None


@pytest.mark.parametrize("field", ["revoked_at", "expires_at"])
def test_an_ended_key_opens_nothing(field):
    client, key, _ = client_with([Scope.TASKS_READ])
    ApiKey.objects.filter(pk=key.pk).update(**{field: timezone.now() - timedelta(seconds=1)})
    assert client.get("/open/").status_code == 401


def test_a_demo_key_opens_nothing_in_production():
    _, _, token = client_with([Scope.TASKS_READ], is_demo=True)
    assert find_key(token, timezone.now()) is not None
    with override_settings(PRODUCTION=True):
        assert find_key(token, timezone.now()) is None


def test_a_view_that_names_no_scope_is_closed():
    client, _, _ = client_with(list(Scope.values))
    assert client.get("/forgotten/").status_code == 403


def test_a_bound_key_makes_rows_of_its_own_subscriber_only():
    client, _, _ = client_with([Scope.TASKS_WRITE], subscriber="acme")
    assert client.post("/open/", {}, format="json").json() == {"subscriber": "acme"}
    refused = client.post("/open/", {"subscriber": "other"}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (403, "other_subscriber")


def test_the_secret_is_not_stored():
    _, key, token = client_with([Scope.TASKS_READ])
    assert token.rsplit("_", 1)[1] not in str(ApiKey.objects.filter(pk=key.pk).values().get())


def test_unknown_scopes_are_refused_by_name():
    with pytest.raises(ValueError, match="Unknown scope 'tasks:everything'"):
        create_key("k", ["tasks:everything"])


def test_a_console_user_needs_the_model_permission_and_to_be_staff():
    user = User.objects.create_user("op", password="x", is_staff=True)
    client = APIClient()
    client.force_login(user)
    assert client.get("/open/").status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_task"))
    assert client.get("/open/").status_code == 200
    User.objects.filter(pk=user.pk).update(is_staff=False)
    assert client.get("/open/").status_code == 401


def test_use_is_noted_at_most_once_a_minute(django_assert_num_queries):
    client, key, _ = client_with([Scope.TASKS_READ])
    client.get("/open/")
    assert ApiKey.objects.get(pk=key.pk).last_used_at is not None
    with django_assert_num_queries(1):
        client.get("/open/")


def test_a_console_users_name_fits_every_column_that_keeps_it(db):
    user = User.objects.create(username="u" * 150, is_staff=True)
    assert auth.name_of(user) == f"user:{user.pk}:uuuuu"[:80].ljust(80, "u")
