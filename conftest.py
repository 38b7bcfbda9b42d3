"""Settings for every test: the test environment, unless `bin/test` or the caller has chosen one."""

import os

os.environ.setdefault("ROUNDTRIP_ENV", "test")
