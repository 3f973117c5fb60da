//! The binary as its users meet it: run with arguments, judged by what it prints, returns and leaves.
//!
//! [`cli`] runs it against origins of `haul-lab`, inside this process; [`peers`] against nginx and squid.

mod cli;
#[cfg(target_os = "linux")]
mod peers;
