"""Words that simulated businesses are named with, by language. Data only."""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    surnames: tuple[str, ...]
    streets: tuple[str, ...]
    patterns: tuple[str, ...]
    """`{trade}`, `{name}`, `{place}` are filled in."""
    address: str = "{street} {number}"


WORDS: dict[str, Words] = {
    "en": Words(
        ("Baker", "Carter", "Hughes", "Murphy", "Walsh", "Bennett", "Foster", "Reid", "Clarke", "Morgan"),
        ("High Street", "Station Road", "Church Lane", "Market Street", "Mill Road", "Park Avenue"),
        ("{name} {trade}", "{name} & Sons {trade}", "The {place} {trade}", "{trade} {name}", "Old Town {trade}"),
        "{number} {street}",
    ),
    "de": Words(
        ("Huber", "Müller", "Schneider", "Weiß", "Krüger", "Böhm", "Keller", "Jäger", "Köhler", "Gruber"),
        ("Hauptstraße", "Bahnhofstraße", "Marktplatz", "Gartenweg", "Lindenallee", "Mühlgasse"),
        ("{trade} {name}", "{name} & Söhne {trade}", "{trade} am Markt", "{trade} {place}", "{name} {trade}"),
    ),
    "fr": Words(
        ("Lefèvre", "Moreau", "Girard", "Béranger", "Fournier", "Chevalier", "Rousseau", "Noël", "Garnier"),
        ("rue de la Gare", "place du Marché", "rue Victor-Hugo", "avenue de la République", "rue des Écoles"),
        ("{trade} {name}", "Chez {name}", "{trade} de {place}", "Maison {name}", "{trade} du Marché"),
        "{number} {street}",
    ),
    "es": Words(
        ("García", "Muñoz", "Fernández", "Ibáñez", "Castillo", "Núñez", "Herrera", "Ramírez", "Peña", "Ortega"),
        ("Calle Mayor", "Avenida de la Constitución", "Calle del Sol", "Plaza de España", "Calle Real"),
        ("{trade} {name}", "{trade} Hermanos {name}", "{trade} {place}", "Casa {name}", "{trade} La Plaza"),
    ),
    "pt": Words(
        ("Silva", "Gonçalves", "Araújo", "Conceição", "Magalhães", "Ribeiro", "Simões", "Teixeira", "Brandão"),
        ("Rua das Flores", "Avenida Brasil", "Rua da Estação", "Praça da República", "Rua do Comércio"),
        ("{trade} {name}", "{trade} Irmãos {name}", "{trade} {place}", "Casa {name}", "{trade} do Povo"),
        "{street}, {number}",
    ),
    "it": Words(
        ("Rossi", "Bianchi", "Colombo", "Ferrari", "D'Angelo", "Greco", "Lombardi", "Moretti", "Niccolò"),
        ("Via Roma", "Corso Italia", "Piazza Garibaldi", "Via Mazzini", "Viale della Stazione"),
        ("{trade} {name}", "{trade} Fratelli {name}", "{trade} {place}", "Da {name}", "Antica {trade} {name}"),
    ),
    "nl": Words(
        ("de Vries", "Jansen", "van Dijk", "Bakker", "Visser", "Smit", "Mulder", "Peeters", "Claes"),
        ("Dorpsstraat", "Kerkstraat", "Stationsplein", "Molenweg", "Grote Markt"),
        ("{trade} {name}", "{name} {trade}", "{trade} {place}", "{trade} De Gouden Leeuw"),
    ),
    "nordic": Words(
        ("Sørensen", "Lindström", "Bjørnstad", "Ångström", "Håkansson", "Jørgensen", "Virtanen", "Østby", "Öberg"),
        ("Storgata", "Strandveien", "Kirkegata", "Torget", "Havnegata", "Skolevägen"),
        ("{name} {trade}", "{trade} {name}", "{place} {trade}", "{name} & Co {trade}"),
    ),
    "slavic": Words(
        ("Kowalski", "Wiśniewski", "Nowák", "Dvořák", "Zieliński", "Horvat", "Żukowski", "Šimić", "Černý"),
        ("ul. Długa", "ul. Kościelna", "Náměstí Míru", "ul. Mickiewicza", "Hlavní", "ul. Słowackiego"),
        ("{trade} {name}", "{trade} u {name}", "{trade} {place}", "{name} {trade}"),
    ),
    "cyrillic": Words(
        ("Иванов", "Кузнецов", "Соколов", "Лебедев", "Шевченко", "Коваленко", "Петров", "Йовчев"),
        ("ул. Ленина", "ул. Садовая", "пр. Мира", "ул. Шевченко", "Вокзальная ул."),
        ("{trade} «{name}»", "{trade} {place}", "{trade} у {name}", "{name} и сыновья"),
        "{street}, {number}",
    ),
    "el": Words(
        ("Παπαδόπουλος", "Γεωργίου", "Νικολάου", "Οικονόμου", "Δημητρίου", "Καραγιάννης"),
        ("Οδός Ερμού", "Λεωφόρος Αθηνών", "Οδός Αγίου Γεωργίου", "Πλατεία Ελευθερίας"),
        ("{trade} {name}", "{trade} {place}", "Αφοί {name} {trade}"),
    ),
    "tr": Words(
        ("Yılmaz", "Öztürk", "Çelik", "Şahin", "Güneş", "Aydın", "Koç", "Işık"),
        ("Atatürk Caddesi", "İstiklal Caddesi", "Çarşı Sokak", "Cumhuriyet Bulvarı"),
        ("{name} {trade}", "{place} {trade}", "{name} Kardeşler {trade}"),
        "{street} No: {number}",
    ),
    "ar": Words(
        ("الحسن", "النجار", "المصري", "العلي", "الخطيب", "حداد", "السيد", "منصور"),
        ("شارع النصر", "شارع الجامعة", "شارع البحر", "ميدان التحرير", "شارع السوق"),
        ("{trade} {name}", "{trade} {place}", "{trade} أبناء {name}"),
    ),
    "he": Words(
        ("כהן", "לוי", "מזרחי", "פרץ", "ביטון", "שפירא", "אברהם"),
        ("רחוב הרצל", "שדרות רוטשילד", "רחוב דיזנגוף", "רחוב יפו"),
        ("{trade} {name}", "{trade} {place}", "{trade} האחים {name}"),
    ),
    "hi": Words(
        ("शर्मा", "पटेल", "गुप्ता", "सिंह", "Iyer", "Reddy", "Chatterjee", "जोशी"),
        ("M.G. Road", "Station Road", "गांधी मार्ग", "Nehru Street", "बाज़ार रोड"),
        ("{name} {trade}", "श्री {name} {trade}", "{place} {trade}"),
        "{number}, {street}",
    ),
    "ja": Words(
        ("佐藤", "鈴木", "高橋", "田中", "渡辺", "山本", "さくら", "松屋", "花月"),
        ("本町", "中央通り", "駅前", "桜丘", "緑町", "銀座通り"),
        ("{trade} {name}", "{name}{trade}", "{trade} {name} {place}店", "{name}屋"),
        "{street}{number}番地",
    ),
    "zh": Words(
        ("王记", "李氏", "张家", "福满", "老陈", "金龙", "和平", "幸福", "永昌"),
        ("人民路", "中山路", "解放路", "建国路", "和平街"),
        ("{name}{trade}", "{place}{name}{trade}", "{trade}（{name}）"),
        "{street}{number}号",
    ),
    "ko": Words(
        ("김가네", "한빛", "이화", "박씨", "최고", "서림", "다정"),
        ("중앙로", "시장길", "역전로", "한강대로", "벚꽃길"),
        ("{name} {trade}", "{place} {name} {trade}", "{trade} {name}"),
    ),
    "th": Words(
        ("สมชาย", "ทองดี", "ศรีสุข", "มงคล", "บัวหลวง", "เจริญ"),
        ("ถนนสุขุมวิท", "ถนนพระราม 4", "ถนนเจริญกรุง", "ซอยอารีย์"),
        ("{trade} {name}", "{trade}{name} {place}", "{name} {trade}"),
        "{number} {street}",
    ),
}

_COUNTRIES = {
    "de": "DE AT CH LI",
    "fr": "FR MC LU SN CI CM MG ML BF NE TG BJ GA CG CD HT",
    "es": "ES MX AR CO CL PE VE EC BO UY PY CR PA GT HN NI SV DO CU PR",
    "pt": "PT BR AO MZ CV",
    "it": "IT SM VA",
    "nl": "NL BE SR",
    "nordic": "NO SE DK FI IS FO GL AX EE",
    "slavic": "PL CZ SK SI HR BA ME LT LV HU RO AL",
    "cyrillic": "RU UA BY BG RS MK KZ KG MN TJ",
    "el": "GR CY",
    "tr": "TR AZ TM UZ",
    "ar": "EG SA AE MA DZ TN LY JO LB SY IQ KW QA BH OM YE SD PS IR",
    "he": "IL",
    "hi": "IN NP",
    "ja": "JP",
    "zh": "CN TW HK MO SG",
    "ko": "KR KP",
    "th": "TH LA",
}
GROUP_OF_COUNTRY = {country: group for group, countries in _COUNTRIES.items() for country in countries.split()}


def words_of(country: str) -> Words:
    """The words for a country; English where there are no better ones."""
    return WORDS[GROUP_OF_COUNTRY.get(country, "en")]
