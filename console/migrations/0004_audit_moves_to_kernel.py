"""The audit trail is the ground floor's now; its rows and its table stay where they are."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("console", "0003_audit_found_by_object"), ("kernel", "0002_audit_trail")]

    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel(name="AuditEntry")]),
    ]
