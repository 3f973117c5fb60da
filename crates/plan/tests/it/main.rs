//! The plan as a whole: properties of the segment map under any order of events, and downloads in simulated time.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod batch;
mod batch_hosts;
mod batch_properties;
mod batch_world;
mod download;
mod edges;
mod hostile;
mod hostile_names;
mod link;
mod mirrors;
mod noisy;
mod race;
mod segments;
mod simulation;
mod takeovers;
