//! Rows on their way from the thread that pulls them to the one that makes jobs of them.
//!
//! Each row can be taken as soon as it was pushed, whenever the next one comes. What is there is taken at once, so that a fast iterator costs a
//! wake-up for hundreds of rows.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use haul_transfer::list::{BadLine, ListEntry};

/// Rows that may wait.
const MAX_ROWS: usize = 512;

/// A row, or what is wrong with it.
pub(crate) type PulledRow = Result<ListEntry, BadLine>;

/// What follows a row that was pushed.
pub(crate) enum AfterPush {
    /// There is room for more.
    Continue,
    /// There is none before some were taken.
    Wait,
    /// Nobody takes rows any more.
    Stop,
}

/// Rows that were pulled and not taken.
#[derive(Default)]
pub(crate) struct RowQueue {
    state: Mutex<RowQueueState>,
    /// One side waits at a time: for rows, or until there are none.
    changed: Condvar,
}

#[derive(Default)]
struct RowQueueState {
    rows: VecDeque<PulledRow>,
    /// No more will be pushed.
    is_ended: bool,
    /// No more will be taken.
    is_closed: bool,
    /// A wake-up is a system call, also of nobody.
    is_awaited: bool,
}

impl RowQueue {
    fn lock(&self) -> MutexGuard<'_, RowQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(
        &self,
        condition: impl Fn(&RowQueueState) -> bool,
    ) -> MutexGuard<'_, RowQueueState> {
        let mut state = self.lock();
        while condition(&state) {
            state.is_awaited = true;
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn wake(&self, state: &mut RowQueueState) {
        if std::mem::take(&mut state.is_awaited) {
            self.changed.notify_one();
        }
    }

    pub(crate) fn push(&self, row: PulledRow) -> AfterPush {
        let mut state = self.lock();
        if state.is_closed {
            return AfterPush::Stop;
        }
        state.rows.push_back(row);
        self.wake(&mut state);
        if state.rows.len() < MAX_ROWS {
            AfterPush::Continue
        } else {
            AfterPush::Wait
        }
    }

    /// Waits until all rows were taken. False if nobody takes any more.
    pub(crate) fn wait_for_room(&self) -> bool {
        let state = self.wait_while(|state| !state.rows.is_empty() && !state.is_closed);
        !state.is_closed
    }

    /// Takes all rows, after waiting for the first. None if no more will come.
    pub(crate) fn take(&self) -> VecDeque<PulledRow> {
        let mut state = self.wait_while(|state| state.rows.is_empty() && !state.is_ended);
        let rows = std::mem::take(&mut state.rows);
        self.wake(&mut state);
        rows
    }

    /// Says that no more rows will be pushed.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.is_ended = true;
        self.wake(&mut state);
    }

    /// Says that no more rows will be taken.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        self.wake(&mut state);
    }
}
