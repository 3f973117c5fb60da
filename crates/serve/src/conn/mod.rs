//! Connections: from an accepted socket to hyper and back.
mod drive;
mod head_watch;
mod line;
mod transport;
mod wire;

pub(crate) use drive::{Protocol, drive};
pub(crate) use head_watch::Follows;
pub(crate) use line::Line;
pub(crate) use transport::Transport;
