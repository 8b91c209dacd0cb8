//! From packets of the text protocol to lines that COPY reads, as long as all is plain. The Python code (`packets.py`, `lines.py`)
//! is the reference, `expressions.py` has the marks.
#![forbid(unsafe_code)]

const CONTINUED: usize = 0xFF_FFFF;
const SEPARATOR: u8 = 0xFF;
const NULL: u8 = 0xFE;
const DATE: u8 = 0xF9;
const DAYS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/// Bytes that do not stand for themselves: those that are escaped, zero, and all that UTF-8 has not.
static SPECIAL: [bool; 256] = special();

const fn special() -> [bool; 256] {
    let mut found = [false; 256];
    found[0] = true;
    found[b'\t' as usize] = true;
    found[b'\n' as usize] = true;
    found[b'\r' as usize] = true;
    found[b'\\' as usize] = true;
    let mut byte = 0xF5;
    while byte < 256 {
        found[byte] = true;
        byte += 1;
    }
    found
}

/// Lines of the rows at the front of `data`, and where the first one begins that is not whole, or that Python has to look at.
pub fn lines(data: &[u8]) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(data.len());
    let mut at = 0;
    while let Some((row, next)) = row(data, at) {
        let before = out.len();
        if line(row, &mut out).is_none() {
            out.truncate(before);
            break;
        }
        at = next;
    }
    (out, at)
}

/// The only value of the row in the packet at `at`, and where the next packet begins.
#[inline]
fn row(data: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let (payload, next) = packet(data, at)?;
    match value(payload)? {
        (Some(found), []) => Some((found, next)),
        _ => None,
    }
}

/// What is in the packet at `at`, and where the next packet begins.
#[inline]
fn packet(data: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let packet = data.get(at..)?;
    let size = little(packet.get(..3)?);
    if size == CONTINUED {
        return None;
    }
    Some((packet.get(4..4 + size)?, at + 4 + size))
}

/// The value at the front of a row, None for NULL, and the rest of the row. What ends a result or tells an error has no value.
#[inline]
fn value(row: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let width = match *row.first()? {
        0..=0xFA => 1,
        0xFB => return Some((None, &row[1..])),
        0xFC => 3,
        0xFD => 4,
        _ => return None,
    };
    let length = if width == 1 { usize::from(row[0]) } else { little(row.get(1..width)?) };
    let end = width.checked_add(length)?;
    Some((Some(row.get(width..end)?), &row[end..]))
}

/// As `lines`, of rows with a value for each of `kinds`.
pub fn lines_of_columns(data: &[u8], kinds: &[u8]) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(data.len());
    let mut at = 0;
    while let Some((row, next)) = packet(data, at) {
        let before = out.len();
        if columns(row, kinds, &mut out).is_none() {
            out.truncate(before);
            break;
        }
        at = next;
    }
    (out, at)
}

#[inline]
fn columns(row: &[u8], kinds: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = row;
    for kind in kinds {
        let found;
        (found, rest) = value(rest)?;
        match (found, kind) {
            (None, _) => out.extend_from_slice(b"\\N"),
            (Some(number), b'n') => out.extend_from_slice(number),
            (Some(date), b'd') if is_date(date) => out.extend_from_slice(date),
            (Some(words), b'w') => escaped(words, out)?,
            _ => return None,
        }
        out.push(b'\t');
    }
    if !rest.is_empty() {
        return None;
    }
    *out.last_mut()? = b'\n';
    Some(())
}

#[inline]
fn escaped(words: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = words;
    while let Some(place) = rest.iter().position(|byte| SPECIAL[usize::from(*byte)]) {
        out.extend_from_slice(&rest[..place]);
        out.extend_from_slice(escape(rest[place])?);
        rest = &rest[place + 1..];
    }
    out.extend_from_slice(rest);
    Some(())
}

#[inline]
fn escape(byte: u8) -> Option<&'static [u8]> {
    match byte {
        b'\\' => Some(b"\\\\"),
        b'\t' => Some(b"\\t"),
        b'\n' => Some(b"\\n"),
        b'\r' => Some(b"\\r"),
        _ => None,
    }
}

#[inline]
fn little(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

#[inline]
fn line(row: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = row;
    while let Some(place) = rest.iter().position(|byte| SPECIAL[usize::from(*byte)]) {
        out.extend_from_slice(&rest[..place]);
        let byte = rest[place];
        rest = &rest[place + 1..];
        match byte {
            SEPARATOR => out.push(b'\t'),
            NULL => out.extend_from_slice(b"\\N"),
            DATE if is_date(rest) => {}
            byte => out.extend_from_slice(escape(byte)?),
        }
    }
    out.extend_from_slice(rest);
    out.push(b'\n');
    Some(())
}

/// Does it begin with a day that there is?
#[inline]
fn is_date(text: &[u8]) -> bool {
    match text {
        [a, b, c, d, b'-', e, f, b'-', g, h, ..] => {
            let (year, month, day) = (number(&[*a, *b, *c, *d]), number(&[*e, *f]), number(&[*g, *h]));
            matches!((year, month, day), (Some(year), Some(month), Some(day)) if exists(year, month, day))
        }
        _ => false,
    }
}

#[inline]
fn exists(year: u32, month: u32, day: u32) -> bool {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match DAYS.get((month as usize).wrapping_sub(1)) {
        Some(days) => year > 0 && day > 0 && day <= days + u32::from(is_leap && month == 2),
        None => false,
    }
}

#[inline]
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, byte| if byte.is_ascii_digit() { Some(sum * 10 + u32::from(byte - b'0')) } else { None })
}
