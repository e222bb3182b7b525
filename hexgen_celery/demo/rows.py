"""The rows of the demo database: eight years of a coffee roastery that does not exist.

Every value follows from the seed. Some dates are dirty on purpose, as real ones are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

Row = tuple[Any, ...]

SUPPLIERS = (
    ("Finca Alta Mirador", "Colombia", 1),
    ("Cooperativa Rio Verde", "Colombia", 0),
    ("Sidama Hill Growers", "Ethiopia", 1),
    ("Yirga Sun Estate", "Ethiopia", 0),
    ("Fazenda Pedra Azul", "Brazil", 0),
    ("Serra Clara Coffee", "Brazil", 1),
    ("Antigua Slopes", "Guatemala", 1),
    ("Nyeri Highlands", "Kenya", 0),
    ("Hojas Finas Tea", "Argentina", 1),
    ("Mistvale Gardens", "India", 1),
    ("Steelhand Tools", "Germany", 0),
    ("Porcelana Boa", "Portugal", 0),
)
COFFEES = ("Dawn", "Harbour", "Granite", "Meadow", "Lantern", "Comet", "Willow", "Ember", "Fjord")
STYLES = ("Filter", "Espresso", "Decaf")
TEAS = ("Green Lake", "Black Heron", "Amber Oolong", "White Fern", "Smoke Pine", "Mint Ridge")
GEAR = (
    ("Hand Grinder", 79.0),
    ("Gooseneck Kettle", 64.5),
    ("Scale 0.1 g", 38.9),
    ("Dripper Size 2", 21.0),
    ("French Press 1 l", 34.0),
    ("Milk Pitcher", 18.5),
    ("Knock Box", 29.9),
    ("Cleaning Brush", 6.4),
)
CUPS = (("Espresso Cup", 9.5), ("Cappuccino Cup", 12.0), ("Latte Glass", 8.0), ("Travel Mug", 24.0))
CITIES = (
    ("Oslo", "Norway"),
    ("Bergen", "Norway"),
    ("Stockholm", "Sweden"),
    ("Malmö", "Sweden"),
    ("Copenhagen", "Denmark"),
    ("Hamburg", "Germany"),
    ("Leipzig", "Germany"),
    ("Lyon", "France"),
    ("Porto", "Portugal"),
    ("Gdańsk", "Poland"),
)
SEGMENTS = ("Café", "Office", "Restaurant", "Private")
FIRST_WORDS = (
    "Blue",
    "Old",
    "Little",
    "Golden",
    "North",
    "Quiet",
    "Red",
    "Green",
    "Corner",
    "River",
)
LAST_WORDS = (
    "Door",
    "Kitchen",
    "Bakery",
    "Studio",
    "House",
    "Table",
    "Garden",
    "Works",
    "Room",
    "Bar",
)
FIRST_NAMES = ("Ada", "Björn", "Chloé", "Dario", "Elin", "Farid", "Greta", "Hugo", "Ines", "Jonas")
FAMILY_NAMES = ("Aasen", "Brandt", "Costa", "Dahl", "Eriksen", "Fontaine", "Grabowski", "Holm")
ROLES = ("Sales", "Sales", "Sales", "Support", "Roasting")
CARRIERS = ("Polar Post", "RailFreight", "Swift Wheels", "Harbour Line")
COMMENTS = (
    "Round and sweet, will buy again.",
    "Too dark for my taste.",
    "Arrived late but fresh.",
    "Best cup we serve.",
    "The lid does not close well.",
    None,
)
FIRST_SALE = date(2018, 1, 2)
SALE_DAYS = 2_550
INVALID_UTF8 = b"Lovely caf\xe9 blend"
INVALID_REVIEW = 17


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows the growing tables have."""

    customers: int = 320
    employees: int = 24
    sales: int = 1_700
    reviews: int = 760


def demo_rows(seed: int, sizes: Sizes | None = None) -> Iterator[tuple[str, list[Row]]]:
    """Every table's name with its rows, parents before children."""
    sizes = sizes or Sizes()
    rng = random.Random(seed)
    products = _products(rng)
    sales = _sales(rng, sizes)
    yield "supplier", [(number, *each) for number, each in enumerate(SUPPLIERS, 1)]
    yield "product", products
    yield "customer", _customers(rng, sizes)
    yield "employee", _employees(rng, sizes)
    yield "sale", [(*head, _dirty_date(rng, day), status) for *head, day, status in sales]
    yield "sale_line", _sale_lines(rng, sales, products)
    yield "shipment", _shipments(rng, sales)
    yield "review", _reviews(rng, sizes, products)


def _products(rng: random.Random) -> list[Row]:
    coffees = [
        (
            f"{name} {style}",
            "Coffee",
            rng.randint(1, 8),
            _price(rng, 8, 19),
            rng.choice((250, 500, 1000)),
        )
        for name in COFFEES
        for style in STYLES
    ]
    teas = [
        (name, "Tea", rng.choice((9, 10)), _price(rng, 6, 15), rng.choice((50, 100)))
        for name in TEAS
    ]
    gear = [(name, "Equipment", 11, price, rng.randint(80, 1500)) for name, price in GEAR]
    cups = [(name, "Tableware", 12, price, None) for name, price in CUPS]
    listed = [*coffees, *teas, *gear, *cups]
    return [(number, *each, int(rng.random() < 0.12)) for number, each in enumerate(listed, 1)]


def _price(rng: random.Random, low: int, high: int) -> float:
    return round(rng.uniform(low, high), 1)


def _customers(rng: random.Random, sizes: Sizes) -> list[Row]:
    rows = []
    for number in range(1, sizes.customers + 1):
        segment = rng.choices(SEGMENTS, (4, 3, 2, 3))[0]
        words = (FIRST_NAMES, FAMILY_NAMES) if segment == "Private" else (FIRST_WORDS, LAST_WORDS)
        name = f"{rng.choice(words[0])} {rng.choice(words[1])}"
        joined = _dirty_date(rng, FIRST_SALE + timedelta(rng.randrange(SALE_DAYS)))
        rows.append((number, name, *rng.choice(CITIES), segment, joined))
    return rows


def _employees(rng: random.Random, sizes: Sizes) -> list[Row]:
    rows: list[Row] = []
    for number in range(1, sizes.employees + 1):
        name = f"{FIRST_NAMES[number % 10]} {FAMILY_NAMES[number % 8]}"
        role = "Director" if number == 1 else "Manager" if number <= 4 else rng.choice(ROLES)
        manager = None if number == 1 else 1 if number <= 4 else rng.randint(2, 4)
        hired = date(2012, 1, 1) + timedelta(rng.randrange(4_000))
        base = {"Director": 98_000, "Manager": 71_000}.get(role, 42_000)
        rows.append(
            (number, name, role, manager, hired.isoformat(), base + 100 * rng.randrange(90))
        )
    return rows


def _sales(rng: random.Random, sizes: Sizes) -> list[Row]:
    days = sorted(FIRST_SALE + timedelta(rng.randrange(SALE_DAYS)) for _ in range(sizes.sales))
    return [
        (
            number,
            rng.randint(1, sizes.customers),
            rng.randint(5, sizes.employees),
            day,
            rng.choices(("paid", "open", "cancelled", "returned"), (84, 7, 6, 3))[0],
        )
        for number, day in enumerate(days, 1)
    ]


def _sale_lines(rng: random.Random, sales: list[Row], products: list[Row]) -> list[Row]:
    return [
        (
            sale[0],
            place,
            product[0],
            rng.randint(1, 24),
            rng.choice((0.0, 0.0, 0.0, 5.0, 10.0, 12.5)),
        )
        for sale in sales
        for place, product in enumerate(rng.sample(products, rng.randint(1, 4)), 1)
    ]


def _shipments(rng: random.Random, sales: list[Row]) -> list[Row]:
    rows: list[Row] = []
    for sale, _customer, _employee, day, status in sales:
        if status == "cancelled" or rng.random() < 0.05:
            continue
        shipped = day + timedelta(rng.randint(0, 4))
        delivered = None if rng.random() < 0.06 else (shipped + timedelta(rng.randint(1, 9)))
        rows.append(
            (
                len(rows) + 1,
                sale,
                rng.choice(CARRIERS),
                shipped.isoformat(),
                delivered.isoformat() if delivered else None,
                round(rng.uniform(3, 60), 2),
            )
        )
    return rows


def _reviews(rng: random.Random, sizes: Sizes, products: list[Row]) -> list[Row]:
    return [
        (
            number,
            rng.choice(products)[0],
            rng.randint(1, sizes.customers),
            rng.choices((1, 2, 3, 4, 5), (1, 2, 4, 8, 7))[0],
            rng.choice(COMMENTS),
            (FIRST_SALE + timedelta(rng.randrange(SALE_DAYS))).isoformat(),
        )
        for number in range(1, sizes.reviews + 1)
    ]


def _dirty_date(rng: random.Random, day: date) -> str | None:
    """Mostly ISO 8601; sometimes the German form, empty, a word, or nothing at all."""
    dirt = rng.random()
    if dirt < 0.94:
        return day.isoformat()
    if dirt < 0.97:
        return day.strftime("%d.%m.%Y")
    return rng.choice(("", "unknown", None))
