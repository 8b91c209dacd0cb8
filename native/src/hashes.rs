//! The hashes that a PostgreSQL makes of bytes and of whole numbers, which are Bob Jenkins' lookup3: the same on every release,
//! since rows lie in hash partitions by them. https://burtleburtle.net/bob/c/lookup3.c
#![forbid(unsafe_code)]

const START: u32 = 0x9e37_79b9 + 3_923_095;
const BLOCK: usize = 12;

#[derive(Clone, Copy)]
struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    fn new(length: u32, seed: u64) -> Self {
        let start = START.wrapping_add(length);
        let mut made = Self { a: start, b: start, c: start };
        if seed != 0 {
            made.a = made.a.wrapping_add((seed >> 32) as u32);
            made.b = made.b.wrapping_add(seed as u32);
            made.mix();
        }
        made
    }

    #[inline]
    fn mix(&mut self) {
        let Self { mut a, mut b, mut c } = *self;
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        *self = Self { a, b, c };
    }

    #[inline]
    fn finish(self) -> u64 {
        let Self { mut a, mut b, mut c } = self;
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        u64::from(b) << 32 | u64::from(c)
    }

    #[inline]
    fn add(&mut self, words: [u32; 3]) {
        self.a = self.a.wrapping_add(words[0]);
        self.b = self.b.wrapping_add(words[1]);
        self.c = self.c.wrapping_add(words[2]);
    }
}

/// `hashtextextended` under the collation "C".
pub fn of_bytes(bytes: &[u8], seed: u64) -> u64 {
    let mut state = State::new(bytes.len() as u32, seed);
    let mut blocks = bytes.chunks_exact(BLOCK);
    for block in &mut blocks {
        state.add(words(block));
        state.mix();
    }
    // The lowest byte of the last word is left to the length.
    let rest = blocks.remainder();
    let (front, behind) = rest.split_at(rest.len().min(8));
    let mut last = [0u8; BLOCK];
    last[..front.len()].copy_from_slice(front);
    last[9..9 + behind.len()].copy_from_slice(behind);
    state.add(words(&last));
    state.finish()
}

/// `hashint4extended`.
pub fn of_i32(value: i32, seed: u64) -> u64 {
    let mut state = State::new(4, seed);
    state.a = state.a.wrapping_add(value as u32);
    state.finish()
}

/// `hashint8extended`, which folds a number to 32 bits.
pub fn of_i64(value: i64, seed: u64) -> u64 {
    let high = (value >> 32) as u32;
    of_i32((value as u32 ^ if value >= 0 { high } else { !high }) as i32, seed)
}

#[inline]
fn words(block: &[u8]) -> [u32; 3] {
    let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    [word(0), word(4), word(8)]
}
