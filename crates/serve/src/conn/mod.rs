//! Connections: from an accepted socket to hyper and back.
mod drive;
mod exchange;
mod head_watch;
mod line;
mod minder;
mod pace;
mod sys;
mod transport;
mod wire;

pub(crate) use drive::{Protocol, drive};
pub(crate) use exchange::{Exchange, Watched};
pub(crate) use head_watch::Follows;
pub(crate) use line::Line;
pub(crate) use pace::Total;
pub(crate) use transport::Transport;
