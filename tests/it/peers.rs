//! `haul` against real programs from Debian: nginx as the origin, squid as the proxy, curl as the judge of what is right,
//! Chromium as the reader of its page, programs that use a tunnel: ssh, git, mail, a
//! database; and moto as a store of objects, with boto3, aws, rclone and s3cmd beside haul as its clients.
//!
//! Each server is private: its own folder, a free port, ended with the test. `scripts/test` installs them.

#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot go on without fails it, in its helpers too"
)]

mod batch;
mod chromium;
mod nginx;
mod origin;
mod page;
mod page_writing;
mod program;
mod proxy;
mod s3;
mod serve;
mod squid;
pub(crate) mod test_server;
mod tunnel;
