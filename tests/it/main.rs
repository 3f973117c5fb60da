//! The binary against scripted and real peers.
