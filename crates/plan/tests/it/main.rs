//! The plan as a whole: properties of the segment map under any order of events, and downloads in simulated time.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod batch;
mod batch_hosts;
mod batch_properties;
mod batch_rates;
mod congestion_window;
mod download;
mod hostile_headers;
mod hostile_names;
mod mirrors;
mod noisy_links;
mod race;
mod segments;
mod short_downloads;
mod simulated_batch;
mod simulated_link;
mod steady_links;
mod takeovers;
mod tcp_download;
mod tcp_link;
mod tcp_links;
mod tcp_sender;
