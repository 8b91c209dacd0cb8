//! One event in a packet of the replication protocol: header, place in the file, checksum. The loop of `assemble.py` is the reference.
#![forbid(unsafe_code)]

use crate::crc::crc32;

pub const QUERY: u8 = 2;
pub const XID: u8 = 16;
pub const TABLE_MAP: u8 = 19;
/// Rows query, annotated rows: nothing in them is for us.
pub const HARMLESS: [u8; 2] = [29, 160];
const PACKET: usize = 24;
const CHECKSUM: usize = 4;
const GIANT: usize = 0xFF_FFFF;
const FORMAT: u8 = 15;
const ARTIFICIAL: u16 = 0x20;
const FARTHEST: u64 = 1 << 31;

pub struct Event<'a> {
    pub kind: u8,
    pub seconds: u32,
    pub server: u32,
    /// The event's bytes with its header and checksum.
    pub length: u64,
    pub body: &'a [u8],
    /// Where the next packet begins, and the place in the file behind this event.
    pub next: usize,
    pub offset: u64,
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(data.get(at..at.checked_add(4)?)?);
    Some(u32::from_le_bytes(bytes))
}

/// The place behind an event of `length` bytes that ends at `after` (32 bits), where the server has left out others before it.
fn jumped(offset: u64, length: u32, after: u32) -> Option<u64> {
    let mut there = offset & !0xFFFF_FFFF | u64::from(after);
    if there < offset {
        there = there.checked_add(1 << 32)?;
    }
    let far = there - offset;
    Some(there).filter(|_| far >= u64::from(length) && far <= FARTHEST)
}

/// The event whose packet begins at `at`, as long as it is whole and nothing about it is unusual.
pub fn event(data: &[u8], at: usize, offset: u64, checksums: bool, is_gapless: bool) -> Option<Event<'_>> {
    let size = word(data, at)? as usize & GIANT;
    let start = at.checked_add(5)?;
    let next = at.checked_add(4)?.checked_add(size)?;
    let least = PACKET - 4 + if checksums { CHECKSUM } else { 0 };
    if size == GIANT || size < least || next > data.len() || data[at + 4] != 0 {
        return None;
    }
    let (kind, length, after) = (data[at + 9], word(data, at + 14)?, word(data, at + 18)?);
    if length as usize != size - 1 || kind == FORMAT {
        return None;
    }
    let mut behind = offset;
    if after != 0 {
        behind = offset.checked_add(u64::from(length))?;
        if behind & 0xFFFF_FFFF != u64::from(after) {
            let flags = u16::from_le_bytes([data[at + 22], data[at + 23]]);
            if is_gapless || flags & ARTIFICIAL != 0 {
                return None;
            }
            behind = jumped(offset, length, after)?;
        }
    }
    let mut end = next;
    if checksums {
        end -= CHECKSUM;
        if crc32(data.get(start..end)?) != word(data, end)? {
            return None;
        }
    }
    Some(Event {
        kind,
        seconds: word(data, at + 5)?,
        server: word(data, at + 10)?,
        length: u64::from(length),
        body: data.get(at + PACKET..end)?,
        next,
        offset: behind,
    })
}
