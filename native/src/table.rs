//! The rows of one table that wait: columns and runs.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::{Buffers, Column};
use crate::runs::{self, Run};

/// Validity (None: nothing is null), nulls, offsets (None: of fixed width), data.
pub type Given<'py> = (Option<Bound<'py, PyBytes>>, usize, Option<Bound<'py, PyBytes>>, Bound<'py, PyBytes>);

pub fn given(py: Python<'_>, buffers: Buffers) -> Given<'_> {
    let bytes = |data: Vec<u8>| PyBytes::new_bound(py, &data);
    (buffers.validity.map(bytes), buffers.nulls, buffers.offsets.map(bytes), bytes(buffers.data))
}

type MetaGiven<'py> =
    (usize, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Vec<i64>);

#[pyclass]
pub struct Table {
    pub columns: Vec<Column>,
    pub runs: Vec<Run>,
    pub images: usize,
    /// Later rows are elsewhere: nothing may be put behind the rows here until they have been given.
    #[pyo3(get, set)]
    pub is_closed: bool,
}

#[pymethods]
impl Table {
    /// `widths`: of each column's values, 0 for any length, -1 for a column that is left out.
    #[new]
    fn new(widths: Vec<i64>) -> Table {
        Table { columns: widths.into_iter().map(Column::new).collect(), runs: Vec::new(), images: 0, is_closed: false }
    }

    /// Row images in the columns here.
    #[getter]
    fn images(&self) -> usize {
        self.images
    }

    /// A run whose values may be elsewhere.
    fn append(&mut self, run: (i64, i64, i64, i64, i64, usize)) {
        let (op, transaction, ordinal, shape, second_shape, images) = run;
        self.runs.push(Run { op, transaction, ordinal, shape, second_shape, images });
    }

    fn __len__(&self) -> usize {
        self.runs.len()
    }

    /// The images of transactions below `before`, whose runs are gone then: their number, op, transaction, ordinal and shape of
    /// each as bytes of int8, int32, int64 and int16, the shapes that are used.
    fn take_runs<'py>(&mut self, py: Python<'py>, before: i64) -> PyResult<MetaGiven<'py>> {
        let leaving = runs::leaving(&mut self.runs, before);
        let meta = runs::expand(&leaving).ok_or_else(|| PyValueError::new_err("too many transactions or shapes in a chunk"))?;
        let bytes = |data: &[u8]| PyBytes::new_bound(py, data);
        Ok((meta.count, bytes(&meta.op), bytes(&meta.transaction), bytes(&meta.ordinal), bytes(&meta.shape), meta.used))
    }

    /// Forgets the runs of a transaction from ordinal `first` on, not their values; how many images they had.
    fn forget_runs(&mut self, transaction: i64, first: i64) -> usize {
        runs::forget(&mut self.runs, transaction, first)
    }

    /// The values of the first `count` images, which are gone then; nothing for a column that is left out.
    fn take<'py>(&mut self, py: Python<'py>, count: usize) -> PyResult<Vec<Option<Given<'py>>>> {
        if count > self.images {
            return Err(PyValueError::new_err("more images than there are"));
        }
        self.images -= count;
        let columns = self.columns.iter_mut();
        Ok(columns.map(|column| if column.is_kept() { Some(given(py, column.take(count))) } else { None }).collect())
    }
}
