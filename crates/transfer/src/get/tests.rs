//! Downloads in simulated time, and properties of the segment map under any order of events.

mod congestion_window;
mod download;
mod mirrors;
mod noisy_links;
mod race;
mod segments;
mod short_downloads;
mod simulated_link;
mod steady_links;
mod takeovers;
mod tcp_download;
mod tcp_link;
mod tcp_links;
mod tcp_sender;

use std::time::Duration;

use super::segment_plan::{Claim, ClaimRequest, SegmentPlan};

/// For an idle worker that is like the others.
impl SegmentPlan {
    fn claim(&mut self, now: Duration) -> Option<Claim> {
        self.claim_for(&ClaimRequest::default(), now)
    }

    fn has_work(&self, now: Duration) -> bool {
        self.has_work_for(&ClaimRequest::default(), now)
    }
}
