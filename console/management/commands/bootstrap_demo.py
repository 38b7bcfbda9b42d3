"""Make the demo's operator, API key and sample endpoint; a second run changes nothing. Refuses outside the demo."""

import time
from typing import Any

import requests  # noqa: TID251 - waits for the sandbox
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from console.health.leftovers import DEMO_ACTOR, SAMPLE_NAME
from delivery.models import Endpoint
from kernel.auth import Scope, create_key, find_key
from kernel.management import base
from kernel.models import ApiKey
from kernel.secrets import unreadable_fields
from kernel.web.log_in import DEMO_EMAIL

REGISTER_TRIES = 3


class Command(base.Command):
    help = "Make the demo operator, API key and sample endpoint (demo settings only)."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.DEMO:
            raise CommandError(
                "bootstrap_demo runs only with ROUNDTRIP_ENV=demo; make real users with createsuperuser."
            )
        self.make_operator()
        self.make_key()
        if settings.SANDBOX_RECEIVER_URL:
            self.make_endpoint()

    def make_operator(self) -> None:
        name, password = settings.DEMO_ADMIN_USERNAME, settings.DEMO_ADMIN_PASSWORD
        if not (name and password):
            raise CommandError("Set DEMO_ADMIN_USERNAME and DEMO_ADMIN_PASSWORD.")
        users = get_user_model().objects
        user = users.filter(username=name).first()
        if user is None:
            users.create_superuser(name, email=DEMO_EMAIL, password=password)
            return
        if not user.check_password(password):
            user.set_password(password)
            user.save(update_fields=["password"])
        if user.email != DEMO_EMAIL:
            user.email = DEMO_EMAIL
            user.save(update_fields=["email"])

    def make_key(self) -> None:
        from kernel import clock

        token = settings.DEMO_API_KEY
        if not token:
            raise CommandError("Set DEMO_API_KEY.")
        if find_key(token, clock.now()) is None:
            ApiKey.objects.filter(is_demo=True).delete()
            create_key("Demo key", list(Scope.values), is_demo=True, token=token)

    def make_endpoint(self) -> None:
        """One endpoint for every event of every operator, at the sandbox's receiver; its secret is told to that."""
        from delivery import endpoints

        endpoint = Endpoint.objects.filter(name=SAMPLE_NAME, subscriber="", deleted_at=None).first()
        url = f"{settings.SANDBOX_RECEIVER_URL}/ok"
        if endpoint is None:
            endpoint = endpoints.create(
                name=SAMPLE_NAME,
                url=url,
                subscriber="",
                secret=settings.DEMO_ENDPOINT_SECRET,
                actor=DEMO_ACTOR,
                reason="sample of the demo",
            )
        elif "url" in unreadable_fields(endpoint) or endpoint.url != url:  # the sandbox may get another port
            endpoint = endpoints.update(
                endpoint.pk, {"url": url}, actor=DEMO_ACTOR, reason="the receiver moved", sees_secrets=True
            )
        if "secret" in unreadable_fields(endpoint):  # the folder's master key was lost
            secret, why = settings.DEMO_ENDPOINT_SECRET, "no master key opened it"
            endpoint = endpoints.rotate_secret(endpoint.pk, actor=DEMO_ACTOR, reason=why, secret=secret)
        if endpoint.secret != settings.DEMO_ENDPOINT_SECRET:  # then the receiver was not told it at its start
            self.register(endpoint.secret)

    def register(self, secret: str) -> None:
        """The receiver verifies signatures; it may not be up yet, and that does no harm: it asks for nothing."""
        for attempt in range(REGISTER_TRIES):
            try:
                answer = requests.post(
                    f"{settings.SANDBOX_RECEIVER_URL}/_secrets", json={"path": "/ok", "secret": secret}, timeout=2
                )
                answer.raise_for_status()
                return
            except requests.RequestException:
                if attempt < REGISTER_TRIES - 1:
                    time.sleep(0.3)
        self.stderr.write("The sample receiver is not up yet; its signature check starts with the next start.")
