"""Word lists of the training corpus, and generators of values that no list holds.

Every generator takes its `random.Random`: the same seed gives the same text. The lists are plain everyday
words; made-up words, numbers and codes keep the values from being learnt by heart.
"""

import random
from collections.abc import Callable

Make = Callable[[random.Random], str]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _words(
    "Anna Ben Clara David Elena Felix Grace Hugo Ines Jonas Karin Liam Maria Nora Oscar Paula Quentin Rosa "
    "Simon Tara Ursula Victor Wendy Xavier Yara Zoe Amir Bea Chloe Dmitri Emil Fatima Goran Hana Ivan Julia "
    "Kofi Lena Mateo Nina Omar Petra Rahul Sofia Tomas Uma Vera Walter Ximena Yusuf Zara Alice Bruno Carla "
    "Derek Eva Frank Gina Henry Iris Jack Kim Laura Mark Nadia Otto Priya Ralph Sara Theo Vivian Will José "
    "René Zoë Björn Chloé Núria Søren Åsa Łukasz Jürgen Inès Renée Márta"
)
LAST_NAMES = _words(
    "Smith Jones Brown Miller Davis Garcia Wilson Moore Taylor Thomas Jackson White Harris Martin Thompson "
    "Young Allen King Wright Scott Green Baker Adams Nelson Hill Campbell Mitchell Roberts Carter Phillips "
    "Evans Turner Parker Collins Edwards Stewart Morris Rogers Reed Cook Bell Murphy Bailey Cooper Kelly "
    "Howard Ward Cox Gray James Watson Brooks Kelly Price Bennett Wood Barnes Ross Henderson Coleman Jenkins "
    "Perry Powell Long Hughes Flores Butler Foster Bryant Diaz Hayes Myers Ford Hamilton Graham Wallace West "
    "Cole Owens Ruiz Fisher Ellis Müller Weiß Peña Nuñez Løvstad Kovač Dubois Lefèvre Håland Andersson "
    "Tanaka Sato Kim Park Chen Wang Singh Patel Okafor Mensah Rossi Novak Horvat Silva Costa Ortega"
)
CITIES = _words(
    "Berlin Paris London Madrid Rome Vienna Prague Warsaw Lisbon Dublin Oslo Stockholm Helsinki Copenhagen "
    "Athens Budapest Zürich Geneva Munich Hamburg Köln Lyon Nice Porto Seville Turin Naples Kraków Riga "
    "Tallinn Boston Chicago Denver Seattle Austin Dallas Houston Phoenix Miami Atlanta Toronto Montréal "
    "Vancouver Bogotá Lima Quito Santiago Cairo Nairobi Lagos Accra Tunis Mumbai Delhi Osaka Kyoto Tokyo "
    "Seoul Sydney Perth Auckland Leeds York Bath Cardiff Glasgow Bergen Aarhus Malmö Ghent Bruges"
)
STREETS = _words(
    "Main Oak Park Pine Cedar Lake Hill Church Mill River Spring Garden Station School Bridge Market Forest "
    "Meadow North South Elm Maple King Queen Castle Chapel Harbour Orchard Sunset Valley"
)
PRODUCTS = _words(
    "lamp chair table desk phone laptop camera bottle cup plate knife spoon shirt jacket coat hat scarf boot "
    "shoe bag box pen notebook clock watch ring mirror carpet pillow blanket towel candle basket bicycle "
    "helmet tent rope hammer drill saw ladder bucket brush kettle toaster oven fridge radio speaker keyboard "
    "mouse monitor printer cable charger battery mug teapot guitar violin drum puzzle kite ball racket"
)
ADJECTIVES = _words(
    "red blue green yellow black white grey brown small large heavy light old new round square soft hard "
    "warm cold quiet loud bright dark plain simple strong thin thick wide narrow fresh dry clean sharp "
    "smooth wooden golden silver rare common gentle calm happy busy curious careful modern classic cheap"
)
NOUNS = _words(
    "garden river bridge market window letter harbour station museum library school kitchen office village "
    "mountain forest island lake storm winter summer morning evening story song picture map road train boat "
    "engine bird cat dog horse fish tree flower leaf stone cloud rain snow wind fire bread cheese apple pear "
    "soup tea coffee paper book door floor roof wall tower field farm beach valley concert meeting lesson "
    "game prize party journey project report plan team group class shop hotel airport ticket"
)
VERBS = _words(
    "opened closed painted cleaned repaired moved found lost bought sold carried washed built crossed "
    "visited watched counted drew wrote read checked planned finished started followed reached left"
)
TOPICS = _words(
    "music sport travel food science history art nature books films health money weather games fashion "
    "news cooking cycling hiking photography chess gardening theatre poetry running swimming football tennis"
)
COUNTRIES = (
    ("France", "Paris"),
    ("Germany", "Berlin"),
    ("Spain", "Madrid"),
    ("Italy", "Rome"),
    ("Austria", "Vienna"),
    ("Portugal", "Lisbon"),
    ("Ireland", "Dublin"),
    ("Norway", "Oslo"),
    ("Sweden", "Stockholm"),
    ("Finland", "Helsinki"),
    ("Denmark", "Copenhagen"),
    ("Greece", "Athens"),
    ("Hungary", "Budapest"),
    ("Poland", "Warsaw"),
    ("Latvia", "Riga"),
    ("Estonia", "Tallinn"),
    ("Peru", "Lima"),
    ("Colombia", "Bogotá"),
    ("Chile", "Santiago"),
    ("Egypt", "Cairo"),
    ("Kenya", "Nairobi"),
    ("Ghana", "Accra"),
    ("Japan", "Tokyo"),
    ("India", "Delhi"),
)
MONTHS = _words("January February March April May June July August September October November December")
DAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
UNITS = _words("kg g m cm km l ml s min h °C % mm W V")
QUANTITIES = _words("temperature length weight height speed pressure volume distance duration power")
CURRENCIES = ("EUR", "USD", "GBP", "CHF", "JPY")
STATES = ("open", "closed", "pending", "shipped", "paid", "cancelled", "draft", "done", "active", "failed")
LEVELS = ("low", "medium", "high", "urgent")
DOMAINS = ("example.com", "example.org", "mail.net", "post.io", "site.dev", "test.org")
ONSETS = _words("b c d f g h j k l m n p r s t v w z br cr dr fl gr kl pl pr sk st tr th ch")
VOWELS = _words("a e i o u a e i o ai ea io ou")
ENDINGS = _words("n r s l t m x nd rt ck ss")


def made_up(rng: random.Random) -> str:
    """A word of two or three syllables that no list holds."""
    word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(rng.randint(2, 3)))
    return word + rng.choice(ENDINGS) if rng.random() < 0.6 else word


def first_name(rng: random.Random) -> str:
    """A first name, one in eight made up."""
    return made_up(rng).capitalize() if rng.random() < 0.12 else rng.choice(FIRST_NAMES)


def full_name(rng: random.Random) -> str:
    """First and last name, sometimes with a middle initial."""
    last = made_up(rng).capitalize() if rng.random() < 0.25 else rng.choice(LAST_NAMES)
    middle = f" {rng.choice('ABCDEFGHJKLMNPRST')}." if rng.random() < 0.08 else ""
    return f"{first_name(rng)}{middle} {last}"


def city(rng: random.Random) -> str:
    """A city, one in eight made up."""
    return made_up(rng).capitalize() if rng.random() < 0.12 else rng.choice(CITIES)


def number(low: int, high: int) -> Make:
    """A generator of whole numbers as text, both ends included."""
    return lambda rng: str(rng.randint(low, high))


def decimal(rng: random.Random) -> str:
    """A number with one or two decimals."""
    digits = rng.randint(1, 2)
    return f"{rng.uniform(0, 10 ** rng.randint(1, 3)):.{digits}f}"


def price(rng: random.Random) -> str:
    """An amount of money."""
    return f"{rng.randint(1, 10 ** rng.randint(1, 3))}.{rng.choice(('00', '50', '99', '95', '25'))}"


def email(rng: random.Random) -> str:
    """An address of plain letters at one of a few domains."""
    local = rng.choice((first_name, made_up))(rng)
    plain = "".join(letter for letter in local.lower() if letter.isascii())
    tail = rng.choice(("", f".{rng.choice(LAST_NAMES).lower()}", str(rng.randint(1, 99))))
    return "".join(c for c in (plain or "info") + tail if c.isascii()) + "@" + rng.choice(DOMAINS)


def code(rng: random.Random) -> str:
    """An identifier: letters and digits in one of a few shapes."""
    letters = "".join(rng.choice("ABCDEFGHKMNPRSTXZ") for _ in range(rng.randint(1, 3)))
    digits = "".join(rng.choice("0123456789") for _ in range(rng.randint(2, 6)))
    return rng.choice((f"{letters}-{digits}", f"{letters}{digits}", digits, f"#{digits}"))


def phone(rng: random.Random) -> str:
    """A telephone number."""
    groups = [str(rng.randint(100, 999)), str(rng.randint(1000, 9999))]
    return f"+{rng.randint(1, 99)} " + " ".join(groups)


def date(rng: random.Random) -> str:
    """A date, year first."""
    return f"{rng.randint(1990, 2030)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def time_of_day(rng: random.Random) -> str:
    """Hours and minutes."""
    return f"{rng.randint(0, 23):02d}:{rng.choice(('00', '15', '30', '45', '05', '20'))}"


def street(rng: random.Random) -> str:
    """A house number and a street."""
    return f"{rng.randint(1, 199)} {rng.choice(STREETS)} {rng.choice(('Street', 'Road', 'Lane', 'Avenue'))}"


def item(rng: random.Random) -> str:
    """A product, often with an adjective."""
    noun = made_up(rng) if rng.random() < 0.1 else rng.choice(PRODUCTS)
    return f"{rng.choice(ADJECTIVES)} {noun}" if rng.random() < 0.6 else noun


def title(rng: random.Random) -> str:
    """A short free title."""
    words = [rng.choice(ADJECTIVES), rng.choice(NOUNS)]
    return rng.choice(("the ", "a ", "")) + " ".join(words)


def one_of(words: tuple[str, ...]) -> Make:
    """A generator that picks from a list."""
    return lambda rng: rng.choice(words)


def sentence(rng: random.Random) -> str:
    """A free sentence: who did what with which thing."""
    who = rng.choice((first_name(rng), f"The {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"))
    what = f"{rng.choice(VERBS)} the {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"
    where = rng.choice(("", f" in {city(rng)}", f" on {rng.choice(DAYS)}", f" near the {rng.choice(NOUNS)}"))
    return f"{who} {what}{where}."
