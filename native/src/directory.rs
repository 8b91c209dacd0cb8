//! The transactions that are complete: where each ended, its id, time, images and origin; what both loops say when they stop.
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
    origins: Column,
}

impl Default for Directory {
    fn default() -> Directory {
        let (text, number) = (|| Column::new(0), || Column::new(8));
        Directory { natives: text(), gtids: text(), times: number(), rows: number(), origins: text() }
    }
}

impl Directory {
    pub fn add(
        &mut self,
        native: &str,
        gtid: Option<&str>,
        time: i64,
        rows: i64,
        origin: Option<&str>,
    ) -> Result<(), Refused> {
        self.natives.push_bytes(native.as_bytes())?;
        push(&mut self.gtids, gtid)?;
        self.times.push(&time.to_le_bytes())?;
        self.rows.push(&rows.to_le_bytes())?;
        push(&mut self.origins, origin)
    }

    pub fn length(&self) -> usize {
        self.rows.length()
    }

    pub fn take(&mut self) -> [Buffers; 5] {
        let count = self.length();
        [&mut self.natives, &mut self.gtids, &mut self.times, &mut self.rows, &mut self.origins]
            .map(|column| column.take(count))
    }
}

fn push(column: &mut Column, text: Option<&str>) -> Result<(), Refused> {
    match text {
        None => column.push_null(),
        Some(text) => column.push_bytes(text.as_bytes()),
    }
}
