//! Rows events: which columns an image has, and its values into the table's columns.
#![forbid(unsafe_code)]

use crate::columns::{Column, Refused};
use crate::fields::{Field, Reader};

/// A present column: its place, and its bit in the image's null bitmap where it may be NULL.
pub struct Step {
    pub place: usize,
    pub null_bit: Option<usize>,
}

/// One image of a row. `absent`: columns that it does not carry, with what stands for them (none: NULL).
pub struct Image {
    pub steps: Vec<Step>,
    pub absent: Vec<(usize, Option<Vec<u8>>)>,
}

impl Image {
    #[inline]
    fn decode(&self, from: &mut Reader, fields: &[Field], columns: &mut [Column], is_null_date: bool) -> Result<(), Refused> {
        for (place, value) in &self.absent {
            let column = columns.get_mut(*place).ok_or(Refused)?;
            match value {
                None => column.push_null()?,
                Some(bytes) => column.push_constant(bytes)?,
            }
        }
        let nulls = from.take((self.steps.len() + 7) / 8)?;
        for step in &self.steps {
            let column = columns.get_mut(step.place).ok_or(Refused)?;
            let is_null = match step.null_bit {
                None => false,
                Some(bit) => nulls.get(bit / 8).ok_or(Refused)? >> (bit % 8) & 1 == 1,
            };
            if is_null {
                column.push_null()?;
            } else {
                fields.get(step.place).ok_or(Refused)?.decode(from, column, is_null_date)?;
            }
        }
        Ok(())
    }
}

/// All images of an event. `rows`: the bytes behind the bitmaps of present columns. Refused: the columns are as they were.
pub fn decode(images: &[Image], fields: &[Field], columns: &mut [Column], is_null_date: bool, rows: &[u8]) -> Result<usize, Refused> {
    let before: Vec<usize> = columns.iter().map(Column::length).collect();
    let done = each(images, fields, columns, is_null_date, rows);
    if done.is_err() {
        for (column, length) in columns.iter_mut().zip(before) {
            column.truncate(length);
        }
    }
    done
}

fn each(images: &[Image], fields: &[Field], columns: &mut [Column], is_null_date: bool, rows: &[u8]) -> Result<usize, Refused> {
    let mut from = Reader(rows);
    let mut count = 0;
    while !from.0.is_empty() {
        let left = from.0.len();
        for image in images {
            image.decode(&mut from, fields, columns, is_null_date)?;
        }
        if from.0.len() == left {
            return Err(Refused);
        }
        count += images.len();
    }
    Ok(count)
}
