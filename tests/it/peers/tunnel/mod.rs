//! `haul tunnel` on the road that people take with it: programs of Debian's at both ends, and its proxies between.
//!
//! squid and tinyproxy lead on or refuse ([`squid`], [`tinyproxy`]), one after the other or one in place of the other ([`ways`]); curl comes
//! by listeners that are proxies themselves ([`proxies`]). ssh, git, mail and a database say through it what they have to say ([`ssh`],
//! [`git`], [`mail`], [`redis`]), and `ab` comes as a crowd ([`burst`]). The tunnel itself is run by [`running`], its clients by [`here`].

mod burst;
mod directory;
mod git;
mod mail;
mod proxies;
mod proxy_chains;
mod redis;
mod squid;
mod ssh;
mod tinyproxy;
mod tunnel_process;

use directory::WorkDirectory;
use tunnel_process::RunningTunnel;
