//! The transfer engine against scripted origins. Test names begin with the row of `docs/corner-cases.md` that they cover: A for
//! origins, B for files and disks.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod batch;
mod body_channel;
mod drawn_origins;
mod drawn_ways;
mod faulty_disk;
mod handle;
mod harness;
mod hosts;
mod kernel_link;
mod mirror_discovery;
mod mirror_piece_digests;
mod mirror_resume;
mod mirror_versions;
mod mirrors;
mod put;
mod remote_file;
mod remote_range;
mod robots_tag;
mod rows_a_addresses;
mod rows_a_bodies;
mod rows_a_drips;
mod rows_a_encoded;
mod rows_a_file_names;
mod rows_a_framing;
mod rows_a_joined_responses;
mod rows_a_malformed_heads;
mod rows_a_no_validator;
mod rows_a_pages;
mod rows_a_ranges;
mod rows_a_redirect_digests;
mod rows_a_refusals;
mod rows_a_requested_waits;
mod rows_a_restarts;
mod rows_a_short_bodies;
mod rows_a_slow;
mod rows_a_time;
mod rows_b;
mod rows_b_complete_files;
mod rows_b_disk;
mod rows_b_kept_bytes;
mod rows_b_later_runs;
mod rows_b_poor_file_systems;
mod rows_b_replaced;
mod rows_b_temporary_names;
mod slow_disk;
