//! What row images are: runs of one kind, and the columns that a batch has for them.
#![forbid(unsafe_code)]

const BEFORE: i64 = 3;
const AFTER: i64 = 4;

/// As in `anabranch.rows.builder.Run`.
#[derive(Clone, Copy)]
pub struct Run {
    pub op: i64,
    pub transaction: i64,
    pub ordinal: i64,
    pub shape: i64,
    pub second_shape: i64,
    pub images: usize,
}

/// Op, transaction, ordinal and shape of each image as little-endian bytes; the shapes that are used, in order.
#[derive(Default)]
pub struct Meta {
    pub count: usize,
    pub op: Vec<u8>,
    pub transaction: Vec<u8>,
    pub ordinal: Vec<u8>,
    pub shape: Vec<u8>,
    pub used: Vec<i64>,
}

/// The runs of transactions below `before`, which are gone then; those that stay are of transaction 0.
pub fn leaving(runs: &mut Vec<Run>, before: i64) -> Vec<Run> {
    let kept = runs.iter().rposition(|run| run.transaction < before).map_or(0, |place| place + 1);
    let mut rest = runs.split_off(kept);
    for run in &mut rest {
        run.transaction = 0;
    }
    std::mem::replace(runs, rest)
}

/// Forgets the runs of a transaction, the last one, from ordinal `first` on; how many images they had.
pub fn forget(runs: &mut Vec<Run>, transaction: i64, first: i64) -> usize {
    let is_gone = |run: &&Run| run.transaction == transaction && run.ordinal >= first;
    let images = runs.iter().filter(is_gone).map(|run| run.images).sum();
    let gone = runs.iter().filter(is_gone).count();
    runs.truncate(runs.len() - gone);
    images
}

/// None for numbers that the columns of a batch have no room for.
pub fn expand(runs: &[Run]) -> Option<Meta> {
    let mut used: Vec<i64> = runs
        .iter()
        .filter(|run| run.images > 0)
        .flat_map(|run| [Some(run.shape), Some(run.second_shape).filter(|_| run.op == BEFORE)])
        .flatten()
        .collect();
    used.sort_unstable();
    used.dedup();
    let mut meta = Meta::default();
    for run in runs {
        let transaction = i32::try_from(run.transaction).ok()?;
        let place = |shape: i64| used.binary_search(&shape).ok().and_then(|found| i16::try_from(found).ok());
        let shapes = [place(run.shape), place(run.second_shape)];
        let ops = [run.op, if run.op == BEFORE { AFTER } else { run.op }];
        for image in 0..run.images {
            let second = usize::from(run.op == BEFORE && image % 2 == 1);
            let ordinal = run.ordinal.checked_add(i64::try_from(image).ok()?)?;
            meta.op.push(i8::try_from(ops[second]).ok()?.to_le_bytes()[0]);
            meta.transaction.extend_from_slice(&transaction.to_le_bytes());
            meta.ordinal.extend_from_slice(&ordinal.to_le_bytes());
            meta.shape.extend_from_slice(&shapes[second]?.to_le_bytes());
        }
        meta.count += run.images;
    }
    meta.used = used;
    Some(meta)
}
