//! The transactions that are complete: where each ended, its id, time and images; what both loops say when they stop.
#![forbid(unsafe_code)]

use crate::columns::{Buffers, Column, Refused};

/// What Python has to do next. The numbers are part of the interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Look = 0,
    Full = 1,
    Flush = 2,
}

pub struct Directory {
    natives: Column,
    gtids: Column,
    times: Column,
    rows: Column,
}

impl Default for Directory {
    fn default() -> Directory {
        Directory { natives: Column::new(0), gtids: Column::new(0), times: Column::new(8), rows: Column::new(8) }
    }
}

impl Directory {
    pub fn add(&mut self, native: &str, gtid: Option<&str>, time: i64, rows: i64) -> Result<(), Refused> {
        self.natives.push_bytes(native.as_bytes())?;
        match gtid {
            None => self.gtids.push_null()?,
            Some(id) => self.gtids.push_bytes(id.as_bytes())?,
        }
        self.times.push(&time.to_le_bytes())?;
        self.rows.push(&rows.to_le_bytes())
    }

    pub fn length(&self) -> usize {
        self.rows.length()
    }

    pub fn take(&mut self) -> [Buffers; 4] {
        let count = self.length();
        [&mut self.natives, &mut self.gtids, &mut self.times, &mut self.rows].map(|column| column.take(count))
    }
}
