//! Row messages of pgoutput: tuples, and the images that are made of them. `row_images.py` is the reference.
#![forbid(unsafe_code)]

use crate::columns::{Column, Refused};
use crate::texts::Text;

pub const INSERT: u8 = b'I';
pub const UPDATE: u8 = b'U';
pub const DELETE: u8 = b'D';
const KEY: u8 = b'K';
const OLD: u8 = b'O';
const NEW: u8 = b'N';
// What an image has of a column, as `message_buffer.py` has it.
const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const UNCHANGED: u8 = 2;

#[derive(Clone, Copy)]
enum Cell<'a> {
    Text(&'a [u8]),
    Null,
    Unchanged,
}

/// A column of a relation: its place in the table, whether it is in the replica identity.
pub struct Logged {
    pub place: usize,
    pub text: Text,
    pub in_identity: bool,
}

/// What a message says: its kind, the row before (of its identity alone, where `is_key`), the row now.
pub struct Change<'a> {
    pub kind: u8,
    old: Vec<Cell<'a>>,
    new: Vec<Cell<'a>>,
    is_key: bool,
}

/// Which columns an image has: all, those of the identity, or as it says by column.
pub enum Has {
    All,
    Identity,
    Codes(Vec<u8>),
}

fn split<'a>(data: &mut &'a [u8], count: usize) -> Result<(u8, &'a [u8]), Refused> {
    let found = data.get(..count).ok_or(Refused)?;
    *data = &data[count..];
    Ok((*found.first().ok_or(Refused)?, found))
}

fn tuple<'a>(data: &mut &'a [u8], columns: usize) -> Result<Vec<Cell<'a>>, Refused> {
    let (_, count) = split(data, 2)?;
    if usize::from(u16::from_be_bytes([count[0], count[1]])) != columns {
        return Err(Refused);
    }
    let mut cells = Vec::with_capacity(columns);
    for _ in 0..columns {
        cells.push(match split(data, 1)?.0 {
            b't' => {
                let (_, size) = split(data, 4)?;
                let size = u32::from_be_bytes([size[0], size[1], size[2], size[3]]) as usize;
                let value = data.get(..size).ok_or(Refused)?;
                *data = &data[size..];
                Cell::Text(value)
            }
            b'n' => Cell::Null,
            b'u' => Cell::Unchanged,
            _ => return Err(Refused),
        });
    }
    Ok(cells)
}

/// `body`: a message of `kind` behind its head.
pub fn change(kind: u8, mut body: &[u8], columns: usize) -> Result<Change<'_>, Refused> {
    let data = &mut body;
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let (first, _) = split(data, 1)?;
    let has_old = first == KEY || first == OLD;
    if has_old {
        if kind == INSERT {
            return Err(Refused);
        }
        old = tuple(data, columns)?;
    } else if first != NEW || kind == DELETE {
        return Err(Refused);
    }
    if kind != DELETE {
        if has_old && split(data, 1)?.0 != NEW {
            return Err(Refused);
        }
        new = tuple(data, columns)?;
    }
    if !data.is_empty() {
        return Err(Refused);
    }
    if kind == UPDATE && first == NEW {
        old = new.clone(); // its key is as it was
    } else if first == OLD {
        for (now, before) in new.iter_mut().zip(&old) {
            if matches!(now, Cell::Unchanged) {
                *now = *before;
            }
        }
    }
    Ok(Change { kind, old, new, is_key: first != OLD })
}

impl Change<'_> {
    pub fn images(&self) -> usize {
        if self.kind == UPDATE {
            2
        } else {
            1
        }
    }

    /// The images' values behind those of `columns`, where `others` are not in the log; which columns each has. Where it is refused,
    /// some may have been put there.
    pub fn write(&self, logged: &[Logged], others: &[usize], columns: &mut [Column]) -> Result<(Has, Has), Refused> {
        let mut first = Has::All;
        if self.kind != INSERT {
            first = image(&self.old, self.is_key, logged, others, columns)?;
        }
        if self.kind == DELETE {
            return Ok((first, Has::All));
        }
        let now = image(&self.new, false, logged, others, columns)?;
        Ok(if self.kind == INSERT { (now, Has::All) } else { (first, now) })
    }
}

fn image(cells: &[Cell], is_key: bool, logged: &[Logged], others: &[usize], columns: &mut [Column]) -> Result<Has, Refused> {
    let mut is_plain = true;
    for (cell, one) in cells.iter().zip(logged) {
        let column = columns.get_mut(one.place).ok_or(Refused)?;
        match cell {
            _ if is_key && !one.in_identity => column.push_null()?,
            Cell::Text(value) => one.text.decode(value, column)?,
            Cell::Null => column.push_null()?,
            Cell::Unchanged => {
                is_plain = false;
                column.push_null()?;
            }
        }
    }
    for place in others {
        columns.get_mut(*place).ok_or(Refused)?.push_null()?;
    }
    if is_plain {
        return Ok(if is_key { Has::Identity } else { Has::All });
    }
    let mut codes = vec![PRESENT; columns.len()];
    for (cell, one) in cells.iter().zip(logged) {
        let code = codes.get_mut(one.place).ok_or(Refused)?;
        if is_key && !one.in_identity {
            *code = ABSENT;
        } else if matches!(cell, Cell::Unchanged) {
            *code = UNCHANGED;
        }
    }
    Ok(Has::Codes(codes))
}
