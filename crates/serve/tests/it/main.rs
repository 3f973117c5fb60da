//! The store over real sockets, in this process: the rows of the corner cases by their numbers, D.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod client;
mod harness;
mod http2;
mod logged;
mod mistaken;
mod multipart;
mod rows_answers;
mod rows_broken;
mod rows_cors;
mod rows_counted;
mod rows_d1;
mod rows_d11;
mod rows_d12;
mod rows_d13;
mod rows_d14;
mod rows_d15;
mod rows_d3;
mod rows_d4;
mod rows_d5;
mod rows_d6;
mod rows_d7;
mod rows_d8;
mod rows_d9;
mod rows_forms;
mod rows_http2;
mod rows_resting;
mod rows_slow;
mod slow_disk;
mod smuggling;
mod told;
