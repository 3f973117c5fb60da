//! How many requests are under way, over all files of a run: decided by the same control as the connections of a download.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::connection_control::{
    ConnectionControl, ConnectionControlOptions, ConnectionRefusal, ProgressSample,
};
use crate::options::ConnectionCount;

/// The requests that may be under way.
#[derive(Debug)]
pub(super) struct UploadSlots {
    state: Mutex<SlotState>,
    /// A permit for each slot that is free. Those who wait get one in their order: parts are sent from the front.
    free: Arc<Semaphore>,
    started: Instant,
    /// Bytes that all requests have sent.
    pub(super) sent: Arc<AtomicU64>,
    /// Bytes of all files so far.
    pub(super) announced: AtomicU64,
    /// Slots whose requests have begun to send.
    delivering: Arc<AtomicUsize>,
    /// Held by the upload that takes the samples for all.
    sampling: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct SlotState {
    control: ConnectionControl,
    /// Slots that exist, free or not.
    count: usize,
    /// No slot is given before: the store asks for a pause.
    paused_until: Instant,
    /// Whether the control knows how far away the store is.
    has_round_trip: bool,
}

/// The right to have one request under way.
#[derive(Debug)]
pub(super) struct UploadSlot {
    slots: Arc<UploadSlots>,
    /// `None` once it is dropped.
    permit: Option<OwnedSemaphorePermit>,
    /// When it was given, since the run began.
    since: Duration,
    activity: Arc<SlotActivity>,
}

/// Whether the request in a slot has begun to send. Until then it is connecting, and says nothing about the rate of this number of requests.
#[derive(Debug)]
pub(super) struct SlotActivity {
    delivering: Arc<AtomicUsize>,
    has_begun: AtomicBool,
}

impl SlotActivity {
    /// Bytes were sent.
    pub(super) fn begin(&self) {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            self.delivering.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl UploadSlots {
    pub(super) fn new(connections: ConnectionCount) -> Self {
        let control = ConnectionControl::new(ConnectionControlOptions {
            max: connections.max(),
            fixed: matches!(connections, ConnectionCount::Fixed(_)),
            ..ConnectionControlOptions::default()
        });
        let count = control.target();
        let started = Instant::now();
        Self {
            state: Mutex::new(SlotState {
                control,
                count,
                paused_until: started,
                has_round_trip: false,
            }),
            free: Arc::new(Semaphore::new(count)),
            started,
            sent: Arc::default(),
            announced: AtomicU64::new(0),
            delivering: Arc::default(),
            sampling: tokio::sync::Mutex::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives no slot for this long (row A42). Returns whether a pause begins, or one that is much longer than the present one.
    pub(super) fn pause(&self, wait: Duration) -> bool {
        let now = Instant::now();
        let mut state = self.lock();
        let rest = state.paused_until.saturating_duration_since(now);
        state.paused_until = state.paused_until.max(now + wait);
        rest < wait / 2
    }

    /// Waits for the end of a pause.
    async fn resume(&self) {
        loop {
            let until = self.lock().paused_until;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Waits for a slot. Cancel safe.
    pub(super) async fn acquire(self: &Arc<Self>) -> UploadSlot {
        // The semaphore is never closed; if it were, nobody would have to wait. It is fair, so the others wait for the one that has a
        // permit and waits for the end of a pause.
        let permit = Arc::clone(&self.free).acquire_owned().await.ok();
        self.resume().await;
        UploadSlot {
            slots: Arc::clone(self),
            permit,
            since: self.started.elapsed(),
            activity: Arc::new(SlotActivity {
                delivering: Arc::clone(&self.delivering),
                has_begun: AtomicBool::new(false),
            }),
        }
    }

    /// The store has answered its first request after `elapsed`, a round trip or more. Far away, all slots that the announced bytes are worth
    /// are given at once: to measure with one part, then two and so on would take round trips for each step, and measure how TCP comes up
    /// to speed.
    pub(super) fn on_first_response(&self, elapsed: Duration) {
        let sent = self.sent.load(Ordering::Relaxed);
        let remaining = self.announced.load(Ordering::Relaxed).saturating_sub(sent);
        let mut state = self.lock();
        if !std::mem::replace(&mut state.has_round_trip, true) {
            let now = self.started.elapsed();
            state
                .control
                .on_first_upload_response(remaining, elapsed, now);
            self.adjust(&mut state);
        }
    }

    /// Requests under way.
    pub(super) fn active(&self) -> usize {
        self.lock()
            .count
            .saturating_sub(self.free.available_permits())
    }

    /// Takes samples as the control wants them, for as long as it is polled. Of several callers one does.
    pub(super) async fn control(&self) {
        let _sampling = self.sampling.lock().await;
        loop {
            let next = self.started + self.lock().control.next_sample_at();
            tokio::time::sleep_until(next).await;
            let sent = self.sent.load(Ordering::Relaxed);
            let sample = ProgressSample {
                now: self.started.elapsed(),
                bytes: sent,
                delivering: self.delivering.load(Ordering::Relaxed),
                remaining: self.announced.load(Ordering::Relaxed).saturating_sub(sent),
                latency: Duration::ZERO,
            };
            let mut state = self.lock();
            state.control.on_sample(sample);
            self.adjust(&mut state);
        }
    }

    /// Makes as many slots as the control wants. Surplus ones that are in use go when they are dropped.
    fn adjust(&self, state: &mut SlotState) {
        let target = state.control.target();
        if target >= state.count {
            self.free.add_permits(target - state.count);
            state.count = target;
        } else {
            state.count -= self.free.forget_permits(state.count - target);
        }
    }
}

impl UploadSlot {
    /// Tells when its request sends.
    pub(super) fn activity(&self) -> &Arc<SlotActivity> {
        &self.activity
    }

    /// The store has too much to do: fewer requests from here on (row F3).
    pub(super) fn on_throttled(&self) {
        let open_connections = self.slots.active();
        let mut state = self.slots.lock();
        state.control.on_refused(ConnectionRefusal {
            now: self.slots.started.elapsed(),
            requested_at: self.since,
            open_connections,
            overloaded: true,
        });
        self.slots.adjust(&mut state);
    }
}

impl Drop for UploadSlot {
    fn drop(&mut self) {
        // What is sent in a later slot is none of this one's.
        if self.activity.has_begun.swap(true, Ordering::Relaxed) {
            self.slots.delivering.fetch_sub(1, Ordering::Relaxed);
        }
        let mut state = self.slots.lock();
        if state.count > state.control.target()
            && let Some(permit) = self.permit.take()
        {
            state.count -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_slots_are_given_at_once_for_a_store_that_is_far_away() {
        let slots_after = |round_trips: &[u64]| {
            let slots = UploadSlots::new(ConnectionCount::Auto { max: 16 });
            slots.announced.store(64 << 20, Ordering::Relaxed);
            for &milliseconds in round_trips {
                slots.on_first_response(Duration::from_millis(milliseconds));
            }
            slots.free.available_permits()
        };
        assert_eq!((slots_after(&[1]), slots_after(&[100])), (1, 4));
        // Only the first response is that of a store that may be far away: later ones wait for each other's bytes.
        assert_eq!(slots_after(&[1, 100]), 1);
    }

    #[tokio::test]
    async fn a42_nobody_gets_a_slot_while_the_store_asks_for_a_pause() {
        const PAUSE: Duration = Duration::from_millis(60);
        let slots = Arc::new(UploadSlots::new(ConnectionCount::Fixed(2)));
        let before = slots.acquire().await;
        let began = Instant::now();
        assert!(slots.pause(PAUSE));
        // The other refusals of the moment are no news, and end no pause.
        assert!(!slots.pause(PAUSE / 2));
        drop(before);
        tokio::join!(slots.acquire(), slots.acquire());
        assert!(began.elapsed() >= PAUSE);
    }
}
