//! Requests a second: the user's limit for each host, and how much of it a host has used.

use std::str::FromStr;
use std::time::Duration;

use haul_plan::TokenBucket;

/// The unit of a [`RequestRate`].
const PARTS_OF_REQUEST: u32 = 1000;

/// The highest rate, in requests a second: more than any host answers.
const MAX_RATE: f64 = 1e6;

/// A number of requests a second, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRate {
    thousandths: u32,
}

/// Why a text is not a [`RequestRate`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestRateError {
    /// Not a plain number.
    #[error("{0:?} is not a number of requests a second, such as 10 or 0.5")]
    Malformed(String),
    /// Too low or too high.
    #[error("{0:?} is not from 0.001 to 1000000 requests a second")]
    OutOfRange(String),
}

impl RequestRate {
    /// A rate in requests a second, rounded to thousandths. `None` below 0.001, above a million, and for NaN.
    #[must_use]
    pub fn per_second(requests: f64) -> Option<Self> {
        let thousandths = (requests * f64::from(PARTS_OF_REQUEST)).round();
        if !(1.0..=MAX_RATE * f64::from(PARTS_OF_REQUEST)).contains(&thousandths) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is a whole number from 1 to 1e9"
        )]
        let thousandths = thousandths as u32;
        Some(Self { thousandths })
    }

    /// Requests that may begin at once after a pause, in thousandths: those of a tenth of a second, since the driver of a
    /// batch may look only every twentieth, and at least one.
    fn burst(self) -> u32 {
        (self.thousandths / 10).max(PARTS_OF_REQUEST)
    }

    /// A full bucket. It allows a debt of the one request that empties it.
    fn bucket(self) -> TokenBucket {
        let burst = self.burst() - PARTS_OF_REQUEST;
        TokenBucket::new(self.thousandths.into(), burst.into())
    }

    /// The time in which an empty bucket becomes full.
    fn refill_time(self) -> Duration {
        let burst = self.burst() - PARTS_OF_REQUEST;
        Duration::from_secs(burst.into()) / self.thousandths
    }
}

impl FromStr for RequestRate {
    type Err = RequestRateError;

    fn from_str(text: &str) -> Result<Self, RequestRateError> {
        let number = text.trim();
        // "+5", "-0", "inf" and "1e1" are refused: a number that looks odd is a typo.
        let is_plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
        let requests = number
            .parse()
            .ok()
            .filter(|_| is_plain)
            .ok_or_else(|| RequestRateError::Malformed(text.to_owned()))?;
        Self::per_second(requests).ok_or_else(|| RequestRateError::OutOfRange(text.to_owned()))
    }
}

/// The requests of one host, counted against the rate.
#[derive(Debug, Clone)]
pub(super) struct HostRequestRate {
    rate: RequestRate,
    bucket: TokenBucket,
    /// When the next request may begin.
    next_request: Duration,
}

impl HostRequestRate {
    /// A host that has had no request for a while.
    pub(super) fn new(rate: RequestRate) -> Self {
        Self {
            rate,
            bucket: rate.bucket(),
            next_request: Duration::ZERO,
        }
    }

    pub(super) fn rate(&self) -> RequestRate {
        self.rate
    }

    pub(super) fn next_request(&self) -> Duration {
        self.next_request
    }

    /// Counts a request that begins.
    pub(super) fn count_request(&mut self, now: Duration) {
        let wait = self.bucket.take(now, PARTS_OF_REQUEST.into());
        self.next_request = now.saturating_add(wait);
    }

    /// Whether the host may have as many requests as one that has had none.
    pub(super) fn is_full(&self, now: Duration) -> bool {
        let before = now.saturating_sub(self.rate.refill_time());
        self.bucket.clone().take(before, 0).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_rate_is_a_plain_number_of_thousandths() {
        let rate = |text: &str| text.parse::<RequestRate>();
        assert_eq!(rate("10").unwrap().thousandths, 10_000);
        assert_eq!(rate(" 0.5 ").unwrap().thousandths, 500);
        assert_eq!(rate("0.0014").unwrap().thousandths, 1);
        assert_eq!(rate("1000000").unwrap().thousandths, 1_000_000_000);
        for text in [
            "", ".", "+5", "-1", "1e1", "inf", "nan", "5/s", "1,5", "0x5",
        ] {
            let malformed = RequestRateError::Malformed(text.into());
            assert_eq!(rate(text), Err(malformed), "{text}");
        }
        for text in ["0", "0.0", "0.0004", "1000001"] {
            let out_of_range = RequestRateError::OutOfRange(text.into());
            assert_eq!(rate(text), Err(out_of_range), "{text}");
        }
        for number in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            assert_eq!(RequestRate::per_second(number), None);
        }
    }

    /// How many requests begin at once after a pause, and when the next one may.
    fn burst_at(rate: f64, now: Duration) -> (u32, Duration) {
        let mut host = HostRequestRate::new(RequestRate::per_second(rate).unwrap());
        assert!(host.is_full(now));
        let mut requests = 0;
        while host.next_request() <= now {
            host.count_request(now);
            requests += 1;
        }
        (requests, host.next_request() - now)
    }

    #[test]
    fn a_burst_is_a_tenth_of_a_second_and_at_least_one_request() {
        assert_eq!(burst_at(0.5, ms(5000)), (1, ms(2000)));
        assert_eq!(burst_at(8.0, ms(5000)), (1, ms(125)));
        assert_eq!(burst_at(100.0, ms(5000)), (10, ms(10)));
        // A burst of 1.5 requests is one, and the other half shortens the next wait.
        assert_eq!(burst_at(10.0, ms(5000)), (1, ms(100)));
        assert_eq!(burst_at(12.5, ms(5000)), (1, ms(60)));
    }

    #[test]
    fn a_host_is_forgotten_only_when_that_brings_it_no_request() {
        let mut host = HostRequestRate::new(RequestRate::per_second(100.0).unwrap());
        for _ in 0..10 {
            host.count_request(ms(5000));
        }
        assert!(!host.is_full(ms(5000)) && !host.is_full(ms(5099)));
        assert!(host.is_full(ms(5100)));
        let mut slow = HostRequestRate::new(RequestRate::per_second(0.5).unwrap());
        slow.count_request(ms(5000));
        assert!(!slow.is_full(ms(6999)) && slow.is_full(ms(7000)));
    }
}
