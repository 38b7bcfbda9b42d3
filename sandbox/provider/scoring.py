"""scoring: how promising a business is, 0 to 100, by written rules. Every point has a reason."""

from __future__ import annotations

from typing import Any

BASE = 40
DEFAULT_THRESHOLD = 60


def score(request: dict[str, Any]) -> dict[str, Any]:
    """`request` is a validated input. `passed` compares with its `threshold`, 60 by default."""
    reasons = [*_of_business(request["business"])]
    if request.get("email"):
        reasons += _of_email(request["email"], request["business"]["name"])
    total = max(0, min(100, BASE + sum(reason["points"] for reason in reasons)))
    threshold = DEFAULT_THRESHOLD if request.get("threshold") is None else request["threshold"]
    return {
        "score": total,
        "reasons": reasons,
        "threshold": threshold,
        "passed": total >= threshold,
        "business": request["business"]["name"],
    }


def _reason(rule: str, points: int, text: str) -> dict[str, Any]:
    return {"rule": rule, "points": points, "text": text}


def _of_business(business: dict[str, Any]) -> list[dict[str, Any]]:
    rating, reviews = business.get("rating"), business.get("reviews") or 0
    reasons = []
    if rating is None:
        reasons.append(_reason("rating_unknown", -5, "Nobody has rated it yet."))
    elif rating >= 4.5:
        reasons.append(_reason("rating_high", 20, f"Rated {rating}, which is among the best."))
    elif rating >= 4.0:
        reasons.append(_reason("rating_good", 10, f"Rated {rating}, which is good."))
    elif rating < 3.5:
        reasons.append(_reason("rating_low", -15, f"Rated {rating}: customers complain."))
    if reviews >= 100:
        reasons.append(_reason("reviews_many", 15, f"{reviews} reviews: a busy place."))
    elif reviews >= 20:
        reasons.append(_reason("reviews_some", 8, f"{reviews} reviews."))
    elif reviews < 5:
        reasons.append(_reason("reviews_few", -5, f"Only {reviews} reviews."))
    if business.get("website"):
        reasons.append(_reason("website", 10, "Has a website."))
    else:
        reasons.append(_reason("website_missing", 5, "Has no website, so there is something to sell."))
    if not business.get("place"):
        reasons.append(_reason("place_unknown", -10, "It is not known where it is."))
    return reasons


def _of_email(email: dict[str, Any], name: str) -> list[dict[str, Any]]:
    subject, body = email.get("subject") or "", email.get("body") or ""
    reasons = []
    if name in body or name in subject:
        reasons.append(_reason("email_personal", 10, "The e-mail names the business."))
    else:
        reasons.append(_reason("email_impersonal", -15, "The e-mail does not name the business."))
    if not subject:
        reasons.append(_reason("subject_missing", -20, "The e-mail has no subject."))
    elif len(subject) > 78:
        reasons.append(_reason("subject_long", -5, "The subject is longer than 78 characters."))
    if not 80 <= len(body) <= 2000:
        reasons.append(_reason("body_length", -5, f"The body has {len(body)} characters; 80 to 2000 read well."))
    return reasons
