//! `haul bench`: experiments that measure ways of moving bytes, on this machine or against a server that the user names.
//!
//! An [`Experiment`](experiment::Experiment) is a file of factors and their levels; the built-in ones are such files, too. Each combination of levels is a [`Cell`].
//! A workload measures a cell and returns a [`Measurement`]: `requests` sends many requests with the load generator of [`load`], `transfer`
//! moves files with haul's own engine. The runner measures the cells in interleaved rounds until the intervals of their ratios are
//! narrow, the time is spent or the user stops it. [`results`] is what came of it, and what `results.json` holds; [`report`] makes tables, pages
//! and pictures of that.
//!
//! Servers are `haul serve` and `haul tunnel` as processes of their own, so that their CPU time is theirs, and `lab`'s links, proxies
//! and origins on threads of their own.
//!
//! Modules build on each other in this order: `cell`, `measurement`, `statistics`, `experiment`, `results`; `load`, `servers`; `workload`, `runner`;
//! `report`.

pub mod cell;
pub mod environment;
pub mod experiment;
pub mod load;
pub mod measurement;
pub mod report;
pub mod results;
pub mod runner;
pub mod servers;
pub mod session;
pub mod statistics;
pub mod workload;

pub use cell::Cell;
pub use measurement::Measurement;
