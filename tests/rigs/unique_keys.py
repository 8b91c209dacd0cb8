"""Histories of a table with unique keys, as a source makes them: one row after another, every step allowed there."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from anabranch.rows.net import TableNet
from rigs.chunks import INT, TEXT, schema

UNIQUE_KEYS = ((), (("u",),), (("u",), ("v",)), (("u", "v"), ("w",), ("v", "w")))
UNIQUE = schema("unique", {"id": INT, "u": INT, "v": INT, "w": TEXT}, ["id"])


def _lines(table) -> list[dict]:
    return table.to_pylist() if table is not None else []


class Relation:
    """A target table with unique keys and a column of its own, `tag`, that refuses as a server does, row by row."""

    def __init__(self, rows: list[dict], keys: tuple[tuple[str, ...], ...]) -> None:
        self.keys, self.rows = keys, {}
        for one in rows:
            self.put(one)

    def put(self, new: dict) -> None:
        assert new["id"] not in self.rows, "the key is there"
        for key in self.keys:
            wanted = [new[name] for name in key]
            assert None in wanted or all([r[n] for n in key] != wanted for r in self.rows.values()), f"{key} is there"
        self.rows[new["id"]] = new

    def set(self, id: int, values: dict) -> None:
        self.put(self.rows.pop(id) | values)

    def carry_out(self, net: TableNet, in_turn: bool) -> None:
        for key in _lines(net.deletes):
            del self.rows[key["id"]]
        pairs = [
            (u, old["id"], new)
            for u in net.updates
            for old, new in zip(u.old_keys.to_pylist(), u.values.to_pylist(), strict=True)
        ]
        taken = [self.rows.pop(id) | new for u, id, new in pairs if u.contends]
        for one in taken:
            self.put(one)
        for moves in (True, False):
            plain = [(id, new) for u, id, new in pairs if not u.contends and u.moves_keys is moves]
            for id, new in plain if in_turn else reversed(plain):
                self.set(id, new)
        for new in _lines(net.inserts):
            self.put({**new, "tag": None})


def history(seed: int, length: int) -> tuple:
    """Unique keys, rows, changes that a source could have made one by one (images full or partial), rows afterwards."""
    dice = Random(seed)
    keys, is_full = dice.choice(UNIQUE_KEYS), dice.random() < 0.5
    source, changes = Relation([], keys), []

    def attempt(change: Callable[[], None]) -> bool:
        before = dict(source.rows)
        try:
            change()
        except AssertionError:
            source.rows = before
            return False
        return True

    def drawn(id: int, tag: int | None) -> dict:
        values = {name: dice.choice([None, 0, 1, 2, 3]) for name in "uv"}
        return {"id": id, **values, "w": dice.choice([None, "a", "A", "b", "c"]), "tag": tag}

    def image(one: dict, *names: str) -> dict:
        return {name: one[name] for name in (("id", "u", "v", "w") if is_full else names)}

    for id in dice.sample(range(1, 8), dice.randrange(7)):
        attempt(lambda id=id: source.put(drawn(id, id)))
    start = [dict(one) for one in source.rows.values()]
    while len(changes) < length:
        id, kind = dice.randint(1, 8), dice.choice("uuuuuummd")
        old, new = source.rows.get(id), drawn(id, None)
        if old is None and attempt(lambda new=new: source.put(new)):
            changes.append(("i", image(new, "id", "u", "v", "w")))
        elif old is not None and kind == "d":
            del source.rows[id]
            changes.append(("d", image(old, "id")))
        elif old is not None:
            sets = {name: new[name] for name in dice.sample("uvw", dice.randrange(3))}
            sets |= {"id": dice.randint(1, 8)} if kind == "m" else {}
            if sets and attempt(lambda id=id, sets=sets: source.set(id, sets)):
                changes.append(("u", image(old, "id"), image(old | sets, *sets)))
    return keys, start, changes, source.rows
