//! Decodes binary logs of MySQL and MariaDB for anabranch, whose Python decoder is the reference.
//!
//! Only what is plain is done here. Whatever is unusual, unknown or wrong is left as it is, and Python looks at it: so every
//! message and every decision is made in one place. No unsafe code of our own: each module forbids it, but those that PyO3's macros
//! write into.
#![deny(unsafe_code)]

mod columns;
mod crc;
mod directory;
mod events;
mod fields;
mod gtids;
mod layout;
mod log;
mod rows;
mod runs;
mod table;

use pyo3::prelude::*;

/// What `anabranch.connectors.mysql.native` has to agree with.
const INTERFACE: u32 = 1;

#[pymodule]
fn anabranch_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add_class::<table::Table>()?;
    module.add_class::<layout::Layout>()?;
    module.add_class::<log::Log>()
}
