//! How a column's values stand in a row image, and what they are in Arrow. The Python decoder (`fields.py`, `values.py`) is the reference.
#![forbid(unsafe_code)]

use crate::columns::{Column, Refused};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
const DIGIT_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

pub enum Field {
    /// Bytes of a column that is left out.
    Skip(usize),
    SkipVariable(usize),
    /// Little-endian, of `width` bytes.
    Integer { width: usize, signed: bool },
    /// Bytes as they are.
    Copy(usize),
    /// Groups of digits: how many are in each. `wide`: four words instead of two.
    Decimal { groups: Vec<usize>, wide: bool },
    Date,
    /// `fraction`: bytes of it.
    Time { fraction: usize },
    Datetime { fraction: usize },
    Timestamp { fraction: usize },
    /// `zero`: what 0 stands for.
    Year { zero: i16 },
    Bits(usize),
    Label { width: usize, labels: Vec<Vec<u8>> },
    Labels { width: usize, labels: Vec<Vec<u8>> },
    /// `length`: bytes of the length.
    Bytes { length: usize },
    /// With zeros behind it up to `size`.
    Padded { length: usize, size: usize },
    Utf8 { length: usize },
    /// One character per byte; none: a byte that has no character. `ascii`: bytes below 128 stand for themselves.
    Characters { length: usize, ascii: bool, table: Vec<Vec<u8>> },
}

/// Bytes that are read from the front.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Refused> {
        let found = self.0.get(..count).ok_or(Refused)?;
        self.0 = &self.0[count..];
        Ok(found)
    }

    #[inline]
    fn little(&mut self, width: usize) -> Result<u64, Refused> {
        let mut whole = [0; 8];
        whole.get_mut(..width).ok_or(Refused)?.copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(whole))
    }

    #[inline]
    fn big(&mut self, width: usize) -> Result<u64, Refused> {
        let mut whole = [0; 8];
        let start = 8usize.checked_sub(width).ok_or(Refused)?;
        whole[start..].copy_from_slice(self.take(width)?);
        Ok(u64::from_be_bytes(whole))
    }

    #[inline]
    fn sized(&mut self, length: usize) -> Result<&'a [u8], Refused> {
        let size = self.little(length)? as usize;
        self.take(size)
    }
}

impl Field {
    /// The next value goes to the end of `column`. `is_null_date`: dates that are none are NULL.
    #[inline]
    pub fn decode(&self, from: &mut Reader, column: &mut Column, is_null_date: bool) -> Result<(), Refused> {
        match self {
            Field::Skip(size) => from.take(*size).map(|_| ()),
            Field::SkipVariable(length) => from.sized(*length).map(|_| ()),
            Field::Copy(size) => column.push(from.take(*size)?),
            Field::Integer { width, signed } => {
                let number = from.little(*width)?;
                let unused = 64 - 8 * *width as u32;
                let extended = if *signed { ((number << unused) as i64 >> unused) as u64 } else { number };
                column.push(&extended.to_le_bytes())
            }
            Field::Decimal { groups, wide } => decimal(groups, *wide, from, column),
            Field::Date => {
                let packed = from.little(3)? as i64;
                match days(packed >> 9, packed >> 5 & 15, packed & 31) {
                    Some(day) => column.push(&(day as i32).to_le_bytes()),
                    None => no_date(column, is_null_date),
                }
            }
            Field::Time { fraction } => {
                let (bits, unit) = (8 * *fraction as u32, unit(*fraction)?);
                let number = from.big(3 + fraction)? as i64 - (0x80_0000 << bits);
                let size = number.abs();
                let whole = size >> bits;
                let seconds = ((whole >> 12) * 60 + (whole >> 6 & 63)) * 60 + (whole & 63);
                let micros = seconds * SECOND + (size & ((1 << bits) - 1)) * unit;
                column.push(&(if number < 0 { -micros } else { micros }).to_le_bytes())
            }
            Field::Datetime { fraction } => {
                let (bits, unit) = (8 * *fraction as u32, unit(*fraction)?);
                let number = from.big(5 + fraction)? as i64;
                let (upper, clock) = (number >> (17 + bits) & 0x3F_FFFF, number >> bits & 0x1_FFFF);
                let month = upper >> 5;
                let day = match days(month / 13, month % 13, upper & 31) {
                    Some(day) => day,
                    None => return no_date(column, is_null_date),
                };
                let (hour, minute, second) = (clock >> 12, clock >> 6 & 63, clock & 63);
                if hour > 23 || minute > 59 || second > 59 {
                    return Err(Refused);
                }
                let seconds = (hour * 60 + minute) * 60 + second;
                let micros = day * DAY + seconds * SECOND + (number & ((1 << bits) - 1)) * unit;
                column.push(&micros.to_le_bytes())
            }
            Field::Timestamp { fraction } => {
                let (bits, unit) = (8 * *fraction as u32, unit(*fraction)?);
                let number = from.big(4 + fraction)? as i64;
                if number == 0 {
                    return no_date(column, is_null_date);
                }
                let micros = (number >> bits) * SECOND + (number & ((1 << bits) - 1)) * unit;
                column.push(&micros.to_le_bytes())
            }
            Field::Year { zero } => {
                let stored = from.little(1)? as i16;
                column.push(&(if stored == 0 { *zero } else { 1900 + stored }).to_le_bytes())
            }
            Field::Bits(width) => column.push(&from.big(*width)?.to_le_bytes()),
            Field::Label { width, labels } => {
                let place = from.little(*width)? as usize;
                column.push_bytes(labels.get(place).ok_or(Refused)?)
            }
            Field::Labels { width, labels } => {
                let bits = from.little(*width)?;
                if labels.len() < 64 && bits >> labels.len() != 0 {
                    return Err(Refused);
                }
                column.push_with(|data| {
                    let mut is_first = true;
                    for (_, label) in labels.iter().enumerate().filter(|(place, _)| bits >> place & 1 == 1) {
                        if !is_first {
                            data.push(b',');
                        }
                        is_first = false;
                        data.extend_from_slice(label);
                    }
                })
            }
            Field::Bytes { length } => column.push_bytes(from.sized(*length)?),
            Field::Padded { length, size } => {
                let value = from.sized(*length)?;
                column.push_with(|data| {
                    let end = data.len() + value.len().max(*size);
                    data.extend_from_slice(value);
                    data.resize(end, 0);
                })
            }
            Field::Utf8 { length } => {
                let value = from.sized(*length)?;
                if !value.is_ascii() {
                    std::str::from_utf8(value).map_err(|_| Refused)?;
                }
                column.push_bytes(value)
            }
            Field::Characters { length, ascii, table } => {
                let value = from.sized(*length)?;
                if *ascii && value.is_ascii() {
                    return column.push_bytes(value);
                }
                let character = |byte: &u8| table.get(usize::from(*byte)).filter(|found| !found.is_empty());
                if !value.iter().all(|byte| character(byte).is_some()) {
                    return Err(Refused);
                }
                column.push_with(|data| {
                    for found in value.iter().filter_map(character) {
                        data.extend_from_slice(found);
                    }
                })
            }
        }
    }
}

#[inline]
fn no_date(column: &mut Column, is_null: bool) -> Result<(), Refused> {
    if is_null {
        column.push_null()
    } else {
        Err(Refused)
    }
}

/// Microseconds of the last digit that `fraction` bytes have.
#[inline]
fn unit(fraction: usize) -> Result<i64, Refused> {
    [1_000_000, 10_000, 100, 1].get(fraction).copied().ok_or(Refused)
}

/// Days since 1970; none for a day that the calendar of the years 1 to 9999 does not have.
#[inline]
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    const LENGTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let place = (month - 1) as usize;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most = LENGTHS[place] + i64::from(is_leap && month == 2);
    if !(1..=most).contains(&day) {
        return None;
    }
    let past = year - 1;
    let whole = past * 365 + past / 4 - past / 100 + past / 400;
    Some(whole + BEFORE[place] + i64::from(is_leap && month > 2) + day - 1 - 719_162)
}

/// Big-endian groups of digits, the sign in the highest bit, negative numbers with all bits inverted; a group that is larger than
/// its digits is refused.
fn decimal(groups: &[usize], wide: bool, from: &mut Reader, column: &mut Column) -> Result<(), Refused> {
    let positive = from.0.first().ok_or(Refused)? & 0x80 != 0;
    let flip = if positive { 0u8 } else { 0xFF };
    let mut top = 0x80u8;
    let mut words = [0u64; 4];
    for digits in groups {
        let mut group = 0u64;
        for byte in from.take(*DIGIT_BYTES.get(*digits).ok_or(Refused)?)? {
            group = group << 8 | u64::from(byte ^ top ^ flip);
            top = 0;
        }
        let factor = 10u64.pow(*digits as u32);
        if group >= factor {
            return Err(Refused);
        }
        multiply_add(&mut words, factor, group)?;
    }
    // Three words of 65 digits are 216 bits: the highest bit is free for the sign.
    if words[3] >> 63 != 0 || (!wide && (words[3] != 0 || words[2] != 0 || words[1] >> 63 != 0)) {
        return Err(Refused);
    }
    if !positive {
        let mut carry = true;
        for word in &mut words {
            let (sum, more) = (!*word).overflowing_add(u64::from(carry));
            *word = sum;
            carry = more;
        }
    }
    let mut bytes = [0u8; 32];
    for (place, word) in words.iter().enumerate() {
        bytes[8 * place..8 * place + 8].copy_from_slice(&word.to_le_bytes());
    }
    column.push(&bytes)
}

#[inline]
fn multiply_add(words: &mut [u64; 4], factor: u64, more: u64) -> Result<(), Refused> {
    let mut carry = u128::from(more);
    for word in words.iter_mut() {
        let product = u128::from(*word) * u128::from(factor) + carry;
        *word = product as u64;
        carry = product >> 64;
    }
    if carry == 0 {
        Ok(())
    } else {
        Err(Refused)
    }
}
