//! Sums of row digests by bucket: what verification makes of blocks of lines. verify/digest.py is the reference.

use blake2b_simd::many::{hash_many, HashManyJob};
use blake2b_simd::Params;
use memchr::{memchr, memchr_iter};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::crc;

/// Of each bucket how many rows it has and the sum of their digests, word by word.
#[pyclass(module = "anabranch_native")]
pub struct RowSums {
    places: Vec<usize>, // of the key's cells; none: the row is its key
    rows: Vec<i64>,
    digests: Vec<[u64; 2]>,
}

#[pymethods]
impl RowSums {
    #[new]
    fn new(places: Vec<usize>, buckets: usize) -> PyResult<Self> {
        if buckets == 0 || buckets > 1 << 16 {
            return Err(PyValueError::new_err("there are 1 to 65536 buckets"));
        }
        Ok(Self { places, rows: vec![0; buckets], digests: vec![[0; 2]; buckets] })
    }

    /// Add a block of whole lines. Raises ValueError, and adds nothing more, where a line has no cell of the key's.
    fn add(&mut self, py: Python<'_>, block: &[u8]) -> PyResult<()> {
        let done = py.allow_threads(|| self.add_lines(block));
        done.ok_or_else(|| PyValueError::new_err("a block that is not of whole lines with a key"))
    }

    /// The counts as 64-bit integers, the sums as two words each, little-endian.
    fn sums<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
        let rows: Vec<u8> = self.rows.iter().flat_map(|count| count.to_le_bytes()).collect();
        let digests: Vec<u8> = self.digests.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        (PyBytes::new_bound(py, &rows), PyBytes::new_bound(py, &digests))
    }
}

/// Rows whose digests are made side by side: a few times as many as a processor has lanes for.
const TOGETHER: usize = 32;
const DIGEST_BYTES: usize = 16;

impl RowSums {
    fn add_lines(&mut self, block: &[u8]) -> Option<()> {
        let mut params = Params::new();
        params.hash_length(DIGEST_BYTES);
        let mut rows = Vec::with_capacity(TOGETHER);
        let (mut key, mut start) = (Vec::new(), 0);
        for end in memchr_iter(b'\n', block) {
            rows.push(&block[start..end]);
            start = end + 1;
            if rows.len() == TOGETHER {
                self.add_rows(&params, &rows, &mut key)?;
                rows.clear();
            }
        }
        self.add_rows(&params, &rows, &mut key)?;
        (start == block.len()).then_some(())
    }

    fn add_rows(&mut self, params: &Params, rows: &[&[u8]], key: &mut Vec<u8>) -> Option<()> {
        let mut jobs: Vec<_> = rows.iter().map(|row| HashManyJob::new(params, row)).collect();
        hash_many(&mut jobs);
        for (row, job) in rows.iter().zip(&jobs) {
            let bucket = self.bucket(row, key)?;
            let [first, second] = words(job.to_hash().as_bytes());
            self.rows[bucket] += 1;
            let total = &mut self.digests[bucket];
            *total = [total[0].wrapping_add(first), total[1].wrapping_add(second)];
        }
        Some(())
    }

    fn bucket(&self, row: &[u8], key: &mut Vec<u8>) -> Option<usize> {
        let sum = match self.places.as_slice() {
            [] => crc::crc32(row),
            [0] => crc::crc32(&row[..memchr(b'\t', row).unwrap_or(row.len())]),
            [place] => crc::crc32(row.split(is_tab).nth(*place)?),
            places => {
                key.clear();
                for (number, place) in places.iter().enumerate() {
                    if number > 0 {
                        key.push(b'\t');
                    }
                    key.extend_from_slice(row.split(is_tab).nth(*place)?);
                }
                crc::crc32(key)
            }
        };
        Some(sum as usize % self.rows.len())
    }
}

/// The bytes of a digest as two words.
fn words(found: &[u8]) -> [u64; 2] {
    let word = |at: usize| found[at..at + 8].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    [word(0), word(8)]
}

fn is_tab(byte: &u8) -> bool {
    *byte == b'\t'
}
