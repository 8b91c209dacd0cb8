"""Debezium's engine alone, to a consumer that counts: from the first batch of a backlog to its last."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.orders import Orders
from bench.peers.debezium import POLL_MS, Debezium, Engine
from bench.peers.place import ask
from bench.postgresql import again, drop_slot
from bench.processes import Cost, ProgramFailed, cpu, forget_peak, peak_rss
from bench.stand import Stand

WARM = 1000


class DebeziumReader:
    """The engine alone, to a consumer that counts."""

    name = "debezium"
    _begun_with: Engine | None = None

    def missing(self, stand: Stand) -> str:
        return Debezium().missing(stand)

    def begin(self, stand: Stand, orders: Orders) -> None:
        """An offset is stored with the first events only."""
        self._source, self._is_warm = orders.database, False
        self._begun_with = engine = Engine("read", stand, orders.database, "orders", POLL_MS)
        engine.run()
        engine.start()
        orders.insert(WARM)
        ask(engine.running, f"count {WARM}")
        engine.end()
        shutil.copytree(engine.home, self._begun)
        if engine.has_slot:
            self._source.query("SELECT pg_copy_logical_replication_slot(%s, %s)", [engine.slot, self._begun.name])

    def read(self, changes: int) -> Cost:
        if not self._is_warm:
            self._read(changes)
            self._is_warm = True
        return self._read(changes)

    def stop(self) -> None:
        if self._begun_with is not None:
            self._begun_with.stop()
            if self._begun_with.has_slot:
                drop_slot(self._source, self._begun.name)
            self._begun_with = None

    @property
    def _engine(self) -> Engine:
        assert self._begun_with is not None
        return self._begun_with

    @property
    def _begun(self) -> Path:
        return self._engine.home.with_name(f"{self._engine.slot}_begun")

    def _read(self, changes: int) -> Cost:
        shutil.copytree(self._begun, self._engine.home, dirs_exist_ok=True)
        if self._engine.has_slot:
            again(self._source, self._begun.name, self._engine.slot)
        program = self._engine.running
        forget_peak(program.tree)
        self._engine.start()
        before = cpu(program.tree)
        milliseconds, records = ask(program, f"count {changes}").split()
        used = cpu(program.tree) - before
        self._engine.end()
        if int(records) != changes:
            raise ProgramFailed(f"Debezium read {records} records, there are {changes} changes")
        return Cost(float(milliseconds) / 1000, used, peak_rss(program.tree))
