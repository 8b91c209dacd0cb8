"""Life in the shop: transactions at a steady rate, each with a row in the ledger that carries the writer's clock.

Inserts, updates, deletes, changed keys, cascades, whole and partial rollbacks, several tables in one transaction, rows
without a key. Deadlocks and refused rows happen as in any shop: the transaction is rolled back and life goes on. What
does not live here: measuring (latency.py), what the databases say differently (words.py).
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from anabranch.demo.words import Words, words_of
from anabranch.testing.databases import Database

WORKERS = 2
KEPT_LEDGER = 100_000  # rows per worker; older ones are removed now and then
METHODS = ("card", "invoice", "transfer")
STATUSES = ("new", "active", "gold", "blocked")


@dataclass
class Totals:
    """Counts of the writers' transactions: committed, rolled back on purpose, and refused by the server."""

    committed: int = 0
    rolled_back: int = 0
    refused: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.committed + other.committed, self.rolled_back + other.rolled_back, self.refused + other.refused
        )


class Shop:
    """The transactions of one worker, on one connection. Each method returns whether its transaction is to be
    committed."""

    def __init__(self, connection: Any, worker: int, words: Words, is_keyed: bool = False) -> None:
        """`is_keyed`: leave alone the table without a key."""
        self.enter(connection, words)
        self.worker, self.is_keyed = worker, is_keyed
        self.random = random.Random(worker)
        self.orders: deque[int] = deque(maxlen=500)  # own orders, newest last
        self.customers: deque[int] = deque(maxlen=200)
        self.number = 0
        self.totals = Totals()

    def enter(self, connection: Any, words: Words) -> None:
        """Go on with another connection, which may be one to another server."""
        self.connection, self.words, self.cursor = connection, words, connection.cursor()

    def one(self) -> None:
        """Run one transaction with its ledger row. Raises driver errors other than collisions and refused rows."""
        event, work = self.random.choices(EVENTS, WEIGHTS)[0]
        while self.is_keyed and work in KEYLESS:
            event, work = self.random.choices(EVENTS, WEIGHTS)[0]
        try:
            keep = work(self)
            self.write_ledger(event)
            self.connection.commit() if keep else self.connection.rollback()
        except self.words.driver_error as error:
            if not self.words.is_collision(error):
                raise
            self.connection.rollback()
            self.totals.refused += 1
        else:
            self.totals.committed += keep
            self.totals.rolled_back += not keep

    def write_ledger(self, event: str) -> None:
        """Write the ledger row as the last one of the transaction, so that its clock is near the commit."""
        self.number += 1
        self.run("INSERT INTO ledger VALUES (%s, %s, %s, %s)", self.worker, self.number, event, clock())

    def run(self, sql: str, *values: object) -> None:
        self.cursor.execute(sql, values)

    def insert(self, sql: str, *values: object) -> int:
        """Insert a row. Returns the id that it was given."""
        return self.words.insert(self.cursor, sql, values)

    def some_order(self) -> int:
        return self.random.choice(self.orders) if self.orders else self.random.randint(1, 30_000)

    def some_customer(self) -> int:
        return self.random.randint(1, 20_000)

    def some_product(self) -> int:
        return self.random.randint(1, 10_000)

    def some_price(self) -> str:
        return f"{self.random.randint(100, 50_000) / 100:.2f}"

    # --- transactions ------------------------------------------------------------------------------------------------

    def place_order(self) -> bool:
        """Place an order with its items; the stock of each goes down."""
        order = self.insert(
            "INSERT INTO orders (customer_id, reference, total, note, ordered_at) VALUES (%s, %s, %s, %s, %s)",
            *(self.some_customer(), self.random.randbytes(8), self.some_price()),
            *(self.random.choice((None, "leave at the door", "für Zoë ☂")), clock()),
        )
        for line, product in enumerate(sorted({self.some_product() for _ in range(self.random.randint(1, 4))}), 1):
            self.run("INSERT INTO order_items VALUES (%s, %s, %s, 1, %s)", order, line, product, self.some_price())
            self.run("UPDATE stock SET quantity = quantity - 1 WHERE product_id = %s AND warehouse = 'OST'", product)
        self.orders.append(order)
        return True

    def pay(self) -> bool:
        order = self.some_order()
        self.run("UPDATE orders SET state = 'paid' WHERE id = %s", order)
        self.run(
            "INSERT INTO payments (order_id, method, amount, paid_on) SELECT id, %s, total, %s FROM orders WHERE id = %s",
            *(self.random.choice(METHODS), clock().date(), order),
        )
        return True

    def cancel_order(self) -> bool:
        """Delete an order; its items and payments go by cascade."""
        self.run("DELETE FROM orders WHERE id = %s", self.some_order())
        return True

    def renumber_order(self) -> bool:
        """Change a primary key that items and payments follow, by cascade."""
        order = self.some_order()
        self.run("UPDATE orders SET id = -id WHERE id = %s", order)
        if order in self.orders:
            self.orders.remove(order)
            self.orders.append(-order)
        return True

    def count_stock(self) -> bool:
        self.run(
            "UPDATE stock SET quantity = quantity + %s, counted_at = %s WHERE product_id = %s",
            *(self.random.randint(1, 50), clock().time().replace(microsecond=0), self.some_product()),
        )
        return True

    def move_stock(self) -> bool:
        """Change a part of a composite key."""
        came, went = self.random.sample(("WST", "NRD", "SUD"), 2)
        self.run(
            "UPDATE stock SET warehouse = %s WHERE product_id = %s AND warehouse = %s", came, self.some_product(), went
        )
        return True

    def reprice(self) -> bool:
        """Update a range of products, in the order of their keys."""
        first = self.some_product()
        self.run(
            "UPDATE products SET price = price + 0.01, rating = %s, weight = %s WHERE id BETWEEN %s AND %s",
            *(self.random.random() * 5, self.random.random(), first, first + self.random.randint(0, 12)),
        )
        return True

    def describe(self) -> bool:
        self.run(
            "UPDATE products SET description = %s, thumbnail = %s WHERE id = %s",
            *(
                "New: " + "words and wörds " * self.random.randint(0, 80),
                self.random.randbytes(40),
                self.some_product(),
            ),
        )
        return True

    def register(self) -> bool:
        """Insert a customer with two addresses."""
        customer = self.insert(
            "INSERT INTO customers (email, name, interests, flags, preferences, secret) VALUES (%s, %s, %s, %s, %s, %s)",
            *(f"{self.worker}.{time.time_ns()}@example.org", "Renée Ångström"),
            *(self.words.interests(self.random.randint(0, 31)), self.words.flags(self.random.randint(0, 255))),
            *('{"theme": "dark", "size": 1.50}', self.random.randbytes(16)),
        )
        for kind in ("home", "work"):
            self.run(
                "INSERT INTO addresses (customer_id, kind, street, city, latitude) VALUES (%s, %s, %s, %s, %s)",
                *(
                    customer,
                    kind,
                    f"Straße {self.random.randint(1, 200)}",
                    self.random.choice(("Köln", "大阪", "Oslo")),
                    self.random.random(),
                ),
            )
        self.customers.append(customer)
        return True

    def edit_customer(self) -> bool:
        self.run(
            f"UPDATE customers SET credit = credit + 1, status = %s, is_newsletter = {self.words.other_newsletter}, born = %s "
            "WHERE id = %s",
            *(self.random.choice(STATUSES), self.random.choice((None, "1999-12-31")), self.some_customer()),
        )
        return True

    def leave(self) -> bool:
        """Delete a customer who never ordered; the addresses go by cascade."""
        if self.customers:
            self.run("DELETE FROM customers WHERE id = %s", self.customers.popleft())
        return True

    def close_category(self) -> bool:
        """Delete a category. Its products and sub-categories lose it (SET NULL), and most products get another one."""
        self.run("SELECT id FROM categories")
        self.run("DELETE FROM categories WHERE id = %s", *self.random.choice(self.cursor.fetchall()))
        category = self.insert("INSERT INTO categories (parent_id, name) VALUES (NULL, 'Opened today')")
        without = "SELECT id FROM products WHERE category_id IS NULL ORDER BY id LIMIT 60"
        self.run(f"UPDATE products SET category_id = %s WHERE id IN (SELECT id FROM ({without}) AS first)", category)
        return True

    def browse(self) -> bool:
        """Insert rows without a key, equal ones among them."""
        for event in ("login", "search", "search"):
            self.run("INSERT INTO event_log VALUES (NOW(), %s, NULL)", event)
        return True

    def tidy(self) -> bool:
        """Delete old rows, also from the table without a key."""
        self.run(self.words.delete_oldest)
        self.run("DELETE FROM ledger WHERE writer = %s AND number < %s", self.worker, self.number - KEPT_LEDGER)
        return True

    def think_again(self) -> bool:
        """Place an order, edit a customer, and roll all of it back."""
        self.place_order()
        self.orders.pop()
        self.edit_customer()
        return False

    def half_a_change(self) -> bool:
        """Edit a customer, and roll back only what came after a savepoint."""
        self.edit_customer()
        self.run("SAVEPOINT before_price")
        self.reprice()
        self.run("ROLLBACK TO SAVEPOINT before_price")
        return True


# name in the ledger, transaction, weight
LIFE: tuple[tuple[str, Callable[[Shop], bool], int], ...] = (
    ("place order", Shop.place_order, 260),
    ("pay", Shop.pay, 180),
    ("browse", Shop.browse, 140),
    ("count stock", Shop.count_stock, 120),
    ("edit customer", Shop.edit_customer, 80),
    ("cancel order", Shop.cancel_order, 25),
    ("describe", Shop.describe, 40),
    ("register", Shop.register, 40),
    ("move stock", Shop.move_stock, 30),
    ("think again", Shop.think_again, 30),
    ("reprice", Shop.reprice, 20),
    ("renumber order", Shop.renumber_order, 8),
    ("half a change", Shop.half_a_change, 20),
    ("leave", Shop.leave, 8),
    ("tidy", Shop.tidy, 4),
    ("close category", Shop.close_category, 1),
)
EVENTS = [(event, work) for event, work, _ in LIFE]
WEIGHTS = [weight for _, _, weight in LIFE]
KEYLESS = (Shop.browse, Shop.tidy)


class Writer:
    """Workers in threads. `rate`: transactions per second of all workers together. Leaving the context stops them."""

    def __init__(self, database: Database, rate: float, workers: int = WORKERS) -> None:
        self._stop = threading.Event()
        self._failures: list[Exception] = []
        self._shops: list[Shop] = []
        self._threads = [
            threading.Thread(target=self._live, args=(database, number, workers / rate), daemon=True)
            for number in range(1, workers + 1)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def stop(self) -> Totals:
        """Stop after the running transactions. Raises the error that ended a worker early."""
        self.__exit__()
        self.check()
        return self.totals

    def check(self) -> None:
        """Raise the error that ended a worker, if there is one."""
        if self._failures:
            raise self._failures[0]

    @property
    def totals(self) -> Totals:
        return sum((shop.totals for shop in self._shops), Totals())

    def _live(self, database: Database, number: int, pause: float) -> None:
        words = words_of(database.server.name)
        try:
            with closing(database.connect(autocommit=False)) as connection:
                shop = Shop(connection, number, words)
                shop.run(words.utc)
                self._shops.append(shop)
                self._work(shop, pause)
        except words.driver_error as error:
            self._failures.append(error)

    def _work(self, shop: Shop, pause: float) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            shop.one()
            due = max(due + pause, time.monotonic() - 1.0)  # a second of delay is made up for, more is not
            self._stop.wait(max(0.0, due - time.monotonic()))


def clock() -> datetime:
    """Return the time in UTC without a zone, as DATETIME(6) holds it."""
    return datetime.now(UTC).replace(tzinfo=None)
