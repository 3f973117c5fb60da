//! `haul tunnel` between real programs: clients and servers of Debian at both ends, and its proxies between them.
//!
//! squid and tinyproxy pass connections on or refuse them ([`squid`], [`tinyproxy`]), in chains and as alternatives ([`proxy_chains`]); curl
//! uses listeners that are proxies themselves ([`proxies`]). ssh, git, mail and a database go through the tunnel ([`ssh`], [`git`],
//! [`mail`], [`redis`]), and `ab` opens many connections ([`burst`]). [`tunnel_process`] runs the tunnel, [`directory`] its clients.

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
