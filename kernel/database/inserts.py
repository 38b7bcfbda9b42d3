"""One row that may be there already. SQL: an INSERT that says whether it made the row."""

from django.db import connection, models


def insert_new(row: models.Model) -> bool:
    """Store a new row and set its id; False, and nothing stored, where a unique constraint finds it there already.

    One statement, where `get_or_create` asks first and needs a savepoint.
    """
    fields = [field for field in row._meta.local_concrete_fields if not (field.primary_key or field.generated)]
    values = [field.get_db_prep_save(field.pre_save(row, add=True), connection) for field in fields]
    columns = [connection.ops.quote_name(str(field.column)) for field in fields]  # a name may be a word of SQL's
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {row._meta.db_table} ({', '.join(columns)})"  # noqa: S608
            f" VALUES ({', '.join(['%s'] * len(fields))}) ON CONFLICT DO NOTHING RETURNING {row._meta.pk.column}",
            values,
        )
        made = cursor.fetchone()
    if made is not None:
        row.pk = made[0]
        row._state.adding, row._state.db = False, connection.alias
    return made is not None
