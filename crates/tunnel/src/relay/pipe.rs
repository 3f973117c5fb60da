//! Bytes that go from socket to socket through a pipe, without a copy (splice(2)), where the system has that.
//!
//! A pipe is two descriptors, and most directions are idle most of the time: so a direction has one only while bytes come, and gives it
//! back to a few that are kept when they pause. There is a bound on all of them together; a direction that gets none copies.

#[cfg(target_os = "linux")]
mod spliced;
#[cfg(target_os = "linux")]
pub use spliced::MAX_PIPE_DESCRIPTORS;
#[cfg(target_os = "linux")]
pub(super) use spliced::PipedBytes;

#[cfg(not(target_os = "linux"))]
mod unspliced;
#[cfg(not(target_os = "linux"))]
pub use unspliced::FILES;
#[cfg(not(target_os = "linux"))]
pub(super) use unspliced::Piped;
