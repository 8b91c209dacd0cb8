//! The values of one column as Arrow keeps them: validity, offsets, data.
#![forbid(unsafe_code)]

/// What native code does not do: Python is asked, which decodes it or says what is wrong.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused;

enum Store {
    Nothing,
    Fixed(usize, Vec<u8>),
    Variable(Vec<i32>, Vec<u8>),
}

/// Buffers of one Arrow array. `validity` is missing where nothing is null.
pub struct Buffers {
    pub validity: Option<Vec<u8>>,
    pub nulls: usize,
    pub offsets: Option<Vec<u8>>,
    pub data: Vec<u8>,
}

pub struct Column {
    store: Store,
    validity: Option<Vec<u8>>,
    length: usize,
}

impl Column {
    /// `width`: bytes of a value; 0 for values of any length, less for a column that is left out.
    pub fn new(width: i64) -> Column {
        let store = match usize::try_from(width) {
            Err(_) => Store::Nothing,
            Ok(0) => Store::Variable(vec![0], Vec::new()),
            Ok(wide) => Store::Fixed(wide, Vec::new()),
        };
        Column { store, validity: None, length: 0 }
    }

    pub fn length(&self) -> usize {
        self.length
    }

    pub fn is_kept(&self) -> bool {
        !matches!(self.store, Store::Nothing)
    }

    /// A value of fixed width: no more bytes than that are looked at.
    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Result<(), Refused> {
        match &mut self.store {
            Store::Fixed(width, data) => data.extend_from_slice(value.get(..*width).ok_or(Refused)?),
            _ => return Err(Refused),
        }
        self.valid();
        Ok(())
    }

    /// A value of any length.
    #[inline]
    pub fn push_bytes(&mut self, value: &[u8]) -> Result<(), Refused> {
        self.push_with(|data| data.extend_from_slice(value))
    }

    /// A value of any length that `write` appends.
    #[inline]
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Refused> {
        match &mut self.store {
            Store::Variable(offsets, data) => {
                write(data);
                offsets.push(i32::try_from(data.len()).map_err(|_| Refused)?);
            }
            _ => return Err(Refused),
        }
        self.valid();
        Ok(())
    }

    /// A value as its bytes, whatever the column's form.
    pub fn push_constant(&mut self, value: &[u8]) -> Result<(), Refused> {
        match self.store {
            Store::Variable(..) => self.push_bytes(value),
            _ => self.push(value),
        }
    }

    pub fn push_null(&mut self) -> Result<(), Refused> {
        match &mut self.store {
            Store::Nothing => return Ok(()),
            Store::Fixed(width, data) => data.resize(data.len() + *width, 0),
            Store::Variable(offsets, data) => offsets.push(i32::try_from(data.len()).map_err(|_| Refused)?),
        }
        let length = self.length;
        let bits = self.validity.get_or_insert_with(|| ones(length));
        if length % 8 == 0 {
            bits.push(0);
        }
        self.length += 1;
        Ok(())
    }

    #[inline]
    fn valid(&mut self) {
        if let Some(bits) = &mut self.validity {
            if self.length % 8 == 0 {
                bits.push(1);
            } else if let Some(last) = bits.last_mut() {
                *last |= 1 << (self.length % 8);
            }
        }
        self.length += 1;
    }

    /// Back to `length` values, also after a value that was refused half-way.
    pub fn truncate(&mut self, length: usize) {
        match &mut self.store {
            Store::Nothing => return,
            Store::Fixed(width, data) => data.truncate(length * *width),
            Store::Variable(offsets, data) => {
                offsets.truncate(length + 1);
                data.truncate(offsets.last().map_or(0, |last| *last as usize));
            }
        }
        self.length = length;
        if let Some(bits) = &mut self.validity {
            bits.truncate((length + 7) / 8);
            if let (Some(last), true) = (bits.last_mut(), length % 8 > 0) {
                *last &= (1u8 << (length % 8)) - 1;
            }
        }
    }

    /// The first `count` values, which are gone then.
    pub fn take(&mut self, count: usize) -> Buffers {
        let count = count.min(self.length);
        let rest = self.length - count;
        let (offsets, data) = match &mut self.store {
            Store::Nothing => (None, Vec::new()),
            Store::Fixed(width, data) => {
                let kept = data.split_off(count * *width);
                (None, std::mem::replace(data, kept))
            }
            Store::Variable(offsets, data) => {
                let end = offsets.get(count).copied().unwrap_or(0);
                let kept = data.split_off(end as usize);
                let moved: Vec<i32> = offsets.iter().skip(count).map(|offset| offset - end).collect();
                offsets.truncate(count + 1);
                let taken = std::mem::replace(offsets, moved);
                let bytes = taken.iter().flat_map(|offset| offset.to_le_bytes()).collect();
                (Some(bytes), std::mem::replace(data, kept))
            }
        };
        let (validity, nulls) = self.take_validity(count, rest);
        self.length = rest;
        Buffers { validity, nulls, offsets, data }
    }

    fn take_validity(&mut self, count: usize, rest: usize) -> (Option<Vec<u8>>, usize) {
        let bits = match self.validity.take() {
            None => return (None, 0),
            Some(bits) => bits,
        };
        if rest > 0 {
            let mut kept = Vec::with_capacity(rest / 8 + 1);
            for at in 0..rest {
                let place = count + at;
                let bit = bits[place / 8] >> (place % 8) & 1;
                if at % 8 == 0 {
                    kept.push(0);
                }
                kept[at / 8] |= bit << (at % 8);
            }
            self.validity = Some(kept);
        }
        let mut taken = bits;
        taken.truncate((count + 7) / 8);
        if let (Some(last), true) = (taken.last_mut(), count % 8 > 0) {
            *last &= (1u8 << (count % 8)) - 1;
        }
        let valid: usize = taken.iter().map(|byte| byte.count_ones() as usize).sum();
        let nulls = count - valid;
        (if nulls > 0 { Some(taken) } else { None }, nulls)
    }
}

fn ones(length: usize) -> Vec<u8> {
    let mut bits = vec![0xFF; length / 8];
    if length % 8 > 0 {
        bits.push((1u8 << (length % 8)) - 1);
    }
    bits
}
