//! Follows pgoutput's messages while everything is plain: whole transactions of rows of relations that are known.

use std::collections::{HashMap, HashSet};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::directory::{Directory, Next};
use crate::relation::Relation;
use crate::table::{given, Given};
use crate::tuples::{DELETE, INSERT, UPDATE};

const BEGIN: u8 = b'B';
const COMMIT: u8 = b'C';
const ORIGIN: u8 = b'O';
const DATA: u8 = b'w';
const DATA_HEAD: usize = 25; // bytes before a message: kind, start, end, time
const BEGIN_SIZE: usize = 21;
const COMMIT_SIZE: usize = 26;
const ORIGIN_HEAD: usize = 9; // bytes before its name: kind, place there
const EPOCH: i64 = 946_684_800_000_000; // microseconds from 1970 to 2000

#[pyclass]
#[derive(Default)]
pub struct Messages {
    /// By the four bytes that name a relation in row messages; none: its rows are left out.
    relations: HashMap<[u8; 4], Option<Py<Relation>>>,
    directory: Directory,
    /// Origins whose transactions are left out: Python does that.
    left_out: HashSet<String>,
    /// Of the open transaction: its id, where its commit is, its images, where it was made if not here.
    xid: Option<u32>,
    begun: u64,
    ordinal: i64,
    origin: Option<String>,
    transaction: i64,
    images: u64,
    size: u64,
    /// Where the last transaction ended, and when it was committed.
    end: Option<(u64, i64)>,
}

type Open = (Option<u32>, u64, i64, Option<String>);
type Sizes = (i64, u64, u64);

#[pymethods]
impl Messages {
    /// `left_out`: origins whose transactions Python leaves out.
    #[new]
    fn new(left_out: HashSet<String>) -> Messages {
        Messages { left_out, ..Messages::default() }
    }

    /// What the rows of a relation are from here on: None, they are left out.
    #[pyo3(signature = (name, relation))]
    fn know(&mut self, name: [u8; 4], relation: Option<Py<Relation>>) {
        self.relations.insert(name, relation);
    }

    /// Python reads the rows of this relation.
    fn forget(&mut self, name: [u8; 4]) {
        self.relations.remove(&name);
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

    /// Follows `frames`, as a server sends them, from number `at` on. `open`: the id of the open transaction, where its commit is, its
    /// images, its origin; `is_plain`: may it end here? `sizes`: transactions, images and bytes that wait; `full`: images and bytes from which on
    /// a chunk is full. Returns what to do next, where it stopped, `open` and `sizes` as they are then, the last end.
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn follow(
        &mut self,
        py: Python<'_>,
        frames: &Bound<'_, PyList>,
        at: usize,
        open: Open,
        is_plain: bool,
        sizes: Sizes,
        full: (u64, u64),
    ) -> (u8, usize, Open, Sizes, Option<(u64, i64)>) {
        (self.xid, self.begun, self.ordinal, self.origin) = open;
        (self.transaction, self.images, self.size) = sizes;
        self.end = None;
        let (mut next, mut place) = (Next::Look, at);
        while let Ok(frame) = frames.get_item(place) {
            let Ok(frame) = frame.downcast_into::<PyBytes>() else { break };
            let Some(found) = self.frame(py, frame.as_bytes(), is_plain, full) else { break };
            next = found;
            place += 1;
            if next != Next::Look {
                break;
            }
        }
        let open = (self.xid, self.begun, self.ordinal, self.origin.take());
        (next as u8, place, open, (self.transaction, self.images, self.size), self.end)
    }
}

impl Messages {
    /// None: Python has to look at it, and nothing has happened.
    fn frame(&mut self, py: Python<'_>, frame: &[u8], is_plain: bool, full: (u64, u64)) -> Option<Next> {
        if *frame.first()? != DATA {
            return None;
        }
        let message = frame.get(DATA_HEAD..)?;
        match *message.first()? {
            INSERT | UPDATE | DELETE => self.row(py, message, full),
            BEGIN => self.begin(message),
            ORIGIN => self.origin(message),
            COMMIT if is_plain => self.commit(message, full),
            _ => None,
        }
    }

    fn row(&mut self, py: Python<'_>, message: &[u8], full: (u64, u64)) -> Option<Next> {
        self.xid?;
        let Some(relation) = self.relations.get(message.get(1..5)?)? else { return Some(Next::Look) };
        let images = relation.bind(py).try_borrow_mut().ok()?.take(py, message, self.transaction, self.ordinal)?;
        self.ordinal += images as i64;
        self.images += images as u64;
        self.size += message.len() as u64;
        let is_full = self.images >= full.0 || self.size >= full.1;
        Some(if is_full { Next::Full } else { Next::Look })
    }

    fn begin(&mut self, message: &[u8]) -> Option<Next> {
        if self.xid.is_some() || message.len() != BEGIN_SIZE {
            return None;
        }
        time(message, 9)?;
        self.begun = long(message, 1)?;
        self.xid = Some(u32::from_be_bytes(message.get(17..21)?.try_into().ok()?));
        Some(Next::Look)
    }

    fn origin(&mut self, message: &[u8]) -> Option<Next> {
        self.xid?;
        let (end, name) = message.get(ORIGIN_HEAD..)?.split_last()?;
        if *end != 0 || name.contains(&0) {
            return None;
        }
        let name = std::str::from_utf8(name).ok().filter(|name| !self.left_out.contains(*name))?;
        self.origin = Some(name.to_owned());
        Some(Next::Look)
    }

    fn commit(&mut self, message: &[u8], full: (u64, u64)) -> Option<Next> {
        let xid = self.xid?;
        if message.len() != COMMIT_SIZE || long(message, 2)? != self.begun {
            return None;
        }
        let (end, time) = (long(message, 10)?, time(message, 18)?);
        let mut next = Next::Look;
        if self.ordinal > 0 {
            let native = format!("{:X}/{:X}", end >> 32, end & 0xFFFF_FFFF);
            self.directory.add(&native, Some(&xid.to_string()), time, self.ordinal, self.origin.as_deref()).ok()?;
            self.transaction += 1;
            if self.images >= full.0 || self.size >= full.1 {
                next = Next::Flush;
            }
        }
        self.xid = None;
        self.ordinal = 0;
        self.origin = None;
        self.end = Some((end, time));
        Some(next)
    }
}

fn long(message: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(message.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Microseconds since 1970.
fn time(message: &[u8], at: usize) -> Option<i64> {
    (long(message, at)? as i64).checked_add(EPOCH)
}
