"""Our accounts at job providers: found by name, limited, held, and changed by named verbs.

`get` gives the adapter that speaks for an account. It reads the row, so it is called by whoever may use the database,
and handed on to the threads that call.
"""

from tasks.accounts.reading import available, default_name, for_kind, get, known, name_for, provider_of, why_gone

__all__ = ["available", "default_name", "for_kind", "get", "known", "name_for", "provider_of", "why_gone"]
