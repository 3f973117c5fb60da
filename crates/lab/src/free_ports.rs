//! Ports for programs that cannot be given port 0, and ports where nobody listens.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel gives to connections and to port 0: there, any test of the moment could take a port between its choice and
/// its use.
const FIRST_PORT: u16 = 12_000;

/// How many there are.
const PORT_COUNT: u16 = 20_000;

/// The next one to try in this process. Processes begin far from each other.
static NEXT_PORT: AtomicU16 = AtomicU16::new(0);

/// Ports of loopback that are free now and that this function gives to nobody else for a long time.
///
/// # Panics
///
/// If all are taken.
#[must_use]
pub fn free_ports<const COUNT: usize>() -> [u16; COUNT] {
    [(); COUNT].map(|()| free_port())
}

fn free_port() -> u16 {
    let begin = std::process::id().wrapping_mul(7_919) % u32::from(PORT_COUNT);
    for _ in 0..PORT_COUNT {
        let step = u32::from(NEXT_PORT.fetch_add(1, Ordering::Relaxed));
        let place = (begin + step) % u32::from(PORT_COUNT);
        let port = FIRST_PORT + u16::try_from(place).expect("below PORT_COUNT");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port of this machine is free");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice_or_while_it_is_taken() {
        let first = free_ports::<3>();
        let held = first.map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
        NEXT_PORT.fetch_sub(3, Ordering::Relaxed);
        let second = free_ports::<3>();
        assert!(
            second.iter().all(|port| !first.contains(port)),
            "{first:?} {second:?}"
        );
        drop(held);
    }
}
