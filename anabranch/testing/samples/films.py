"""The film rental: customers rent, return and pay; films come, change and go; staff moves."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from anabranch.testing.samples import Sample, Statements, insert, literal

LANGUAGES = ("English", "Italian", "日本語", "Français", "Deutsch")
CATEGORIES = ("Action", "Comedy", "Drama", "Horror", "Sci-Fi", "Children")
RATINGS = ("G", "PG", "PG-13", "R", "NC-17", None)
FEATURES = ("Trailers", "Commentaries", "Deleted Scenes", "Behind the Scenes")
WORDS = ("academy", "dinosaur", "golden", "café", "storm", "über", "☂", "o'clock", "night", "back\\slash")
FILMS, ACTORS, CUSTOMERS, COPIES, RENTALS, STORES, STAFF = 60, 30, 80, 120, 200, 2, 4
FIRST_DAY = datetime(2005, 5, 24, 22, 53, 30)


def fill(scale: int) -> Statements:
    chance = random.Random(1)
    films, customers, copies = FILMS * scale, CUSTOMERS * scale, COPIES * scale
    yield from insert("language (name)", ((name,) for name in LANGUAGES))
    yield from insert("category (name)", ((name,) for name in CATEGORIES))
    yield from insert(
        "actor (first_name, last_name)", ((_words(chance, 1), f"NAME {n}") for n in range(ACTORS * scale))
    )
    yield from insert(FILM, (_film(chance) for _ in range(films)))
    plays = sorted({(chance.randint(1, ACTORS * scale), chance.randint(1, films)) for _ in range(films * 3)})
    yield from insert("film_actor", plays)
    yield from insert("store (place)", ((f"Street {n}",) for n in range(STORES)))
    people = (
        (f"Staff {n}", bytes([n]) * 9 if n % 2 else None, n % STORES + 1, n % 3 > 0, "Se¢ret") for n in range(STAFF)
    )
    yield from insert("staff (name, picture, store_id, active, password)", people)
    yield "UPDATE store SET manager_id = store_id"
    yield from insert(
        "customer (store_id, first_name, last_name, email, create_date)",
        ((n % STORES + 1, _words(chance, 1), f"Last {n}", f"c{n}@example.org", FIRST_DAY) for n in range(customers)),
    )
    yield from insert(
        "inventory (film_id, store_id)", ((n % films + 1, chance.randint(1, STORES)) for n in range(copies))
    )
    for n in range(RENTALS * scale):
        yield from _rental(chance, n, copies, customers)


FILM = "film (title, description, release_year, language_id, length, replacement_cost, rating, special_features, facts)"


def _film(chance: random.Random) -> tuple[object, ...]:
    features = ",".join(f for f in FEATURES if chance.random() < 0.4)
    facts = chance.choice(('{"oscars": 3, "cast": ["a", "b"]}', "[]", None))
    cost, length = f"{chance.randint(0, 9999) / 100:.2f}", chance.choice((None, chance.randint(40, 240)))
    head = (_words(chance, 2), _words(chance, 12), chance.randint(1960, 2006), chance.randint(1, len(LANGUAGES)))
    return (*head, length, cost, chance.choice(RATINGS), features or None, facts)


def _words(chance: random.Random, number: int) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(number))


def _rental(chance: random.Random, number: int, copies: int, customers: int) -> Statements:
    when = FIRST_DAY + timedelta(minutes=37 * number, seconds=chance.randint(0, 59))
    values = (when, chance.randint(1, copies), chance.randint(1, customers), chance.randint(1, STAFF))
    yield from insert("rental (rental_date, inventory_id, customer_id, staff_id)", [values])
    amount, at = f"{chance.randint(0, 1199) / 100:.2f}", when + timedelta(microseconds=chance.randint(0, 999_999))
    yield (
        "INSERT INTO payment (customer_id, rental_id, amount, payment_date)"
        f" VALUES ({values[2]}, LAST_INSERT_ID(), {amount}, {literal(at)})"
    )


def transaction(chance: random.Random) -> Statements:
    """One of those of a day."""
    yield from chance.choices((_rents, _returns, _edits, _adds, _removes, _moves, _cleans), (9, 8, 4, 3, 1, 1, 1))[0](
        chance
    )


def _rents(chance: random.Random) -> Statements:
    yield from _rental(chance, 10_000 + chance.randint(0, 100_000), COPIES, CUSTOMERS)


def _returns(chance: random.Random) -> Statements:
    yield (
        "UPDATE rental SET return_date = rental_date + INTERVAL 3 DAY WHERE return_date IS NULL"
        f" ORDER BY rental_id LIMIT {chance.randint(1, 5)}"
    )
    yield f"UPDATE payment SET amount = amount + 1.5 WHERE rental_id = {chance.randint(1, RENTALS)} AND amount < 900"


def _edits(chance: random.Random) -> Statements:
    yield f"UPDATE film SET title = {literal(_words(chance, 3))}, length = NULL WHERE film_id = {chance.randint(1, FILMS)}"
    yield f"UPDATE customer SET email = NULL, last_name = UPPER(last_name) WHERE customer_id = {chance.randint(1, CUSTOMERS)}"


def _adds(chance: random.Random) -> Statements:
    yield from insert(FILM, [_film(chance)])
    yield "SET @film = LAST_INSERT_ID()"
    yield f"INSERT INTO film_actor VALUES ({chance.randint(1, ACTORS)}, @film)"
    yield f"INSERT INTO inventory (film_id, store_id) VALUES (@film, 1), (@film, {STORES})"


def _removes(chance: random.Random) -> Statements:
    """A film without copies: its cast goes with it, unseen by the log."""
    yield from insert(FILM, [_film(chance)])
    yield "SET @film = LAST_INSERT_ID()"
    yield f"INSERT INTO film_actor SELECT actor_id, @film FROM actor WHERE actor_id % {chance.randint(3, 9)} = 0"
    yield "DELETE FROM film WHERE film_id = @film"


def _moves(chance: random.Random) -> Statements:
    """A manager goes to the other store; for a moment none is left."""
    yield "UPDATE store SET manager_id = NULL"
    first = chance.randint(1, 2)
    yield f"UPDATE store SET manager_id = IF(store_id = 1, {first}, {3 - first})"


def _cleans(chance: random.Random) -> Statements:
    """Payments lose their rental, by a key that sets NULL."""
    yield f"DELETE FROM rental WHERE return_date IS NOT NULL AND rental_id % 50 = {chance.randint(0, 49)}"


SAMPLE = Sample(
    "films",
    fill,
    transaction,
    {
        "views": ("customer_list", "sales_by_store"),
        "triggers": ("film_added", "film_changed", "film_removed"),
        "routines": ("film_in_stock", "rentals_of"),
    },
)
