//! One connection: what is between an accepted socket and the service that answers.
//!
//! [`drive()`] runs a connection to its end; what of that is HTTP/2's is in `second`. hyper speaks HTTP over a `wire`, which is a `transport` (a `socket`, or TLS over one) with everything
//! that must see each byte: [`HeadWatch`](haul_plan::serving::HeadWatch), the `pace` of a rate limit, and files that the kernel sends. Each request is an [`HttpExchange`] until its
//! last byte has left. All of them meet in the [`ConnectionState`]; a `minder` keeps the one timer.

mod drive;
mod ending;
mod exchange;
mod late;
mod lent;
mod line;
mod minder;
mod pace;
mod second;
mod socket;
mod sys;
mod tail;
mod transport;
mod wire;

pub(crate) use drive::{ConnectionProtocol, drive};
pub(crate) use exchange::{HttpExchange, TrackedBody};
pub(crate) use line::ConnectionState;
pub(crate) use pace::TotalRate;
pub(crate) use socket::ServerSocket;
pub(crate) use transport::ServerTransport;
