//! Levels of the factor `link`: what is between client and server.
//!
//! A relay inside haul works everywhere, and has no TCP between its ends. A kernel link has, and needs Linux: `kernel_link` starts it.

use std::time::Duration;

use crate::cell::{Cell, LevelError, parse_rate, parse_time};

/// The longest round trip: beyond it every measurement would run into time limits.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(5);

/// The highest rate of a kernel link, 1000 Mbit/s in bytes: this process carries each packet, and its processors would be the limit beyond.
const MAX_KERNEL_RATE: u64 = 125_000_000;

/// The highest loss of a kernel link, in packets of a million: a half.
const MAX_LOSS_PPM: u32 = 500_000;

/// What the levels look like.
const EXPECTED: &str = "loopback; a round trip as 20ms; either with the rates of a connection and of all, as 20ms 25M/200M; \
    or kernel:RTT,RATE[,LOSS], as kernel:100ms,25M or kernel:100ms,200Mbit,0.1%, up to 1000Mbit";

/// A level of the factor `link`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkSpec {
    /// A relay inside haul; loopback by default.
    Relay(RelaySpec),
    /// A link with the kernel's own TCP at both ends.
    Kernel(KernelLinkSpec),
}

/// A relay, which cannot delay TCP's own handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RelaySpec {
    /// The time for both directions. Half of it is added to each.
    pub round_trip: Duration,
    /// The rates; `None` for as fast as it goes.
    pub rates: Option<LinkRates>,
}

/// The rates of a relay in bytes a second. Both directions share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkRates {
    pub per_connection: u64,
    /// Of all together.
    pub total: u64,
}

/// A kernel link. Both directions are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelLinkSpec {
    /// The time for both directions, without waiting in queues.
    pub round_trip: Duration,
    /// The rate of each direction, IP headers included.
    pub bytes_per_second: u64,
    /// Packets of a million that are lost in each direction.
    pub loss_ppm: u32,
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self::Relay(RelaySpec::default())
    }
}

impl LinkSpec {
    /// The level of the factor `link`.
    ///
    /// # Errors
    /// It is none.
    pub fn from_cell(cell: &Cell) -> Result<Self, LevelError> {
        let level = cell.level("link").unwrap_or_default();
        let expected = match Self::parse_any(level) {
            // Who thinks of megabits learns that these are not.
            Some(Self::Kernel(link)) => format!(
                "a kernel link carries at most 1000Mbit, and this rate is {}Mbit; sizes are bytes",
                link.bytes_per_second / 125_000
            ),
            _ => EXPECTED.to_owned(),
        };
        cell.parse("link", &expected, Self::default(), Self::parse)
    }

    /// Parses a level of the factor `link`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rate = |spec: KernelLinkSpec| spec.bytes_per_second;
        let is_possible = |link: &Self| link.kernel().map_or(0, rate) <= MAX_KERNEL_RATE;
        Self::parse_any(text).filter(is_possible)
    }

    /// Parses a level, also one that is too fast.
    fn parse_any(text: &str) -> Option<Self> {
        match text.strip_prefix("kernel:") {
            Some(text) => KernelLinkSpec::parse(text).map(Self::Kernel),
            None => RelaySpec::parse(text).map(Self::Relay),
        }
    }

    /// Whether there is nothing between client and server.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        *self == Self::default()
    }

    /// The kernel link, if it is one.
    #[must_use]
    pub fn kernel(self) -> Option<KernelLinkSpec> {
        match self {
            Self::Kernel(spec) => Some(spec),
            Self::Relay(_) => None,
        }
    }
}

impl RelaySpec {
    fn parse(text: &str) -> Option<Self> {
        let (delay, rates) = match text.split_once(' ') {
            Some((delay, rates)) => {
                let (per_connection, total) = rates.split_once('/')?;
                let rates = LinkRates {
                    per_connection: parse_rate(per_connection)?,
                    total: parse_rate(total)?,
                };
                (delay, Some(rates))
            }
            None => (text, None),
        };
        let round_trip = match delay {
            "loopback" => Duration::ZERO,
            delay => parse_round_trip(delay)?,
        };
        Some(Self { round_trip, rates })
    }
}

impl KernelLinkSpec {
    /// Parses `RTT,RATE` or `RTT,RATE,LOSS`.
    fn parse(text: &str) -> Option<Self> {
        let (round_trip, rest) = text.split_once(',')?;
        let (rate, loss_ppm) = match rest.split_once(',') {
            Some((rate, loss)) => (rate, parse_loss(loss)?),
            None => (rest, 0),
        };
        Some(Self {
            round_trip: parse_round_trip(round_trip)?,
            bytes_per_second: parse_rate(rate)?,
            loss_ppm,
        })
    }
}

fn parse_round_trip(text: &str) -> Option<Duration> {
    parse_time(text).filter(|time| *time <= MAX_ROUND_TRIP)
}

/// Parses a percentage with at most four decimals.
fn parse_loss(text: &str) -> Option<u32> {
    let number = text.strip_suffix('%')?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = [whole, decimals]
        .iter()
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_number || decimals.len() > 4 {
        return None;
    }
    let loss = format!("{whole}{decimals:0<4}").parse().ok();
    loss.filter(|loss| *loss <= MAX_LOSS_PPM)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn relays_are_parsed() {
        let relay = |text| match LinkSpec::parse(text).unwrap() {
            LinkSpec::Relay(relay) => (relay.round_trip, relay.rates),
            LinkSpec::Kernel(_) => panic!("{text}"),
        };
        assert!(LinkSpec::parse("loopback").unwrap().is_loopback());
        assert_eq!(relay("20ms"), (20 * MS, None));
        let rates = Some(LinkRates {
            per_connection: 25 << 20,
            total: 200 << 20,
        });
        for (text, round_trip) in [
            ("20ms 25M/200M", 20 * MS),
            ("loopback 25M/200M", Duration::ZERO),
            ("1s 25M/200M", 1000 * MS),
        ] {
            assert_eq!(relay(text), (round_trip, rates));
            assert!(!LinkSpec::parse(text).unwrap().is_loopback());
        }
    }

    #[test]
    fn kernel_links_are_parsed() {
        for (text, millis, bytes_per_second, loss_ppm) in [
            ("kernel:100ms,25M", 100, 25 << 20, 0),
            ("kernel:30ms,500Mbit", 30, 62_500_000, 0),
            ("kernel:1s,1000Mbit,50%", 1000, 125_000_000, 500_000),
            ("kernel:100ms,200Mbit,0.1%", 100, 25_000_000, 1000),
            ("kernel:0ms,8kbit,0.0001%", 0, 1000, 1),
        ] {
            let spec = KernelLinkSpec {
                round_trip: millis * MS,
                bytes_per_second,
                loss_ppm,
            };
            assert_eq!(
                LinkSpec::parse(text),
                Some(LinkSpec::Kernel(spec)),
                "{text}"
            );
            assert!(!LinkSpec::Kernel(spec).is_loopback());
        }
    }

    #[test]
    fn bytes_in_place_of_bits_are_told() {
        let error = |level| LinkSpec::from_cell(&Cell::new([("link", level)])).unwrap_err();
        let text = error("kernel:100ms,200M").to_string();
        assert!(
            text.contains("at most 1000Mbit, and this rate is 1677Mbit"),
            "{text}"
        );
        assert!(
            error("kernel:100ms")
                .to_string()
                .contains("kernel:RTT,RATE")
        );
    }

    #[test]
    fn other_texts_are_no_links() {
        for text in [
            "",
            "20",
            "lan",
            "6s",
            "-1ms",
            "20ms ",
            "20ms 25M",
            "20ms 25M/",
            "20ms 0/1M",
            "20ms 1M/1M/1M",
            "20ms  1M/1M",
            "kernel",
            "kernel:",
            "kernel:100ms",
            "kernel:100ms,",
            "kernel:100,25M",
            "kernel:6s,25M",
            "kernel:100ms,0",
            "kernel:100ms,120M",
            "kernel:100ms,1001Mbit",
            "kernel:100ms, 25M",
            "kernel:100ms,25M,",
            "kernel:100ms,25M,1",
            "kernel:100ms,25M,51%",
            "kernel:100ms,25M,.1%",
            "kernel:100ms,25M,-1%",
            "kernel:100ms,25M,0.00001%",
            "kernel:100ms,25M,1%,cubic",
            "kernel:25M,100ms",
        ] {
            assert_eq!(LinkSpec::parse(text), None, "{text}");
        }
    }
}
