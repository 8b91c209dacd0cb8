//! Values in PostgreSQL's text form as Arrow keeps them. What Python makes of the same texts (`text_values.py`) is the reference.
#![forbid(unsafe_code)]

use crate::columns::{Column, Refused};

const MOST_DIGITS: usize = 19; // of 64 bits

/// What a column's texts become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The column is left out.
    Skip,
    /// Of so many bytes, with a sign.
    Integer(u32),
    Float32,
    Float64,
    /// `\x` and two digits for each byte.
    Hex,
    Utf8,
}

impl Text {
    pub fn named(name: &str) -> Option<Text> {
        Some(match name {
            "skip" => Text::Skip,
            "int16" => Text::Integer(2),
            "int32" => Text::Integer(4),
            "int64" => Text::Integer(8),
            "float" => Text::Float32,
            "double" => Text::Float64,
            "hex" => Text::Hex,
            "utf8" => Text::Utf8,
            _ => return None,
        })
    }

    /// The value goes to the end of `column`. A text that the server does not write for such a value is refused.
    #[inline]
    pub fn decode(self, value: &[u8], column: &mut Column) -> Result<(), Refused> {
        match self {
            Text::Skip => Ok(()),
            Text::Integer(width) => {
                let number = integer(value)?;
                let unused = 64 - 8 * width;
                if number << unused >> unused != number {
                    return Err(Refused);
                }
                column.push(&number.to_le_bytes())
            }
            Text::Float32 => column.push(&float32(value)?.to_le_bytes()),
            Text::Float64 => column.push(&float64(value)?.to_le_bytes()),
            Text::Hex => hex(value, column),
            Text::Utf8 => {
                if !value.is_ascii() {
                    std::str::from_utf8(value).map_err(|_| Refused)?;
                }
                column.push_bytes(value)
            }
        }
    }
}

/// Digits without leading zeros, with `-` or nothing in front.
#[inline]
fn integer(value: &[u8]) -> Result<i64, Refused> {
    let (is_negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > MOST_DIGITS || (digits[0] == b'0' && value.len() > 1) {
        return Err(Refused);
    }
    let mut number = 0u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(Refused);
        }
        number = number * 10 + u64::from(digit - b'0');
    }
    match (is_negative, i64::try_from(number)) {
        (false, Ok(found)) => Ok(found),
        (true, Ok(found)) => Ok(-found),
        (true, Err(_)) if number == 1 << 63 => Ok(i64::MIN),
        _ => Err(Refused),
    }
}

/// `-`, digits, a point and digits, `e` and an exponent; all but the first digits may be missing.
fn is_decimal(value: &[u8]) -> bool {
    let digits = |from: &[u8]| from.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = value.strip_prefix(b"-").unwrap_or(value);
    let whole = digits(rest);
    if whole == 0 {
        return false;
    }
    rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    if let Some(exponent) = rest.strip_prefix(b"e") {
        let unsigned = exponent.strip_prefix(b"-").or_else(|| exponent.strip_prefix(b"+")).unwrap_or(exponent);
        let count = digits(unsigned);
        return count > 0 && count == unsigned.len();
    }
    rest.is_empty()
}

fn is_zero(value: &[u8]) -> bool {
    matches!(value, b"0" | b"-0")
}

/// Numbers that have all their digits; what is too large or too small for them Python looks at.
macro_rules! reader_of {
    ($name:ident, $type:ty, $nan:expr) => {
        fn $name(value: &[u8]) -> Result<$type, Refused> {
            match value {
                b"NaN" => return Ok(<$type>::from_bits($nan)),
                b"Infinity" => return Ok(<$type>::INFINITY),
                b"-Infinity" => return Ok(<$type>::NEG_INFINITY),
                _ => {}
            }
            let text = std::str::from_utf8(value).ok().filter(|_| is_decimal(value)).ok_or(Refused)?;
            let number: $type = text.parse().map_err(|_| Refused)?;
            Some(number).filter(|found| found.is_normal() || is_zero(value)).ok_or(Refused)
        }
    };
}

reader_of!(float32, f32, 0x7FC0_0000);
reader_of!(float64, f64, 0x7FF8_0000_0000_0000);

fn hex(value: &[u8], column: &mut Column) -> Result<(), Refused> {
    let digits = value.strip_prefix(b"\\x").filter(|digits| digits.len() % 2 == 0).ok_or(Refused)?;
    let nibble = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut is_hex = true;
    column.push_with(|data| {
        data.reserve(digits.len() / 2);
        for pair in digits.chunks_exact(2) {
            match (nibble(pair[0]), nibble(pair[1])) {
                (Some(high), Some(low)) => data.push(high << 4 | low),
                _ => {
                    is_hex = false;
                    break;
                }
            }
        }
    })?;
    if is_hex {
        Ok(())
    } else {
        Err(Refused)
    }
}
