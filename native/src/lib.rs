//! Decodes binary logs and rows of MySQL and MariaDB, and messages of PostgreSQL's pgoutput, for anabranch, whose Python code is
//! the reference.
//!
//! Only what is plain is done here. Whatever is unusual, unknown or wrong is left as it is, and Python looks at it: so every
//! message and every decision is made in one place. No unsafe code of our own: each module forbids it, but those that PyO3's macros
//! write into.
#![deny(unsafe_code)]

mod columns;
mod copy_out;
mod crc;
mod directory;
mod events;
mod fields;
mod fingerprint;
mod gtids;
mod hashes;
mod layout;
mod lines;
mod log;
mod messages;
mod relation;
mod rows;
mod runs;
mod sums;
mod table;
mod texts;
mod tuples;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What `anabranch.rows.compiled` has to agree with.
const INTERFACE: u32 = 6;

/// Lines of the rows at the front of `data`, packets of rows with one value each, and where what is left begins.
#[pyfunction(name = "lines")]
fn plain_lines<'py>(py: Python<'py>, data: &[u8]) -> (Bound<'py, PyBytes>, usize) {
    let (found, at) = lines::lines(data);
    (PyBytes::new_bound(py, &found), at)
}

/// As `lines`, of rows with a value for each of `kinds`: `n` stands as it is, `d` is a date, `w` words that may need escapes.
#[pyfunction(name = "lines_of_columns")]
fn plain_lines_of_columns<'py>(py: Python<'py>, data: &[u8], kinds: &[u8]) -> (Bound<'py, PyBytes>, usize) {
    let (found, at) = lines::lines_of_columns(data, kinds);
    (PyBytes::new_bound(py, &found), at)
}

#[pymodule]
fn anabranch_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add_function(wrap_pyfunction!(plain_lines, module)?)?;
    module.add_function(wrap_pyfunction!(plain_lines_of_columns, module)?)?;
    module.add_class::<copy_out::CopyOut>()?;
    module.add_class::<fingerprint::Fingerprint>()?;
    module.add_class::<sums::RowSums>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<layout::Layout>()?;
    module.add_class::<log::Log>()?;
    module.add_class::<relation::Relation>()?;
    module.add_class::<messages::Messages>()
}
