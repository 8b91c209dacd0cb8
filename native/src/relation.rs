//! How row messages of one relation of a PostgreSQL are read into the table that they are of.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::runs::Run;
use crate::table::Table;
use crate::texts::Text;
use crate::tuples::{change, Has, Logged, DELETE, INSERT, UPDATE};

const SHAPES: usize = 1024;
// As in `anabranch.rows.chunk.Op`.
const OP_INSERT: i64 = 1;
const OP_DELETE: i64 = 2;
const OP_BEFORE: i64 = 3;

#[pyclass]
pub struct Relation {
    table: Py<Table>,
    logged: Vec<Logged>,
    /// Columns of the table that the log does not have.
    others: Vec<usize>,
    /// Bytes of a message before its first tuple.
    head: usize,
    /// The numbers of shapes: of all columns, of the replica identity; of others by what Python says of them.
    all: i64,
    identity: i64,
    shapes: HashMap<Vec<u8>, i64>,
    shape_of: PyObject,
}

#[pymethods]
impl Relation {
    /// `columns`: of each column of the relation its place in the table, what its texts become (see `texts.rs`), whether it is in the
    /// replica identity. `shape_of`: a code by column of the table -> the number of a shape. Raises ValueError for others.
    #[new]
    fn new(
        py: Python<'_>,
        table: Py<Table>,
        columns: Vec<(usize, String, bool)>,
        head: usize,
        all: i64,
        identity: i64,
        shape_of: PyObject,
    ) -> PyResult<Relation> {
        let width = table.borrow(py).columns.len();
        let mut others: Vec<usize> = (0..width).collect();
        others.retain(|place| !columns.iter().any(|column| column.0 == *place));
        let one = |(place, name, in_identity): (usize, String, bool)| {
            Some(Logged { place, text: Text::named(&name)?, in_identity }).filter(|_| place < width)
        };
        let count = columns.len();
        let logged: Option<Vec<Logged>> = columns.into_iter().map(one).collect();
        let logged = logged.filter(|_| others.len() + count == width).ok_or_else(|| PyValueError::new_err("unknown columns"))?;
        Ok(Relation { table, logged, others, head, all, identity, shapes: HashMap::new(), shape_of })
    }

    /// The images of a row message of a transaction, the first of which is `ordinal`; None: refused, nothing was taken.
    fn add(&mut self, py: Python<'_>, message: &[u8], transaction: i64, ordinal: i64) -> Option<usize> {
        self.take(py, message, transaction, ordinal)
    }
}

impl Relation {
    pub fn take(&mut self, py: Python<'_>, message: &[u8], transaction: i64, ordinal: i64) -> Option<usize> {
        let kind = *message.first()?;
        let op = match kind {
            INSERT => OP_INSERT,
            UPDATE => OP_BEFORE,
            DELETE => OP_DELETE,
            _ => return None,
        };
        let change = change(kind, message.get(self.head..)?, self.logged.len()).ok()?;
        let holder = self.table.clone_ref(py);
        let mut table = holder.bind(py).try_borrow_mut().ok()?;
        let (before, images) = (table.images, change.images());
        let written = change.write(&self.logged, &self.others, &mut table.columns).ok();
        let numbers = written.and_then(|(first, second)| Some((self.number(py, first)?, self.number(py, second)?)));
        match numbers {
            None => {
                table.columns.iter_mut().for_each(|column| column.truncate(before));
                None
            }
            Some((shape, second)) => {
                let second_shape = if kind == UPDATE { second } else { shape };
                table.images += images;
                table.runs.push(Run { op, transaction, ordinal, shape, second_shape, images });
                Some(images)
            }
        }
    }

    /// None where Python refuses to say.
    fn number(&mut self, py: Python<'_>, has: Has) -> Option<i64> {
        let codes = match has {
            Has::All => return Some(self.all),
            Has::Identity => return Some(self.identity),
            Has::Codes(codes) => codes,
        };
        if let Some(known) = self.shapes.get(&codes) {
            return Some(*known);
        }
        let number = self.shape_of.call1(py, (PyBytes::new_bound(py, &codes),)).ok()?.extract(py).ok()?;
        if self.shapes.len() >= SHAPES {
            self.shapes.clear();
        }
        self.shapes.insert(codes, number);
        Some(number)
    }
}
