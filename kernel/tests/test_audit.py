"""The audit trail: what a line keeps, and that whoever may see it kept that right when it moved to this app."""

import importlib

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType

from kernel import audit
from kernel.models import AuditEntry

pytestmark = pytest.mark.django_db
moving = importlib.import_module("kernel.migrations.0002_audit_trail")


def test_a_line_keeps_the_first_thousand_ids_and_the_whole_count():
    line = audit.record("a" * 200, "redrive", "delivery", range(5_000), "r" * 500)
    line.refresh_from_db()
    assert (len(line.object_ids), line.count) == (audit.IDS_KEPT, 5_000)
    assert (len(line.actor), len(line.reason)) == (100, 300)


def test_the_right_to_see_the_trail_moves_with_it():
    mine = ContentType.objects.get_for_model(AuditEntry)
    right = Permission.objects.get(content_type=mine, codename="view_auditentry")
    ContentType.objects.filter(pk=mine.pk).update(app_label="console")  # as it was
    user = User.objects.create_user("ada")
    user.user_permissions.add(right)
    moving.to_kernel(apps, None)
    assert User.objects.get(pk=user.pk).has_perm("kernel.view_auditentry")
    moving.to_kernel(apps, None)  # run twice, it changes nothing
    moving.to_console(apps, None)
    assert User.objects.get(pk=user.pk).has_perm("console.view_auditentry")
    ContentType.objects.clear_cache()
