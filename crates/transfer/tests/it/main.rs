//! The engine against scripted origins: the rows of the corner cases by their numbers, A for the origin, B for this side.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod batch;
mod disks;
mod harness;
mod hosts;
mod mirrors;
mod mirrors_believed;
mod mirrors_found;
mod mirrors_pieces;
mod mirrors_resumed;
mod rows_a_addresses;
mod rows_a_bodies;
mod rows_a_encoded;
mod rows_a_ended;
mod rows_a_framing;
mod rows_a_heads;
mod rows_a_names;
mod rows_a_ranges;
mod rows_a_refusals;
mod rows_a_restarts;
mod rows_a_seams;
mod rows_a_slow;
mod rows_a_unpinned;
mod rows_b;
mod rows_b_again;
mod rows_b_between;
mod rows_b_companions;
mod rows_b_disk;
mod rows_b_kept;
mod rows_b_replaced;
mod slow_disk;
