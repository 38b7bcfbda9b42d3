"""Work that does nothing, for three queues: a kind of ours, a Celery task with a result, and a procrastinate task."""
