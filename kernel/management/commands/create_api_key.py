"""`manage.py create_api_key NAME --scopes tasks:read,tasks:write`: prints the bearer token, this once."""

import json
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from kernel import audit, clock
from kernel.auth import Scope, create_key
from kernel.management import base
from kernel.management.arguments import short, whole


class Command(base.Command):
    help = "Make an API key and print its token. The token is stored as a hash and cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", type=short(1, 100), help="whose key it is, for people")
        parser.add_argument(
            "--scopes",
            nargs="+",
            required=True,
            metavar="SCOPE",
            help=f"separated by commas or spaces, or 'all': {', '.join(Scope.values)}",
        )
        parser.add_argument(
            "--subscriber", type=short(0, 100), default="", help="bind the key to one subscriber's rows"
        )
        parser.add_argument("--expires-days", type=whole(1, 36_500), help="how long it lives; for ever if not said")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        scopes = [scope for text in options["scopes"] for scope in text.split(",") if scope]
        if not scopes:
            raise CommandError(f"Name a scope, or 'all': {', '.join(Scope.values)}.")
        if scopes == ["all"]:
            scopes = list(Scope.values)
        with transaction.atomic():
            try:
                key, token = create_key(options["name"], scopes, subscriber=options["subscriber"])
            except ValueError as error:
                raise CommandError(str(error)) from None
            if options["expires_days"]:
                key.expires_at = clock.now() + timedelta(days=options["expires_days"])
                key.save(update_fields=["expires_at"])
            audit.record("command", "create", "api_key", [key.pk], detail={"scopes": key.scopes})
        if options["json"]:
            self.stdout.write(json.dumps({"key_id": key.key_id, "token": token, "scopes": key.scopes}))
            return
        self.stdout.write(token)
        self.stderr.write("Keep this token: it is not stored and cannot be shown again.")
