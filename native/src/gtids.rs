//! Ids of transactions, as their events have them.
#![forbid(unsafe_code)]

use std::fmt::Write;

pub const GTID: u8 = 33;
pub const ANONYMOUS: u8 = 34;
pub const MARIADB: u8 = 162;
const MARIADB_BYTES: usize = 13;
const BYTES: usize = 25;
const CLOCK: usize = 25;
const CLOCK_AT: usize = 42;
const CLOCK_BYTES: usize = 7;
const CLOCK_MASK: u64 = (1 << 55) - 1;
const STANDALONE: u8 = 1;
const PREPARED: u8 = 64;
const SECOND: i64 = 1_000_000;

/// The event that the open transaction began with.
#[derive(Clone)]
pub struct Begin {
    pub kind: u8,
    pub body: Vec<u8>,
    pub server: u32,
}

/// What a transaction that ends is called.
pub enum Identity {
    Mariadb { domain: u32, server: u32, number: u64 },
    Mysql { source: [u8; 16], number: i64 },
    None,
}

/// Is it one that native code follows? Then: does a transaction follow, not a lone statement?
pub fn begins(kind: u8, body: &[u8]) -> Option<bool> {
    if kind != MARIADB {
        return Some(false).filter(|_| body.len() >= BYTES);
    }
    let flags = *body.get(MARIADB_BYTES - 1)?;
    Some(flags & STANDALONE == 0).filter(|_| flags & PREPARED == 0)
}

/// Whose id a transaction of MySQL has, as 16 bytes.
pub fn source(kind: u8, body: &[u8]) -> Option<&[u8]> {
    body.get(1..17).filter(|_| kind == GTID)
}

fn array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    let mut found = [0; N];
    found.copy_from_slice(data.get(at..at + N)?);
    Some(found)
}

/// Identity and commit time in microseconds. None: Python is asked.
pub fn identify(begin: Option<&Begin>, seconds: u32) -> Option<(Identity, i64)> {
    let time = i64::from(seconds) * SECOND;
    let (kind, body, server) = match begin {
        None => return Some((Identity::None, time)),
        Some(begin) => (begin.kind, &begin.body, begin.server),
    };
    match kind {
        MARIADB => {
            let number = u64::from_le_bytes(array(body, 0)?);
            let domain = u32::from_le_bytes(array(body, 8)?);
            Some((Identity::Mariadb { domain, server, number }, time))
        }
        GTID | ANONYMOUS => {
            let source = array(body, 1)?;
            let number = i64::from_le_bytes(array(body, 17)?);
            let mut clock = 0;
            if body.get(CLOCK) == Some(&2) {
                let bytes = body.iter().skip(CLOCK_AT).take(CLOCK_BYTES);
                clock = bytes.rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)) & CLOCK_MASK;
            }
            let time = if clock == 0 { time } else { i64::try_from(clock).ok()? };
            let identity = if kind == GTID { Identity::Mysql { source, number } } else { Identity::None };
            Some((identity, time))
        }
        _ => None,
    }
}

impl Identity {
    /// Its text, into an empty buffer; false where there is none.
    pub fn write(&self, text: &mut String) -> bool {
        match self {
            Identity::None => return false,
            Identity::Mariadb { domain, server, number } => {
                let _ = write!(text, "{}-{}-{}", domain, server, number);
            }
            Identity::Mysql { source, number } => {
                for (place, byte) in source.iter().enumerate() {
                    if matches!(place, 4 | 6 | 8 | 10) {
                        text.push('-');
                    }
                    let _ = write!(text, "{:02x}", byte);
                }
                let _ = write!(text, ":{}", number);
            }
        }
        true
    }
}

/// The ids that ended since they were last asked for.
#[derive(Default)]
pub struct Ended {
    /// By domain the last one: server, number.
    pub mariadb: Vec<(u32, u32, u64)>,
    /// Intervals in the order of the log.
    pub mysql: Vec<([u8; 16], i64, i64)>,
}

impl Ended {
    pub fn add(&mut self, identity: &Identity) {
        match *identity {
            Identity::None => {}
            Identity::Mariadb { domain, server, number } => {
                match self.mariadb.iter_mut().find(|found| found.0 == domain) {
                    Some(found) => *found = (domain, server, number),
                    None => self.mariadb.push((domain, server, number)),
                }
            }
            Identity::Mysql { source, number } => match self.mysql.last_mut() {
                Some((same, _, last)) if *same == source && last.checked_add(1) == Some(number) => *last = number,
                _ => self.mysql.push((source, number, number)),
            },
        }
    }
}
