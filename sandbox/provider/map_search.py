"""map_search: businesses of a trade in a real place. The place is real, its businesses are made up.

The same input always gives the same result. Websites end in `.example` and lead nowhere, by RFC 2606.
"""

from __future__ import annotations

import json
import math
import random
import re
import unicodedata
from typing import Any

from sandbox.provider.gazetteer import City, Gazetteer
from sandbox.provider.words import Words, words_of

MAX_RADIUS_KM = 18.0
KM_PER_DEGREE = 111.32


def search(query: dict[str, Any], gazetteer: Gazetteer) -> dict[str, Any]:
    """`query` is a validated input. An unknown place is an answer too: no places, and a note that says why."""
    city = gazetteer.find(query["place"], query.get("country") or "")
    if city is None:
        where = f" in {query['country'].upper()}" if query.get("country") else ""
        note = f"No place called “{query['place']}” is known{where}."
        return {"query": query, "place": None, "places": [], "note": note}
    rng = random.Random(json.dumps(query, sort_keys=True, ensure_ascii=False))
    limit = query.get("limit") or 10
    count = min(limit, rng.randint(2, 10) if city.population < 10_000 else rng.randint(5, 60))
    place = {
        "name": city.name,
        "country": city.country,
        "lat": city.latitude,
        "lon": city.longitude,
        "population": city.population,
    }
    return {
        "query": query,
        "place": place,
        "places": [_business(rng, query["trade"].strip(), city, gazetteer) for _ in range(count)],
    }


def _business(rng: random.Random, trade: str, city: City, gazetteer: Gazetteer) -> dict[str, Any]:
    words = words_of(city.country)
    name = _name(rng, words, trade, city)
    number = f"{rng.getrandbits(40):010x}"
    latitude, longitude = _near(rng, city)
    return {
        "id": f"place_{number}",
        "name": name,
        "category": trade,
        "address": words.address.format(street=rng.choice(words.streets), number=rng.randint(1, 180)),
        "place": city.name,
        "country": city.country,
        "lat": latitude,
        "lon": longitude,
        "rating": round(min(5.0, max(1.5, rng.gauss(4.2, 0.5))), 1),
        "reviews": int(rng.lognormvariate(3.6, 1.2)),
        "website": f"https://{_slug(name) or 'www'}-{number[:5]}.example" if rng.random() < 0.85 else "",
        "phone": _phone(rng, gazetteer.dialling_codes.get(city.country, "")),
    }


def _name(rng: random.Random, words: Words, trade: str, city: City) -> str:
    shown = trade if words is words_of("JP") or words is words_of("CN") else trade[:1].upper() + trade[1:]
    return rng.choice(words.patterns).format(trade=shown, name=rng.choice(words.surnames), place=city.name)


def _near(rng: random.Random, city: City) -> tuple[float, float]:
    """Somewhere in town: the bigger the town, the further out, denser towards the middle."""
    reach = min(MAX_RADIUS_KM, 0.8 + math.sqrt(city.population / 1000) / 5)
    distance, direction = reach * rng.random(), rng.uniform(0, 2 * math.pi)
    latitude = city.latitude + distance * math.cos(direction) / KM_PER_DEGREE
    per_degree = KM_PER_DEGREE * max(0.05, math.cos(math.radians(city.latitude)))
    longitude = city.longitude + distance * math.sin(direction) / per_degree
    return round(latitude, 6), round((longitude + 180) % 360 - 180, 6)


def _phone(rng: random.Random, dialling_code: str) -> str:
    code = re.split("and|,", dialling_code)[0].strip().lstrip("+") or "1"
    return f"+{code} {rng.randint(20, 99)} {rng.randint(100, 999)} {rng.randint(1000, 9999)}"


def _slug(name: str) -> str:
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", ascii_name).strip("-")[:40]
