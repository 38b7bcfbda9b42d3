"""What one caller may bring, as numbers: beyond each there is a refusal in words, and nothing is stored.

Pure. How large an event may be, how many endpoints a subscriber may have and how many deliveries one call may make are
settings (`EVENT_MAX_BYTES`, `ENDPOINTS_PER_SUBSCRIBER`, `DELIVERIES_PER_CALL`). Rows that were stored under other
numbers are read, sent and changed all the same: only what is given anew is judged.
"""

from kernel.network.addresses import MAX_URL as MAX_URL

EVENTS_PER_CALL = 1_000

MAX_EVENT_TYPES = 100  # patterns of one endpoint: each event is compared with all of them
MAX_EVENT_TYPE = 100
MAX_TEMPLATE = 64 * 1024
MAX_PEM = 64 * 1024  # a certificate has about 2 KB: a chain, or a private CA's bundle
MAX_CERTIFICATES = 50
MAX_BODY_RULE = 4_000
MAX_RULE_TEXT = 1_000  # of one of its three texts, by API
MAX_DELAYS = 50
MAX_TRANSIENT_CODES = 50

REPLAYED_IDS = 10_000
REPLAYED_TYPES = 100
