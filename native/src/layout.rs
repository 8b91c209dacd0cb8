//! How the rows of one table map are read, by kind of event and columns present.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::columns::Refused;
use crate::fields::Field;
use crate::rows::{decode, Image, Step};
use crate::table::Table;

const PATTERNS: usize = 256;

/// An image: present columns with their null bit (-1: never NULL), absent ones with what stands for them.
type ImageGiven = (Vec<(usize, i64)>, Vec<(usize, Option<Vec<u8>>)>);

pub struct Pattern {
    images: Vec<Image>,
    pub op: i64,
    pub shape: i64,
    pub second_shape: i64,
}

#[pyclass]
pub struct Layout {
    pub table: Py<Table>,
    fields: Vec<Field>,
    is_null_date: bool,
    /// Bytes of a bitmap of columns, and of the number of columns before it.
    bitmap: usize,
    count: usize,
    /// Bytes that an image costs at least.
    pub least: u64,
    patterns: HashMap<(u8, bool), HashMap<Vec<u8>, Pattern>>,
}

#[pymethods]
impl Layout {
    /// `fields`: of each column a name, numbers, byte strings (see `native_fields.py`). Raises ValueError for others.
    #[new]
    fn new(
        table: Py<Table>,
        fields: Vec<(String, Vec<i64>, Vec<Vec<u8>>)>,
        is_null_date: bool,
        bitmap: usize,
        count: usize,
        least: u64,
    ) -> PyResult<Layout> {
        let made: Option<Vec<Field>> = fields.into_iter().map(|(name, numbers, texts)| field(&name, &numbers, texts)).collect();
        let fields = made.ok_or_else(|| PyValueError::new_err("unknown field"))?;
        Ok(Layout { table, fields, is_null_date, bitmap, count, least, patterns: HashMap::new() })
    }

    /// Events of `kind` with this head (number and bitmaps of columns) can be decoded from now on.
    #[allow(clippy::too_many_arguments)]
    fn know(&mut self, kind: u8, keys_off: bool, head: &[u8], images: Vec<ImageGiven>, op: i64, shape: i64, second_shape: i64) {
        let step = |(place, bit): (usize, i64)| Step { place, null_bit: usize::try_from(bit).ok() };
        let image = |(steps, absent): ImageGiven| Image { steps: steps.into_iter().map(step).collect(), absent };
        let images = images.into_iter().map(image).collect();
        let found = self.patterns.entry((kind, keys_off)).or_default();
        if found.len() >= PATTERNS {
            found.clear();
        }
        found.insert(head.to_vec(), Pattern { images, op, shape, second_shape });
    }

    /// Images of the rows from `at` to `end`, which follow a head that is known; None: refused, nothing was taken.
    fn decode(&self, py: Python<'_>, kind: u8, keys_off: bool, head: &[u8], data: &[u8], at: usize, end: usize) -> Option<usize> {
        let pattern = self.patterns.get(&(kind, keys_off))?.get(head)?;
        let mut table = self.table.bind(py).try_borrow_mut().ok()?;
        self.into_table(pattern, &mut table, data.get(at..end)?).ok()
    }
}

impl Layout {
    /// The pattern of an event and the rows behind its head.
    pub fn pattern<'a>(&self, kind: u8, keys_off: bool, rest: &'a [u8]) -> Option<(&Pattern, &'a [u8])> {
        let bitmaps = if is_update(kind) { 2 } else { 1 };
        let width = self.count.checked_add(self.bitmap.checked_mul(bitmaps)?)?;
        let head = rest.get(..width)?;
        Some((self.patterns.get(&(kind, keys_off))?.get(head)?, &rest[width..]))
    }

    pub fn into_table(&self, pattern: &Pattern, table: &mut Table, rows: &[u8]) -> Result<usize, Refused> {
        if table.is_closed {
            return Err(Refused);
        }
        let images = decode(&pattern.images, &self.fields, &mut table.columns, self.is_null_date, rows)?;
        table.images += images;
        Ok(images)
    }
}

fn is_update(kind: u8) -> bool {
    matches!(kind, 24 | 31)
}

fn field(name: &str, numbers: &[i64], texts: Vec<Vec<u8>>) -> Option<Field> {
    let number = |place: usize| numbers.get(place).and_then(|found| usize::try_from(*found).ok());
    let width = number(0).filter(|width| *width <= 8);
    let length = number(0).filter(|length| (1..=4).contains(length));
    let fraction = number(0).filter(|bytes| *bytes <= 3);
    Some(match name {
        "skip" => Field::Skip(number(0)?),
        "skip_variable" => Field::SkipVariable(length?),
        "integer" => Field::Integer { width: width.filter(|width| *width > 0)?, signed: number(1)? == 1 },
        "copy" => Field::Copy(width?),
        "decimal" => {
            let groups: Vec<usize> = numbers.iter().skip(1).map(|digits| usize::try_from(*digits).ok()).collect::<Option<_>>()?;
            if groups.iter().any(|digits| *digits > 9) {
                return None;
            }
            Field::Decimal { groups, wide: number(0)? == 1 }
        }
        "date" => Field::Date,
        "time" => Field::Time { fraction: fraction? },
        "datetime" => Field::Datetime { fraction: fraction? },
        "timestamp" => Field::Timestamp { fraction: fraction? },
        "year" => Field::Year { zero: i16::try_from(*numbers.first()?).ok()? },
        "bits" => Field::Bits(width?),
        "label" => Field::Label { width: width?, labels: texts },
        "labels" if texts.len() <= 64 => Field::Labels { width: width?, labels: texts },
        "bytes" => Field::Bytes { length: length? },
        "padded" => Field::Padded { length: length?, size: number(1)? },
        "utf8" => Field::Utf8 { length: length? },
        "characters" => Field::Characters { length: length?, ascii: number(1)? == 1, table: texts },
        _ => return None,
    })
}
