"""Each adapter has its page, which begins with what to click, and names every option and status word of it."""

from pathlib import Path

import pytest
from django.conf import settings

from tasks.providers import apify, http, outscraper, replicate
from tasks.providers.apify import payloads as apify_words
from tasks.providers.http import payloads as http_words
from tasks.providers.outscraper import payloads as outscraper_words
from tasks.providers.replicate import payloads as replicate_words

ADAPTERS = [
    (apify.ApifyProvider, apify_words),
    (outscraper.OutscraperProvider, outscraper_words),
    (replicate.ReplicateProvider, replicate_words),
    (http.HttpProvider, http_words),
]


@pytest.mark.parametrize(("adapter", "words"), ADAPTERS)
def test_its_page_says_all_of_it(adapter, words):
    page = (Path(settings.BASE_DIR) / "docs" / "providers" / f"{adapter.adapter}.md").read_text()
    assert page.split("\n\n")[1].startswith(("**At ", "**In ", "For "))
    assert [name for name in adapter.option_words if f"`{name}`" not in page] == []
    spelled = page.lower().replace("-", "_")
    missing = [word for word in words.STATUSES if f"`{word}`" not in spelled]
    assert missing == ([] if adapter.adapter != "replicate" else ["cancelled"])  # understood, and never written


@pytest.mark.parametrize(("adapter", "words"), ADAPTERS)
def test_what_it_says_of_itself_fits_together(adapter, words):
    assert adapter.title and adapter.option_words and adapter.carries_reference
    assert adapter.takes_base_url and (adapter.default_base_url.startswith("https://") or adapter is http.HttpProvider)
