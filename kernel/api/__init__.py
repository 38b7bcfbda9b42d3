"""What the APIs of every floor share: problems, pages, idempotency, the words of the OpenAPI, plain error answers."""
