//! One hash for each row, as rows/fingerprint.py defines it: of lines, what a server makes of its rows.

use memchr::{memchr, memchr_iter};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::hashes::{of_bytes, of_i32, of_i64};

const FLAGS: usize = 31; // of columns that may be NULL, in one number
const NULL: &[u8] = b"\\N";
const ZONE: &[u8] = b"+00"; // of instants

#[derive(Clone, Copy)]
enum Form {
    Text,
    Int32,
    Int64,
    Clock,
}

/// How many rows there were, and the sum of their hashes modulo 2**64.
#[pyclass(module = "anabranch_native")]
pub struct Fingerprint {
    forms: Vec<Form>,
    nullable: Vec<usize>,
    rows: u64,
    sum: u64,
    text: Vec<u8>, // without its escapes
}

#[pymethods]
impl Fingerprint {
    /// Of each column its form by number, and may it be NULL?
    #[new]
    fn new(forms: Vec<u8>, nullable: Vec<bool>) -> PyResult<Self> {
        let known: Option<Vec<_>> = forms.iter().map(|number| form(*number)).collect();
        let forms = known.filter(|forms| forms.len() == nullable.len());
        let forms = forms.ok_or_else(|| PyValueError::new_err("forms that are not known"))?;
        let nullable = (0..nullable.len()).filter(|place| nullable[*place]).collect();
        Ok(Self { forms, nullable, rows: 0, sum: 0, text: Vec::new() })
    }

    /// Add a block of whole lines. Raises ValueError where one has not these columns, or a value has not its form.
    fn add(&mut self, py: Python<'_>, block: &[u8]) -> PyResult<()> {
        let done = py.allow_threads(|| self.add_lines(block));
        done.ok_or_else(|| PyValueError::new_err("a line that is none of these columns"))
    }

    /// Rows, and the sum.
    fn total(&self) -> (u64, u64) {
        (self.rows, self.sum)
    }
}

fn form(number: u8) -> Option<Form> {
    [Form::Text, Form::Int32, Form::Int64, Form::Clock].get(usize::from(number)).copied()
}

impl Fingerprint {
    fn add_lines(&mut self, block: &[u8]) -> Option<()> {
        let mut cells = Vec::with_capacity(self.forms.len());
        let mut start = 0;
        for end in memchr_iter(b'\n', block) {
            cells.clear();
            let line = &block[start..end];
            let mut from = 0;
            for tab in memchr_iter(b'\t', line) {
                cells.push(&line[from..tab]);
                from = tab + 1;
            }
            cells.push(&line[from..]);
            self.sum = self.sum.wrapping_add(self.hash(&cells)?);
            self.rows += 1;
            start = end + 1;
        }
        (start == block.len()).then_some(())
    }

    /// From the left to the right, each value with the hash of those before it as its seed.
    fn hash(&mut self, cells: &[&[u8]]) -> Option<u64> {
        if cells.len() != self.forms.len() {
            return None;
        }
        let mut nulls = 0;
        let mut found = 0;
        for some in self.nullable.chunks(FLAGS) {
            let mut flags = 0;
            for (bit, place) in some.iter().enumerate() {
                if cells[*place] == NULL {
                    flags |= 1 << bit;
                    nulls += 1;
                }
            }
            found = of_i32(flags, found);
        }
        for (form, cell) in self.forms.iter().zip(cells) {
            let is_null = *cell == NULL;
            nulls -= i32::from(is_null);
            found = match form {
                Form::Text if is_null => of_bytes(b"", found),
                Form::Text if memchr(b'\\', cell).is_some() => {
                    unescape(cell, &mut self.text)?;
                    of_bytes(&self.text, found)
                }
                Form::Text => of_bytes(cell, found),
                Form::Int32 if is_null => of_i32(0, found),
                Form::Int32 => of_i32(i32::try_from(number(cell)?).ok()?, found),
                Form::Int64 => {
                    let value = if is_null { 0 } else { number(cell)? };
                    of_i64(value, of_i32((value >> 32) as i32, found))
                }
                Form::Clock if is_null => of_bytes(b"", found),
                Form::Clock => of_bytes(clock(cell, &mut self.text), found),
            };
        }
        (nulls == 0).then_some(found) // another one is NULL where nothing was to be
    }
}

/// What the escapes of a cell stand for.
fn unescape(cell: &[u8], into: &mut Vec<u8>) -> Option<()> {
    into.clear();
    let mut rest = cell;
    while let Some(place) = memchr(b'\\', rest) {
        into.extend_from_slice(&rest[..place]);
        into.push(match rest.get(place + 1)? {
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            byte => *byte,
        });
        rest = &rest[place + 2..];
    }
    into.extend_from_slice(rest);
    Some(())
}

#[inline]
fn number(cell: &[u8]) -> Option<i64> {
    match cell {
        [b'-', some @ ..] if (1..=18).contains(&some.len()) => digits(some).map(|value| -value),
        some if (1..=18).contains(&some.len()) => digits(some),
        _ => std::str::from_utf8(cell).ok()?.parse().ok(), // which may not fit
    }
}

/// A time without zeros at the end of its decimals, which a PostgreSQL does not print.
fn clock<'a>(cell: &'a [u8], into: &'a mut Vec<u8>) -> &'a [u8] {
    let (time, zone) = match cell.strip_suffix(ZONE) {
        Some(time) => (time, ZONE),
        None => (cell, &b""[..]),
    };
    let mut end = time.len();
    if memchr(b'.', time).is_some() {
        while end > 0 && time[end - 1] == b'0' {
            end -= 1;
        }
        if end > 0 && time[end - 1] == b'.' {
            end -= 1;
        }
    }
    if zone.is_empty() {
        return &time[..end];
    }
    into.clear();
    into.extend_from_slice(&time[..end]);
    into.extend_from_slice(zone);
    into
}

fn digits(some: &[u8]) -> Option<i64> {
    some.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}
