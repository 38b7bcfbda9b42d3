"""email_generation: a first e-mail to a business, from templates. The same input always gives the same e-mail."""

from __future__ import annotations

import json
import random
from string import Template
from typing import Any, NamedTuple

LANGUAGE_OF_COUNTRY = {
    country: language
    for language, countries in {
        "de": "DE AT CH LI",
        "fr": "FR BE LU MC SN CI",
        "es": "ES MX AR CO CL PE VE EC BO UY PY CR PA GT HN NI SV DO CU",
        "it": "IT SM",
        "pt": "PT BR AO MZ",
        "nl": "NL",
        "pl": "PL",
        "no": "NO",
        "ja": "JP",
    }.items()
    for country in countries.split()
}


class Texts(NamedTuple):
    subjects: tuple[str, ...]
    greeting: dict[str, str]
    found: str
    rated: str
    new: str
    offers: tuple[str, ...]
    site: str
    closing: dict[str, str]


TEXTS: dict[str, Texts] = {
    "en": Texts(
        ("More guests for $name in $place", "An idea for $name", "$name: found by more people in $place"),
        {"friendly": "Hi $name team,", "formal": "Dear Sir or Madam at $name,"},
        "we came across $name while looking for $category in $place.",
        "$reviews reviews and $rating stars: people clearly like what you do.",
        "You are one of the newer names in town, and first impressions are made now.",
        ("We help local businesses turn searches into bookings.", "We make sure that people nearby find you first."),
        "A short look at $website gave us three concrete ideas.",
        {
            "friendly": "Shall we talk for ten minutes this week?\n\nCheers",
            "formal": "We look forward to hearing from you.\n\nYours faithfully",
        },
    ),
    "de": Texts(
        ("Mehr Kundschaft für $name in $place", "Eine Idee für $name", "$name: in $place besser gefunden werden"),
        {"friendly": "Hallo liebes Team von $name,", "formal": "Sehr geehrte Damen und Herren,"},
        "auf der Suche nach $category in $place sind wir auf $name gestoßen.",
        "$reviews Bewertungen und $rating Sterne: Ihre Arbeit kommt an.",
        "Sie sind noch neu in der Stadt, und jetzt entsteht der erste Eindruck.",
        ("Wir helfen Betrieben vor Ort, aus Suchen Aufträge zu machen.", "Wir sorgen dafür, dass man Sie findet."),
        "Ein kurzer Blick auf $website brachte uns auf drei Ideen.",
        {
            "friendly": "Haben Sie diese Woche zehn Minuten?\n\nViele Grüße",
            "formal": "Wir freuen uns auf Ihre Antwort.\n\nMit freundlichen Grüßen",
        },
    ),
    "fr": Texts(
        ("Plus de clients pour $name à $place", "Une idée pour $name"),
        {"friendly": "Bonjour à toute l'équipe de $name,", "formal": "Madame, Monsieur,"},
        "en cherchant « $category » à $place, nous avons découvert $name.",
        "$reviews avis et $rating étoiles : votre travail plaît.",
        "Vous êtes encore nouveaux en ville, et c'est maintenant que se fait la première impression.",
        ("Nous aidons les commerces locaux à transformer les recherches en rendez-vous.",),
        "Un coup d'œil à $website nous a donné trois idées concrètes.",
        {
            "friendly": "Dix minutes cette semaine, ça vous dit ?\n\nÀ bientôt",
            "formal": "Dans l'attente de votre réponse, veuillez agréer nos salutations distinguées.",
        },
    ),
    "es": Texts(
        ("Más clientes para $name en $place", "Una idea para $name"),
        {"friendly": "¡Hola, equipo de $name!", "formal": "Estimados señores de $name:"},
        "Buscando $category en $place hemos encontrado $name.",
        "$reviews reseñas y $rating estrellas: su trabajo gusta.",
        "Son nuevos en la ciudad, y la primera impresión se forma ahora.",
        ("Ayudamos a los negocios locales a convertir búsquedas en clientes.",),
        "Una mirada a $website nos dio tres ideas concretas.",
        {
            "friendly": "¿Hablamos diez minutos esta semana?\n\n¡Un saludo!",
            "formal": "Quedamos a la espera de su respuesta.\n\nAtentamente",
        },
    ),
    "it": Texts(
        ("Più clienti per $name a $place", "Un'idea per $name"),
        {"friendly": "Ciao a tutto il team di $name,", "formal": "Gentili Signori di $name,"},
        "cercando $category a $place abbiamo trovato $name.",
        "$reviews recensioni e $rating stelle: il vostro lavoro piace.",
        "Siete nuovi in città, ed è ora che nasce la prima impressione.",
        ("Aiutiamo le attività locali a trasformare le ricerche in clienti.",),
        "Uno sguardo a $website ci ha dato tre idee concrete.",
        {
            "friendly": "Ne parliamo dieci minuti questa settimana?\n\nA presto",
            "formal": "In attesa di un Vostro riscontro.\n\nCordiali saluti",
        },
    ),
    "pt": Texts(
        ("Mais clientes para $name em $place", "Uma ideia para $name"),
        {"friendly": "Olá, equipe de $name!", "formal": "Prezados senhores de $name,"},
        "Procurando $category em $place, encontramos $name.",
        "$reviews avaliações e $rating estrelas: o seu trabalho agrada.",
        "Vocês são novos na cidade, e a primeira impressão se forma agora.",
        ("Ajudamos negócios locais a transformar buscas em clientes.",),
        "Uma olhada em $website nos deu três ideias concretas.",
        {
            "friendly": "Podemos conversar dez minutos esta semana?\n\nAbraço",
            "formal": "Aguardamos o seu contato.\n\nAtenciosamente",
        },
    ),
    "nl": Texts(
        ("Meer klanten voor $name in $place", "Een idee voor $name"),
        {"friendly": "Hallo team van $name,", "formal": "Geachte heer, mevrouw,"},
        "op zoek naar $category in $place vonden wij $name.",
        "$reviews beoordelingen en $rating sterren: uw werk valt in de smaak.",
        "U bent nog nieuw in de stad, en de eerste indruk ontstaat nu.",
        ("Wij helpen lokale bedrijven om van zoekopdrachten klanten te maken.",),
        "Een blik op $website gaf ons drie concrete ideeën.",
        {
            "friendly": "Tien minuten bellen deze week?\n\nGroeten",
            "formal": "Wij zien uit naar uw antwoord.\n\nMet vriendelijke groet",
        },
    ),
    "pl": Texts(
        ("Więcej klientów dla $name ($place)", "Pomysł dla $name"),
        {"friendly": "Cześć, zespole $name!", "formal": "Szanowni Państwo,"},
        "szukając „$category” ($place), trafiliśmy na $name.",
        "$reviews opinii i ocena $rating: widać, że klienci Was lubią.",
        "Jesteście nowi w mieście, a pierwsze wrażenie powstaje właśnie teraz.",
        ("Pomagamy lokalnym firmom zamieniać wyszukiwania w klientów.",),
        "Rzut oka na $website podsunął nam trzy konkretne pomysły.",
        {
            "friendly": "Porozmawiamy dziesięć minut w tym tygodniu?\n\nPozdrawiamy",
            "formal": "Czekamy na odpowiedź.\n\nZ poważaniem",
        },
    ),
    "no": Texts(
        ("Flere kunder til $name i $place", "En idé til $name"),
        {"friendly": "Hei, alle hos $name!", "formal": "Til $name,"},
        "da vi lette etter $category i $place, fant vi $name.",
        "$reviews omtaler og $rating stjerner: folk liker det dere gjør.",
        "Dere er nye i byen, og førsteinntrykket skapes nå.",
        ("Vi hjelper lokale bedrifter med å gjøre søk om til kunder.",),
        "Et blikk på $website ga oss tre konkrete ideer.",
        {
            "friendly": "Har dere ti minutter denne uken?\n\nHilsen",
            "formal": "Vi ser frem til å høre fra dere.\n\nMed vennlig hilsen",
        },
    ),
    "ja": Texts(
        ("【ご提案】$name様の集客について", "$placeで$name様をもっと多くの方へ"),
        {"friendly": "$nameの皆さま、こんにちは。", "formal": "$name 御中"},
        "$placeで「$category」を探していたところ、$name様を拝見しました。",
        "口コミ$reviews件、評価$rating。ご好評のほどがうかがえます。",
        "開店から間もない今こそ、第一印象が決まる時期です。",
        ("地域のお店が検索から選ばれるお手伝いをしております。",),
        "$websiteを拝見し、三つの案をご用意しました。",
        {
            "friendly": "今週、十分ほどお話しできませんか。\n\nよろしくお願いします。",
            "formal": "ご返信をお待ち申し上げております。\n\n敬具",
        },
    ),
}


def write(request: dict[str, Any]) -> dict[str, Any]:
    """`request` is a validated input. A language we have no templates for falls back to English, and says so."""
    business = request["business"]
    tone = request.get("tone") or "friendly"
    wanted = (request.get("language") or "").lower() or LANGUAGE_OF_COUNTRY.get(
        (business.get("country") or "").upper(), "en"
    )
    language = wanted if wanted in TEXTS else "en"
    rng = random.Random(json.dumps(request, sort_keys=True, ensure_ascii=False))
    subject, body = _compose(TEXTS[language], business, tone, rng)
    answer = {"subject": subject, "body": body, "language": language, "tone": tone, "business": business["name"]}
    if language != wanted:
        answer["note"] = f"No templates in “{wanted}”; written in English."
    return answer


def _compose(texts: Texts, business: dict[str, Any], tone: str, rng: random.Random) -> tuple[str, str]:
    facts = {
        "name": business["name"],
        "place": business.get("place") or business.get("country") or "your town",
        "category": business.get("category") or business["name"],
        "rating": business.get("rating") or "",
        "reviews": business.get("reviews") or 0,
        "website": business.get("website") or "",
    }
    known = bool(facts["rating"]) and facts["reviews"] >= 5
    body = [texts.greeting[tone], "", texts.found, texts.rated if known else texts.new, rng.choice(texts.offers)]
    if facts["website"]:
        body.append(texts.site)
    body += ["", texts.closing[tone]]
    return (
        Template(rng.choice(texts.subjects)).safe_substitute(facts),
        Template("\n".join(body)).safe_substitute(facts),
    )
