//! The file server over real sockets, in this process. Test names begin with their row in section D of `docs/corner-cases.md`.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod access_log;
mod client;
mod harness;
mod http2;
mod log_capture;
mod multipart;
mod plain_http_on_tls_port;
mod rows_cors;
mod rows_d1;
mod rows_d11;
mod rows_d12;
mod rows_d13;
mod rows_d14;
mod rows_d15;
mod rows_d16;
mod rows_d3;
mod rows_d4;
mod rows_d5;
mod rows_d6;
mod rows_d7;
mod rows_d8;
mod rows_d9;
mod rows_disk_errors;
mod rows_forms;
mod rows_http2;
mod rows_idle;
mod rows_metrics;
mod rows_responses;
mod rows_slow_disk;
mod slow_filesystem;
mod smuggling;
