//! Follows a log from event to event while everything is plain: transactions of rows of tables that are known.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::directory::{Directory, Next};
use crate::events::{event, Event, HARMLESS, QUERY, TABLE_MAP, XID};
use crate::gtids::{self, Begin, Ended};
use crate::layout::Layout;
use crate::runs::Run;
use crate::table::{given, Given};

const MAPS: usize = 10_000;
const KEYS_OFF: u16 = 2;
const VERSION_2: u8 = 30;
const ROWS: [u8; 6] = [23, 24, 25, 30, 31, 32];

/// A table map that is known: its table's number, how Python decodes it (None: its rows are left out) and how we do (None: not at all).
struct Known {
    number: u64,
    decoders: Option<PyObject>,
    layout: Option<Py<Layout>>,
}

#[pyclass]
#[derive(Default)]
pub struct Log {
    is_mysql: bool,
    is_gapless: bool,
    maps: HashMap<Vec<u8>, Arc<Known>>,
    tables: HashMap<u64, Arc<Known>>,
    moved: Vec<Arc<Known>>,
    directory: Directory,
    /// The server's own id; 0: not known.
    own: u32,
    /// Servers, and sources of ids, whose transactions are left out: Python does that.
    left_out: HashSet<u32>,
    left_out_sources: HashSet<Vec<u8>>,
    ended: Ended,
    begin: Option<Begin>,
    at: usize,
    offset: u64,
    ordinal: i64,
    transaction: i64,
    images: u64,
    size: u64,
    is_plain: bool,
    is_open: bool,
    in_transaction: bool,
    /// Where the last transaction ended, and when it was committed.
    end: Option<(u64, i64)>,
    is_anonymous: bool,
    text: String,
    origin: String,
}

type Started<'py> = (bool, bool, bool, Option<(u8, Bound<'py, PyBytes>, u32)>, i64);
type Sizes = (i64, u64, u64);
type Position = (usize, u64, i64, i64, u64, u64);
type Opened<'py> = (bool, bool, Option<(u8, Bound<'py, PyBytes>, u32)>);
type Passed<'py> =
    (Option<(u64, i64)>, bool, Vec<(u32, u32, u64)>, Vec<(Bound<'py, PyBytes>, i64, i64)>, Vec<(u64, Option<PyObject>)>);

#[pymethods]
impl Log {
    /// `is_mysql`: the log is MySQL's, not MariaDB's; `is_gapless`: the server sends every event. `own`: the server's id, 0 where it is not
    /// known; `left_out` and `left_out_sources`: servers and sources of ids whose transactions Python leaves out.
    #[new]
    fn new(
        is_mysql: bool,
        is_gapless: bool,
        own: u32,
        left_out: HashSet<u32>,
        left_out_sources: HashSet<Vec<u8>>,
    ) -> Log {
        Log { is_mysql, is_gapless, own, left_out, left_out_sources, ..Log::default() }
    }

    /// Table maps are asked for anew.
    fn forget(&mut self) {
        self.maps.clear();
        self.tables.clear();
    }

    /// A table map that Python has read.
    #[pyo3(signature = (raw, number, decoders, layout))]
    fn know(&mut self, raw: &[u8], number: u64, decoders: Option<PyObject>, layout: Option<Py<Layout>>) {
        if self.maps.len() >= MAPS {
            self.maps.clear();
        }
        let known = Arc::new(Known { number, decoders, layout });
        self.maps.insert(raw.to_vec(), Arc::clone(&known));
        self.tables.insert(number, known);
    }

    /// A transaction is complete.
    #[pyo3(signature = (native, gtid, time, rows, origin))]
    fn add(&mut self, native: &str, gtid: Option<&str>, time: i64, rows: i64, origin: Option<&str>) -> PyResult<()> {
        let added = self.directory.add(native, gtid, time, rows, origin);
        added.map_err(|_| PyValueError::new_err("too many transactions in a chunk"))
    }

    /// The transactions that are complete, which are gone then: their number, and the buffers of five columns.
    fn take<'py>(&mut self, py: Python<'py>) -> (usize, Vec<Given<'py>>) {
        let count = self.directory.length();
        (count, self.directory.take().into_iter().map(|buffers| given(py, buffers)).collect())
    }

    /// Follows `data` from `at` on. `started`: is the open transaction plain, is one open, are its rows in a transaction, the
    /// event that it began with, its images. `sizes`: transactions, images and bytes that wait; `full`: images and bytes from
    /// which on a chunk is full. Returns what to do next, and the same things as they are then.
    #[allow(clippy::too_many_arguments)]
    fn follow<'py>(
        &mut self,
        py: Python<'py>,
        data: &[u8],
        at: usize,
        file: &str,
        offset: u64,
        checksums: bool,
        started: Started<'py>,
        sizes: Sizes,
        full: (u64, u64),
    ) -> (u8, Position, Opened<'py>, Passed<'py>) {
        let (is_plain, is_open, in_transaction, begin, ordinal) = started;
        self.is_plain = is_plain;
        self.is_open = is_open;
        self.in_transaction = in_transaction;
        self.begin = begin.map(|(kind, body, server)| Begin { kind, body: body.as_bytes().to_vec(), server });
        self.ordinal = ordinal;
        self.transaction = sizes.0;
        self.images = sizes.1;
        self.size = sizes.2;
        self.at = at;
        self.offset = offset;
        self.end = None;
        self.is_anonymous = false;
        let mut next = Next::Look;
        while let Some(one) = event(data, self.at, self.offset, checksums, self.is_gapless) {
            match self.take_event(py, &one, file, full) {
                None => break,
                Some(found) => next = found,
            }
            self.at = one.next;
            self.offset = one.offset;
            if next != Next::Look {
                break;
            }
        }
        let position = (self.at, self.offset, self.ordinal, self.transaction, self.images, self.size);
        (next as u8, position, self.opened(py), self.passed(py))
    }
}

impl Log {
    /// None: Python has to look at it, and nothing has happened.
    fn take_event(&mut self, py: Python<'_>, one: &Event, file: &str, full: (u64, u64)) -> Option<Next> {
        match one.kind {
            TABLE_MAP => self.table_map(one.body)?,
            QUERY => {
                if !self.is_plain || !one.body.ends_with(b"\0BEGIN") || self.left_out.contains(&one.server) {
                    return None;
                }
                self.is_open = true;
                self.in_transaction = true;
            }
            XID => return self.commit(one, file, full),
            gtids::GTID | gtids::ANONYMOUS | gtids::MARIADB => {
                if !self.is_plain || self.ordinal > 0 || self.is_mysql == (one.kind == gtids::MARIADB) {
                    return None;
                }
                if self.is_left_out(one) {
                    return None;
                }
                self.in_transaction = gtids::begins(one.kind, one.body)?;
                self.is_open = true;
                self.begin = Some(Begin { kind: one.kind, body: one.body.to_vec(), server: one.server });
            }
            kind if ROWS.contains(&kind) => return self.rows(py, one, full),
            kind if HARMLESS.contains(&kind) => {}
            _ => return None,
        }
        Some(Next::Look)
    }

    fn is_left_out(&self, one: &Event) -> bool {
        self.left_out.contains(&one.server)
            || !self.left_out_sources.is_empty()
                && gtids::source(one.kind, one.body).map_or(false, |source| self.left_out_sources.contains(source))
    }

    fn table_map(&mut self, body: &[u8]) -> Option<()> {
        let known = self.maps.get(body)?;
        if !self.tables.get(&known.number).map_or(false, |now| Arc::ptr_eq(now, known)) {
            self.tables.insert(known.number, Arc::clone(known));
            self.moved.push(Arc::clone(known));
        }
        Some(())
    }

    fn rows(&mut self, py: Python<'_>, one: &Event, full: (u64, u64)) -> Option<Next> {
        let body = one.body;
        let head = body.get(..10)?;
        let number = head[..6].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let keys_off = u16::from_le_bytes([head[6], head[7]]) & KEYS_OFF != 0;
        let known = self.tables.get(&number)?;
        if known.decoders.is_none() {
            return Some(Next::Look);
        }
        let layout = known.layout.as_ref()?.bind(py).try_borrow().ok()?;
        let extra = if one.kind >= VERSION_2 { usize::from(u16::from_le_bytes([head[8], head[9]])) } else { 0 };
        let (pattern, rows) = layout.pattern(one.kind, keys_off, body.get(8 + extra..)?)?;
        let mut table = layout.table.bind(py).try_borrow_mut().ok()?;
        let images = layout.into_table(pattern, &mut table, rows).ok()?;
        let (op, shape, second_shape) = (pattern.op, pattern.shape, pattern.second_shape);
        table.runs.push(Run { op, transaction: self.transaction, ordinal: self.ordinal, shape, second_shape, images });
        self.ordinal += images as i64;
        self.images += images as u64;
        self.size += one.length.max(layout.least * images as u64);
        let is_full = self.images >= full.0 || self.size >= full.1;
        Some(if is_full { Next::Full } else { Next::Look })
    }

    fn commit(&mut self, one: &Event, file: &str, full: (u64, u64)) -> Option<Next> {
        if !self.is_plain {
            return None;
        }
        let (identity, time) = gtids::identify(self.begin.as_ref(), one.seconds)?;
        let mut next = Next::Look;
        if self.ordinal > 0 {
            self.text.clear();
            let has_id = identity.write(&mut self.text);
            let native = format!("{}:{}", file, one.offset);
            self.origin.clear();
            let is_foreign = one.server != self.own;
            if is_foreign {
                let _ = write!(self.origin, "{}", one.server);
            }
            let (id, origin) = (Some(self.text.as_str()), Some(self.origin.as_str()));
            let (id, origin) = (id.filter(|_| has_id), origin.filter(|_| is_foreign));
            self.directory.add(&native, id, time, self.ordinal, origin).ok()?;
            self.transaction += 1;
            if self.images >= full.0 || self.size >= full.1 {
                next = Next::Flush;
            }
        }
        self.is_anonymous |= self.is_mysql && self.begin.as_ref().map_or(true, |begin| begin.kind == gtids::ANONYMOUS);
        self.ended.add(&identity);
        self.end = Some((one.offset, time));
        self.ordinal = 0;
        self.is_open = false;
        self.in_transaction = false;
        self.begin = None;
        Some(next)
    }

    fn opened<'py>(&mut self, py: Python<'py>) -> Opened<'py> {
        let begin = self.begin.take().map(|begin| (begin.kind, PyBytes::new_bound(py, &begin.body), begin.server));
        (self.is_open, self.in_transaction, begin)
    }

    /// What happened on the way: the last end, a transaction without an id, ids, tables that have other numbers.
    fn passed<'py>(&mut self, py: Python<'py>) -> Passed<'py> {
        let ended = std::mem::take(&mut self.ended);
        let intervals = ended.mysql.iter().map(|(source, first, last)| (PyBytes::new_bound(py, source), *first, *last));
        let moved = self.moved.drain(..).map(|known| (known.number, known.decoders.as_ref().map(|one| one.clone_ref(py))));
        (self.end, self.is_anonymous, ended.mariadb, intervals.collect(), moved.collect())
    }
}
