//! The checksum of events: CRC-32 as zlib has it, sixteen bytes at a time.
#![forbid(unsafe_code)]

const POLYNOMIAL: u32 = 0xEDB8_8320;
static TABLES: [[u32; 256]; 16] = tables();

const fn tables() -> [[u32; 256]; 16] {
    let mut made = [[0u32; 256]; 16];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        made[0][byte] = rest;
        byte += 1;
    }
    let mut place = 1;
    while place < 16 {
        let mut byte = 0;
        while byte < 256 {
            let before = made[place - 1][byte];
            made[place][byte] = before >> 8 ^ made[0][(before & 0xFF) as usize];
            byte += 1;
        }
        place += 1;
    }
    made
}

pub fn crc32(data: &[u8]) -> u32 {
    let mut sum = !0u32;
    let mut blocks = data.chunks_exact(16);
    for block in &mut blocks {
        let head = sum.to_le_bytes();
        sum = 0;
        for (place, byte) in block.iter().enumerate() {
            let mixed = if place < 4 { byte ^ head[place] } else { *byte };
            sum ^= TABLES[15 - place][mixed as usize];
        }
    }
    for byte in blocks.remainder() {
        sum = sum >> 8 ^ TABLES[0][((sum ^ u32::from(*byte)) & 0xFF) as usize];
    }
    !sum
}
