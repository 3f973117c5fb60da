//! Where the bodies of a batch go, if not into files: to their rows, or into one column.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use haul_transfer::batch::FetchedBody;
use haul_transfer::manifest::ManifestRow;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::column_buffer::ColumnBuffer;
use crate::growing_buffer::GrowingBuffer;

/// Bodies that wait for those before them are copied if they are so many rows ahead: their pieces are parts of larger buffers, two or
/// three times their size, and the batch's limit of memory does not count them any more.
const MAX_ROWS_AHEAD: usize = 64;

/// Where bodies go.
#[derive(Clone)]
pub(crate) enum BodyPlace {
    /// Nowhere, or into files.
    Nowhere,
    /// To their rows, which have not come yet, by the number of the row.
    Rows(Arc<Mutex<HashMap<u64, Vec<u8>>>>),
    Column(SharedBodyColumn),
}

impl BodyPlace {
    /// The function that puts them there. Where they wait for their rows they are copied, since their pieces are parts of larger buffers.
    pub(crate) fn receiver(self) -> Box<dyn FnMut(u64, FetchedBody) + Send> {
        match self {
            Self::Nowhere => Box::new(|_, _| {}),
            Self::Column(column) => Box::new(move |line, body| column.add(line, body.pieces)),
            Self::Rows(bodies) => Box::new(move |line, body| {
                let body = body.pieces.concat();
                let mut bodies = bodies.lock().unwrap_or_else(PoisonError::into_inner);
                bodies.insert(line, body);
            }),
        }
    }

    /// Takes the body of a row, if bodies go to their rows.
    pub(crate) fn take(&self, row: &ManifestRow) -> Option<Vec<u8>> {
        let Self::Rows(bodies) = self else {
            return None;
        };
        let mut bodies = bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.remove(&row.line?)
    }
}

/// A column that the batch fills.
#[derive(Clone, Default)]
pub(crate) struct SharedBodyColumn(Arc<Mutex<BodyColumn>>);

/// Bodies in the order of their rows. Each is copied to its place as soon as those before it are there, so that little is left to do at
/// the end.
#[derive(Default)]
pub(crate) struct BodyColumn {
    bytes: GrowingBuffer,
    /// The end of each row's body in `bytes`, and whether there is one: of the rows that are in place.
    ends: Vec<(usize, bool)>,
    /// What is known of the rows after those.
    ahead: VecDeque<Option<RowBody>>,
}

/// The pieces of a row's body, if it has one.
type RowBody = Option<Vec<Bytes>>;

impl SharedBodyColumn {
    /// Adds the body of the row with this number, which counts from 1.
    pub(crate) fn add(&self, line: u64, pieces: Vec<Bytes>) {
        if let Some(row) = row_index(line) {
            self.lock().add(row, Some(pieces));
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BodyColumn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyColumn {
    pub(crate) fn add(&mut self, row: usize, mut body: RowBody) {
        // A row that is in place has what it gets.
        let Some(distance) = row.checked_sub(self.ends.len()) else {
            return;
        };
        if distance > MAX_ROWS_AHEAD {
            body = body.map(|pieces| vec![pieces.concat().into()]);
        }
        if self.ahead.len() <= distance {
            self.ahead.resize(distance + 1, None);
        }
        self.ahead[distance].get_or_insert(body);
        while let Some(body) = self.ahead.front_mut().and_then(Option::take) {
            self.ahead.pop_front();
            self.append(body);
        }
    }

    fn append(&mut self, body: RowBody) {
        for piece in body.iter().flatten() {
            self.bytes.extend(piece);
        }
        self.ends.push((self.bytes.len(), body.is_some()));
    }

    /// The buffers of an Arrow array of large binaries: validity, offsets, bytes. A body whose row never came is none.
    pub(crate) fn set_in(
        mut self,
        dict: &Bound<'_, PyDict>,
        has_rows: impl ExactSizeIterator<Item = bool>,
    ) -> PyResult<()> {
        let count = has_rows.len();
        while self.ends.len() < count {
            let body = self.ahead.pop_front().flatten().flatten();
            self.append(body);
        }
        let mut validity = vec![0_u8; count.div_ceil(8)];
        let mut offsets = Vec::with_capacity(8 * (count + 1));
        offsets.extend(0_i64.to_ne_bytes());
        for (index, (has_row, (end, has_body))) in has_rows.zip(self.ends).enumerate() {
            validity[index / 8] |= u8::from(has_body && has_row) << (index % 8);
            offsets.extend((end as u64).to_ne_bytes());
        }
        dict.set_item("body_validity", ColumnBuffer::new(validity))?;
        dict.set_item("body_offsets", ColumnBuffer::new(offsets))?;
        dict.set_item("body_data", ColumnBuffer::from_owner(self.bytes))
    }
}

/// The place of a row in its columns.
pub(crate) fn row_index(line: u64) -> Option<usize> {
    usize::try_from(line.checked_sub(1)?).ok()
}
