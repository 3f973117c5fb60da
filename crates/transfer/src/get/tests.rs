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
