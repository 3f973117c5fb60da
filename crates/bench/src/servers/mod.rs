//! Servers of experiments: `haul serve` and `haul tunnel` as processes, `lab`'s links, proxies and origins on threads of their own, and the
//! CPU time and memory of each.
