"""What each door and each row takes at most, for docs/limits.md: every figure is read from the code that keeps it.

Each row is one line: what, how much, what happens beyond, and the variable that moves it. Figures of variables are
their defaults, so that the page does not depend on whose environment it was made in. Must never keep a bound itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import global_settings, settings

from config import asgi, connections
from config.environment import VARIABLES
from config.server import BoundedProtocol as Server
from console import figures, journeys
from console.alerts import rules
from console.health import heartbeat, schedule
from console.live import consumers, hub, looks, topics, viewers
from console.live import shares as live_shares
from console.live.snapshots import objects
from console.operations import engine as operation_engine
from console.operations import filters, plan
from console.operations import sets as operation_sets
from console.pages import badges
from delivery import dead_letters, endpoint_rules, endpoint_secrets, latency, previews, replays, stats
from delivery.api import payloads as event_payloads
from delivery.engine import attempts, claiming, requests, shares, verdicts
from delivery.engine.transport import handles, messages, resolver
from delivery.models import Endpoint, Event
from delivery.policy import breaker, headers, postback, quotas, retry, signing
from kernel import audit, clock, correlation, counting, exact_numbers, parsing
from kernel import models as kernel_models
from kernel.admin import actions, bases, lists
from kernel.api import idempotency, pages, problems
from kernel.counting import size
from kernel.database import spools, windows
from kernel.network import http, retry_after
from kernel.web import lanes, log_in, weights
from tasks import models, schedules, submit
from tasks.api import refusals as task_refusals
from tasks.engine import execution, lifecycle, unit_of_work
from tasks.external import fetching, kept, reconcile, starting
from tasks.kinds import acceptance, file_import
from tasks.kinds import rows as task_rows
from tasks.providers.sandbox import client, payloads
from tasks.reading import bodies, timeline
from webhooks import inbox, judging, refusals, schemes


@dataclass(frozen=True)
class Limit:
    """One bound. `setting` is the variable that moves it; without one it is moved in the code."""

    what: str
    most: str
    beyond: str
    setting: str = ""


@dataclass(frozen=True)
class Section:
    """One door, or one sort of row."""

    title: str
    limits: Sequence[Limit]


def time(length: float | timedelta) -> str:
    """A duration in the largest unit that it is a whole number of."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    for unit, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit and seconds % unit == 0:
            return f"{int(seconds // unit):,} {name}"
    return f"{seconds:g} s"


def count(most: int, of: str = "") -> str:
    return f"{most:,} {of}".strip()


def letters(model: Any, field: str) -> str:
    """As many characters as the column holds."""
    return count(model._meta.get_field(field).max_length, "characters")


def default(name: str) -> int:
    """A variable's default: what holds where nobody has said otherwise."""
    return int(next(variable.default for variable in VARIABLES if variable.name == name))


def between(field: str) -> str:
    low, high, unit = endpoint_rules._LIMITS[field]
    return f"{low:,} to {high:,} {unit}"


def _rate(bytes_per_second: int) -> str:
    return f"{size(bytes_per_second)} a second"


SECTIONS: tuple[Section, ...] = (
    Section(
        "Web server",
        (
            Limit("connections of a process", f"{count(connections.MOST)}, and {connections.OTHER_FILES} fewer than it may open files", "503, closed"),
            Limit("connections from one address (a trusted proxy's are not counted)", count(connections.MOST_OF_ADDRESS), "503, closed"),
            Limit("head of a request, with trailers", size(Server.MAX_HEAD_BYTES), "431, connection closed"),
            Limit("header fields", count(Server.MAX_HEADERS), "431, connection closed"),
            Limit("time for the head", time(Server.HEAD_SECONDS), "408, connection closed"),
            Limit("time for the body", f"{time(Server.BODY_SECONDS)}, and what {_rate(Server.BODY_BYTES_PER_SECOND)} takes", "408, connection closed"),
            Limit("a reader who keeps an answer waiting", f"{_rate(Server.BODY_BYTES_PER_SECOND)} within {time(Server.STALL_SECONDS)} at the least", "connection cut"),
            Limit("database connections of a process", count(default("DATABASE_POOL_SIZE")), "waits for one; the lanes below keep some free", "DATABASE_POOL_SIZE"),
            Limit("connections kept free for inbound webhooks", count(asgi.KEPT_FREE), "other requests wait"),
            Limit("other requests that wait for a place", count(asgi.REST_WAITING), f"503 `busy`, Retry-After {lanes.RETRY_AFTER_SECONDS} s"),
        ),
    ),
    Section(
        "Log-ins",
        (
            Limit("worked on at once, by process", count(asgi.LOG_IN_PLACES), "wait"),
            Limit("waiting, by process", count(asgi.LOG_INS_WAITING), f"503 `busy`, Retry-After {lanes.RETRY_AFTER_SECONDS} s"),
            Limit("passwords hashed at once", count(log_in.HASHED_AT_ONCE), "wait"),
            Limit("attempts at one account", f"{log_in.MOST_PER_ACCOUNT} in {time(log_in.WINDOW_SECONDS)}", "refused until then, and said"),
            Limit("attempts from one address (IPv6: its /64)", f"{log_in.MOST_PER_ADDRESS} in {time(log_in.WINDOW_SECONDS)}", "refused until then, and said"),
            Limit("accounts and addresses remembered", count(log_in.REMEMBERED), "the longest unseen is forgotten"),
        ),
    ),
    Section(
        "API",
        (
            *(Limit(f"body of a request below `{path}`", size(most), "413 `too_large`") for path, most in settings.BODY_CAPS.items() if path != "/webhooks/"),
            Limit("large bodies worked on at once, by process; as many again of inbound webhooks", size(weights.BYTES_AT_ONCE), "wait; a larger one goes alone"),
            Limit("a body that does not count as large", size(weights.SMALL_BYTES), "counts"),
            Limit("reading for one page, list or answer", time(default("READ_SECONDS")), "503 `query_too_slow`", "READ_SECONDS"),
            Limit("fields of a form, names in a query", count(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS), "400"),
            Limit("files of a form (no door reads one)", count(global_settings.DATA_UPLOAD_MAX_NUMBER_FILES), "400"),
            Limit("a filter of a list", "once, of known names; `state` several times", "400 `doubled_filter`, `unknown_filter`, `empty_filter`"),
            Limit("objects and lists inside one another, in all JSON that comes in", count(parsing.MAX_DEPTH), "400"),
            Limit("digits of a whole number", count(exact_numbers.MAX_INT_DIGITS), "400"),
            Limit("errors of one answer", count(problems.ERRORS_SHOWN), "counted, not listed"),
            Limit("a field's name, a detail, in an error", f"{problems.LONGEST_FIELD:,} and {problems.LONGEST_DETAIL:,} characters", "cut"),
            Limit("rows of a page, of every list that has pages", f"{pages.CursorPages.page_size} ({pages.CursorPages.max_page_size} by `limit`)", "the next page, by `next`; another `limit`: 400"),
            Limit("groups of dead letters, of each side", count(dead_letters.GROUPS_SHOWN), "the biggest are listed"),
            Limit("timeline of a task: transitions, jobs, deliveries", f"{timeline.STEPS_SHOWN:,}, {timeline.STEPS_SHOWN:,} and {timeline.DELIVERIES_SHOWN:,}", "the latest transitions and jobs, the first deliveries"),
            Limit("rows that a page looks through where no index leads to what is asked", count(windows.MOST), "`next` goes on there, also from a short or empty page"),
            Limit("dead letters, of each side, that groups are made of", count(windows.MOST), "the newest; `among_newest` says so"),
            Limit("rows of a state, or of an endpoint, that are counted", count(counting.LIMIT), "told as more than that, or as an estimate"),
            Limit("slow endpoints that are listed", count(stats.SLOW_MOST), "the slowest"),
            Limit("inbound events of one job, or of one id, that a search finds", count(inbox.NAMED_ALIKE), "the newest"),
            Limit("Idempotency-Key", letters(kernel_models.IdempotencyRecord, "key"), "400 `bad_idempotency_key`"),
            Limit("time an idempotency key is kept", time(kernel_models.IDEMPOTENCY_WINDOW), "the key is new again"),
            Limit("wait for a twin of the same key", idempotency.WAIT.replace("s", " s"), "409"),
            Limit("correlation id from outside", f"`{correlation._ACCEPTABLE.pattern}`", "one of ours instead"),
        ),
    ),
    Section(
        "Inbound webhooks",
        (
            Limit("body, before and after unpacking", size(default("INBOUND_MAX_BYTES")), "413 `too_large`", "INBOUND_MAX_BYTES"),
            Limit("each header that a signature reads", count(schemes.MAX_HEADER_LENGTH, "characters"), "401 `signature_malformed`"),
            Limit("age of a signature, both ways", time(schemes.TOLERANCE_SECONDS), "401 `timestamp_outside_tolerance`"),
            Limit("refused calls stored for one source and reason", f"{refusals.STORED_PER_HOUR:,} an hour", "only counted"),
            Limit("bytes of refused calls stored for one source", f"{size(default('INBOUND_REFUSED_BYTES_A_DAY'))} a day", "only counted, alert", "INBOUND_REFUSED_BYTES_A_DAY"),
            Limit("body kept of a refused call", size(refusals.BODY_BYTES), "cut"),
            Limit("each header that is kept", count(refusals.HEADER_CHARACTERS, "characters"), "cut"),
            Limit("time a refused call is kept", f"{default('INBOUND_REFUSED_RETENTION_DAYS')} days", "removed", "INBOUND_REFUSED_RETENTION_DAYS"),
            Limit("event id as a key", count(inbox.KEY_LENGTH, "characters"), "its hash stands in the key"),
            Limit("events of one id that are compared", count(inbox.TWINS_COMPARED), "the first ones are"),
            Limit("time for judging within the call", time(judging.BUDGET_SECONDS), "the rest is `deferred` to the sweep"),
            Limit("id of a job or an item", count(judging.ID_LENGTH, "characters"), "that item is refused, its neighbours are not"),
            Limit("items of a sandbox callback", count(payloads.MAX_UPDATES), "refused as not parseable"),
        ),
    ),
    Section(
        "Tasks and batches",
        (
            Limit("tasks of a batch", count(models.MAX_BATCH), "400, nothing stored"),
            Limit("errors listed for a batch", count(submit.MAX_ERRORS), "not listed"),
            Limit("errors listed of refused rows", count(task_refusals.ERRORS_SHOWN), "counted, not listed"),
            Limit("errors listed for a file", count(file_import.MAX_ERRORS), "reading ends"),
            Limit("rows of a file", count(models.MAX_BATCH), "refused whole"),
            Limit("reference", count(submit.MAX_REFERENCE, "characters"), "400"),
            Limit("subscriber", count(submit.MAX_SUBSCRIBER, "characters"), "400"),
            Limit("generated email: subject and body", f"{acceptance.MAX_SUBJECT:,} and {acceptance.MAX_BODY:,} characters", "the result is not accepted"),
            Limit("input or result shown with its task", size(bodies.INLINE_BYTES), "null, with the address that streams it"),
            Limit("inputs and results of one page of a list", size(bodies.LIST_BYTES), "null, with the address"),
            Limit("parts of a download", f"{spools.PARTS_AT_ONCE} of {size(spools.PART_BYTES)} at once", "the next part; above " + size(spools.SPOOL_BYTES) + " it waits in a file"),
            Limit("results read at once for a report or a chain", f"{task_rows.ROWS_AT_ONCE:,} rows, {size(task_rows.BYTES_AT_ONCE)}", "the next part"),
            Limit("kind: attempts, tasks at once, starts a minute, time of one attempt", f"{models.MAX_ATTEMPTS:,}; {models.MAX_CONCURRENCY:,}; {models.MAX_RATE_PER_MINUTE:,}; {time(models.MAX_TIMEOUT_SECONDS)}", "refused on saving"),
            Limit("lease of a start, of a fetch", f"{time(starting.LEASE)}, {time(fetching.LEASE)}", "another worker takes it up; `rescued`"),
            Limit("lease of work in a worker of ours", f"its kind's time for one attempt and {time(execution.LEASE_SLACK)}", "another worker takes it up; `rescued`"),
            Limit("leases of a task that may expire in a row", count(lifecycle.MAX_RESCUES), "dead letter"),
            Limit("single tasks told to live pages at once", count(unit_of_work.MAX_TOPICS), "the pages' own look finds them"),
            Limit("slots of a schedule made in one tick", count(schedules.MOST_SLOTS), "the next ticks make them"),
        ),
    ),
    Section(
        "Calls to providers",
        (
            Limit("a call of the sandbox, through its last byte", time(client.CALL_SECONDS), "`timeout`, tried again by its own rule"),
            Limit("ids asked about in one call", count(client.IDS_PER_CALL), "further calls"),
            Limit("pages of a list, each", f"{client.MAX_PAGES:,} of {client.PAGE:,} rows", "a bad answer"),
            Limit("start calls of one round", time(starting.CALL_BUDGET_SECONDS), "the next round"),
            Limit("a job's result that is not there", time(fetching.GRACE), "the attempt fails: `result_lost`"),
            Limit("bad answers in a row for a result", count(fetching.BAD_ANSWERS), "the attempt fails: `result_rejected`"),
            Limit("fetches of one result", count(fetching.FETCH_LIMIT), "the task fails for good: `fetch_failed`"),
            Limit("polls in a row that miss a job", count(reconcile.MISSES), "the job is lost"),
            Limit("an answer, unpacked", size(http.MAX_BODY_BYTES), "`result_too_large` for a result, once"),
            Limit("bytes kept of a result that cannot be used", size(kept.KEPT_BYTES), "cut, and said so"),
            Limit("unclear answers to one start", count(lifecycle.MAX_UNANSWERED), "dead letter `start_unanswered`"),
            Limit("a part of an answer read at once", size(http.CHUNK_BYTES), "the next part"),
        ),
    ),
    Section(
        "Events and replays",
        (
            Limit("bytes of an event, as it is sent", size(default("EVENT_MAX_BYTES")), "400 `event_too_large`", "EVENT_MAX_BYTES"),
            Limit("events of one call", count(quotas.EVENTS_PER_CALL), "400"),
            Limit("deliveries that one call makes", count(default("DELIVERIES_PER_CALL")), "400 `too_many_deliveries`, which says how many fit", "DELIVERIES_PER_CALL"),
            Limit("ids and types of a replay", f"{quotas.REPLAYED_IDS:,} and {quotas.REPLAYED_TYPES:,}", "400"),
            Limit("one payload read by a replay", size(replays.READ_MOST), "the database looks into it"),
            Limit("type", letters(Event, "type"), "400"),
            Limit("uid", letters(Event, "uid"), "400"),
            Limit("deliveries made by one replay", count(replays.MOST), "the answer says where to go on"),
            Limit("payloads read at once by a replay", size(replays.READ_BYTES), "the next part"),
        ),
    ),
    Section(
        "Endpoints",
        (
            Limit("endpoints of a subscriber", count(default("ENDPOINTS_PER_SUBSCRIBER")), "409 `too_many_endpoints`", "ENDPOINTS_PER_SUBSCRIBER"),
            Limit("name", letters(Endpoint, "name"), "400 `max_length`"),
            Limit("URL, rendered or not", count(quotas.MAX_URL, "characters"), "400 `max_length`; of a rendered one, a dead letter"),
            Limit("event types, each", f"{quotas.MAX_EVENT_TYPES:,} of {quotas.MAX_EVENT_TYPE:,} characters", "400 `max_length`"),
            Limit("own delays; own codes to retry", f"{quotas.MAX_DELAYS} and {quotas.MAX_TRANSIENT_CODES}", "400 `max_length`"),
            Limit("CA or client certificate, each", f"{size(quotas.MAX_PEM)}, {quotas.MAX_CERTIFICATES} certificates", "400 `too_long`"),
            Limit("payload shown with its event", size(event_payloads.INLINE_BYTES), "null and `too_large`, with the address that streams it"),
            Limit("stored event of a preview", size(previews.MOST_PREVIEWED), "400 `too_large`"),
            Limit("phrases of a body rule", count(endpoint_rules.MAX_PHRASES), "400 `bad_body_rule`"),
            Limit("rendered body of a postback", size(postback.MAX_BODY_BYTES), "reckoned before it is made: a dead letter `too_large`; a preview 400"),
            Limit("template of a postback's body", size(endpoint_rules.MAX_TEMPLATE), "400 `too_long`"),
            Limit("body rule, and one of its texts", f"{endpoint_rules.MAX_BODY_RULE:,} and {quotas.MAX_RULE_TEXT:,} characters", "400 `bad_body_rule`, `max_length`"),
            Limit("own headers", f"{headers.MAX_HEADERS}, together {size(headers.MAX_BYTES)}", "400 `too_many`, `too_long`"),
            Limit("live secrets", count(endpoint_secrets.MOST), "409 `too_many_secrets`"),
            Limit("signatures of a request that are looked at", count(signing.MAX_SIGNATURES), "not looked at"),
            Limit("name look-up of a new URL", time(endpoint_rules.LOOKUP_SECONDS), "passes; judged again at every call"),
            *(Limit(f"`{field}`", between(field), "400 `out_of_range`") for field in endpoint_rules._LIMITS),
        ),
    ),
    Section(
        "Delivery worker",
        (
            Limit("transfers in the air", count(default("DELIVERY_MAX_IN_FLIGHT")), "wait in the database", "DELIVERY_MAX_IN_FLIGHT"),
            Limit("… that have waited for a second, beside those", count(default("DELIVERY_MAX_WAITING")), "wait in the database", "DELIVERY_MAX_WAITING"),
            Limit("large payloads held at once", size(default("DELIVERY_MAX_BYTES_IN_FLIGHT")), "wait; a larger one goes alone", "DELIVERY_MAX_BYTES_IN_FLIGHT"),
            Limit("a payload that does not count as large", size(claiming.SMALL_BYTES), "counts"),
            Limit("one subscriber's part, times what is left free", f"{shares.QUICK_TIMES_FREE} of the quick room, {shares.WAITING_TIMES_FREE} of the waiting one", "wait, while others go"),
            Limit("of one endpoint in one claim", count(claiming.ROWS_WANTED), "the next claim"),
            Limit("lease of a delivery", f"{requests.LEASE_FACTOR} times its endpoint's time-out, in steps of {time(requests.LEASE_STEP_SECONDS)}", "sent again, as a new attempt; `rescued`"),
            Limit("addresses of a name that are tried", count(resolver.MAX_ADDRESSES), "the rest is left out"),
            Limit("headers of an answer", size(handles.MAX_HEADER_BYTES), "the rest is not kept, and said so"),
            Limit("body of an answer that is read", size(messages.TransferConfig().read_bytes), "the connection is cut; the status counts"),
            Limit("body of an answer that is kept", size(attempts.HEAD_BYTES), "cut, and said so"),
            Limit("note of an attempt", count(attempts.MAX_NOTE, "characters"), "cut"),
            Limit("error of an attempt", count(verdicts.MAX_ERROR, "characters"), "cut"),
            Limit("leases of a delivery that may expire in a row", count(verdicts.POISON_RESCUES), "dead letter"),
        ),
    ),
    Section(
        "Retries",
        (
            Limit("profile `spec`: longest wait", time(retry.SPEC_CAP_SECONDS), "no longer"),
            Limit("profile `standard`: longest wait", time(max(retry.STANDARD_STEPS)), "no longer"),
            Limit("a receiver's Retry-After", time(retry_after.MAX_RETRY_AFTER_SECONDS), "that long at the most"),
            Limit("a throttled delivery is kept alive at the least", time(retry.THROTTLE_WINDOW_SECONDS), "then its attempts count"),
            Limit("a breaker's pause", time(breaker.MAX_COOLDOWN_SECONDS), "no longer"),
            Limit("dead letters redriven when an endpoint resumes", count(dead_letters.RESUME_REDRIVES_MOST), "an operation does the rest"),
            Limit("endpoints measured in one round", count(latency.AT_ONCE), "the next round: the longest unmeasured go first"),
            Limit("samples of which percentiles are exact", count(latency.EXACT_MOST), "from a histogram"),
        ),
    ),
    Section(
        "Live pages",
        (
            Limit("topics of a socket", count(live_shares.MAX_TOPICS_OF_SOCKET), "refused `too_many_topics`; what is followed stays"),
            Limit("different topics of a viewer, by process", count(live_shares.MAX_TOPICS_OF_VIEWER), "refused `too_many_topics`"),
            Limit("names for one topic on one socket", count(consumers.MAX_NAMES), "refused"),
            Limit("sockets of a viewer, by process", count(live_shares.MAX_SOCKETS_OF_VIEWER), "closed, 4429 `too_many_sockets`"),
            Limit("sockets of a process, and of strangers among them", f"{live_shares.MAX_SOCKETS_OF_PROCESS:,} and {live_shares.MAX_STRANGERS:,}", "refused at the handshake"),
            Limit("look-ups of who it is that wait", f"{looks.MAX_WAITING:,}, each {time(looks.LOOK_SECONDS)}", "refused `unavailable`"),
            Limit("rows that a list's topic looks through where no index leads", count(windows.MOST), "the newest; `among_newest` says so"),
            Limit("rows of a state that a topic counts", count(objects.COUNT_CAP), "`counts_capped_at`: at least so many"),
            Limit("one statement of a topic's read", time(hub.READ_SECONDS), "`query_too_slow`, tried again later"),
            Limit("a message", size(consumers.MAX_MESSAGE), "closed"),
            Limit("refused messages of a socket", count(consumers.MAX_REFUSALS), "closed"),
            Limit("name of a topic", count(topics.MAX_LENGTH, "characters"), "refused"),
            Limit("time for saying who one is", time(consumers.LOGIN_SECONDS), "closed, 4401"),
            Limit("life of a token", time(viewers.MAX_TOKEN_LIFE), "no longer"),
            Limit("reads of one topic", f"one in {time(hub.MIN_GAP_SECONDS)}, at the latest every {time(hub.LOOK_SECONDS)}", "wait"),
            Limit("reads at once, by process", count(hub.READERS), "wait"),
            Limit("time a process's heartbeat is kept", time(heartbeat.KEPT), "removed"),
        ),
    ),
    Section(
        "Operations, admin, audit",
        (
            Limit("wait of a row of beat's schedule", time(schedule.LONGEST_WAIT), "refused on saving; passed over, with an alert"),
            Limit("a host's clock against the database's", time(clock.OFF_SECONDS), "alert `clock_off`"),
            Limit("lease of an operation's runner", time(operation_engine.LEASE), "the next runner goes on where it stood"),
            Limit("ids of a filter", count(filters.MAX_IDS), "400"),
            Limit("types, and a text, in an operation's filter", f"{filters.MAX_TYPES:,}, and {filters.MAX_TEXT:,} characters", "400"),
            Limit("ids of one part of a written set", count(operation_sets.PART), "the next part"),
            Limit("rows of a canary", count(plan.CANARY), "the rest waits for it"),
            Limit("rows of a selection in the admin", count(actions.MAX_SELECTED), "refused; make an operation"),
            Limit("rows of an admin list", count(bases.LISTED_MOST), "the next page"),
            Limit("open alerts on the start page", count(figures.ALERTS_SHOWN), "the newest; the list has all"),
            Limit("endpoints that one look of an alert rule names", count(rules.ENDPOINTS_LOOKED_AT), "the others when these are settled"),
            Limit("a journey: rows of each sort, tasks and deliveries looked at", f"{journeys.MOST:,}, {journeys.LOOKED_AT:,} of each", "left out, and said so"),
            Limit("rows counted and paged through in an admin list", count(lists.COUNTED), "told as more than that; filter to see them"),
            Limit("rows that an admin list looks through where no index leads", count(windows.MOST), "the newest; the list says so"),
            Limit("dead letters counted in the sidebar", count(badges.CAP), "told as more than that"),
            Limit("ids kept with an audit entry", count(audit.IDS_KEPT), "counted, not kept"),
        ),
    ),
    Section(
        "Commands",
        (
            Limit("an event from standard input: `publish`", size(settings.BODY_CAPS["/api/v1/events"]), "refused, nothing stored"),
            Limit("a file or standard input: `submit`", size(settings.BODY_CAPS["/api/v1/batches"]), "refused, nothing stored"),
        ),
    ),
    Section(
        "Retention",
        (*tuple(Limit(what, f"{default(name)} days", "removed", name) for what, name in (("attempts", "ATTEMPT_RETENTION_DAYS"), ("delivered events, inbound events of tasks", "EVENT_RETENTION_DAYS"), ("dead letters", "DEAD_LETTER_RETENTION_DAYS"))), Limit("alerts that are over, operations with their outcomes, the audit trail", "for good", "kept")),
    ),
)  # fmt: skip
