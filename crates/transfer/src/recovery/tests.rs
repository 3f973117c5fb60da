//! Histories of requests, and what the policy does about each.

mod bad_bytes;
mod many_sources;
mod one_source;
