//! What a PostgreSQL says while it gives the rows of a COPY, as it comes from the line. Rows are joined, each message whole; of
//! the others only an error and the end are told. https://www.postgresql.org/docs/current/protocol-message-formats.html

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

const HEAD: usize = 5; // kind, and the length of what follows the kind

/// Messages of one statement; `rest` is the beginning of one that is not there as a whole.
#[pyclass(module = "anabranch_native")]
#[derive(Default)]
pub struct CopyOut {
    rest: Vec<u8>,
}

/// Data of rows, the fields of an error, does the server wait for the next statement?
type Said<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>, bool);

#[derive(Default)]
struct Taken {
    rows: Vec<u8>,
    error: Option<Vec<u8>>,
    is_ready: bool,
}

#[pymethods]
impl CopyOut {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// What the next bytes say. Raises ValueError for what no COPY to the client has.
    fn feed<'py>(&mut self, py: Python<'py>, bytes: &[u8]) -> PyResult<Said<'py>> {
        let taken = py.allow_threads(|| self.take(bytes)).map_err(PyValueError::new_err)?;
        let error = taken.error.map(|fields| PyBytes::new_bound(py, &fields));
        Ok((PyBytes::new_bound(py, &taken.rows), error, taken.is_ready))
    }
}

impl CopyOut {
    fn take(&mut self, bytes: &[u8]) -> Result<Taken, String> {
        if self.rest.is_empty() {
            let (taken, end) = messages(bytes)?;
            self.rest.extend_from_slice(&bytes[end..]);
            return Ok(taken);
        }
        self.rest.extend_from_slice(bytes);
        let (taken, end) = messages(&self.rest)?;
        self.rest.drain(..end);
        Ok(taken)
    }
}

/// Of all whole messages, and where they end.
fn messages(bytes: &[u8]) -> Result<(Taken, usize), String> {
    let (mut taken, mut at) = (Taken { rows: Vec::with_capacity(bytes.len()), ..Taken::default() }, 0);
    while let Some(head) = bytes.get(at..at + HEAD) {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length < HEAD - 1 || taken.is_ready {
            return Err(format!("a message of {length} bytes, or one behind the last"));
        }
        let Some(body) = bytes.get(at + HEAD..at + 1 + length) else { break };
        match head[0] {
            b'd' => taken.rows.extend_from_slice(body),
            b'E' => taken.error = Some(body.to_vec()),
            b'Z' => taken.is_ready = true,
            // CopyOutResponse, CopyDone, CommandComplete; notices, settings, notifications
            b'H' | b'c' | b'C' | b'N' | b'S' | b'A' => {}
            kind => return Err(format!("a message of kind {kind}")),
        }
        at += 1 + length;
    }
    Ok((taken, at))
}
