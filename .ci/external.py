"""Do PostgreSQL, RabbitMQ and Redis answer where they usually are? Prints their URLs as `NAME=value`, or who does not.

The environment is not asked: what it names may be somebody's production. Changes nothing on the servers.
"""

import sys
from collections.abc import Callable

import kombu
import psycopg
import redis

USUAL = {
    "DATABASE_URL": "postgresql://root@127.0.0.1:5432/postgres",
    "CELERY_BROKER_URL": "amqp://guest:guest@127.0.0.1:5672//",
    "CHANNEL_LAYER_URL": "redis://127.0.0.1:6379/3",
}
SECONDS = 3


def ask_database(url: str) -> None:
    with psycopg.connect(url, connect_timeout=SECONDS) as database:
        row = database.execute("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
        if not (row and row[0]):
            raise RuntimeError("its user may not create databases")


def ask_broker(url: str) -> None:
    with kombu.Connection(url, connect_timeout=SECONDS) as broker:
        broker.connect()


def ask_layer(url: str) -> None:
    redis.Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS).ping()


def main() -> int:
    asked: dict[str, Callable[[str], None]] = {
        "DATABASE_URL": ask_database,
        "CELERY_BROKER_URL": ask_broker,
        "CHANNEL_LAYER_URL": ask_layer,
    }
    for name, ask in asked.items():
        url = USUAL[name]
        try:
            ask(url)
        except Exception as error:  # whatever the reason, it is no server to test on
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
            return 1
        print(f"{name}={url}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
