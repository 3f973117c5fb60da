//! Any TCP protocol through upstream proxies: listeners, the way by CONNECT, relays.

pub mod relay;
