//! How long a response asks its client to wait before the next request (row A42).
//!
//! `Retry-After` says so, or the fields of rate limits: `RateLimit` (draft-ietf-httpapi-ratelimit-headers, in its present form
//! `"name";r=0;t=93` and in the earlier one `remaining=0, reset=93`), `RateLimit-Reset`, and `X-RateLimit-Reset`, which GitHub, Zenodo and
//! others send. Moments are compared with the `Date` of the same response: the wait does not depend on this machine's clock.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};

/// Shorter waits are nothing that a user has to know about.
pub const MIN_NOTED_WAIT: Duration = Duration::from_secs(5);

/// Numbers below this are seconds until the reset, others are seconds of the Unix epoch: this one is a day in 2001, or a wait of 31 years.
const MIN_EPOCH_SECONDS: u64 = 1_000_000_000;

/// Numbers from here on are milliseconds of the Unix epoch.
const MIN_EPOCH_MILLISECONDS: u64 = 1_000_000_000_000;

/// Fields that name the reset of a rate limit, each with the one that says how many requests remain until then.
const RESET_FIELDS: [(&str, &str); 3] = [
    ("ratelimit-reset", "ratelimit-remaining"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("x-rate-limit-reset", "x-rate-limit-remaining"),
];

/// A limit of requests for a span of time, as a response describes it.
#[derive(Debug, Clone, Copy, Default)]
struct RequestQuota {
    /// Requests until the reset.
    remaining: Option<u64>,
    /// The time until the reset.
    reset: Option<Duration>,
}

/// The time for which a refusal asks to wait. `own_clock` is used if the response has no date.
///
/// The fields of rate limits count with 429, 503 and 403. A 403 mostly refuses one file for good, so with it they must say that no request
/// remains.
#[must_use]
pub fn requested_wait(
    status: StatusCode,
    headers: &HeaderMap,
    own_clock: SystemTime,
) -> Option<Duration> {
    let date = headers.get(DATE).and_then(|value| value.to_str().ok());
    let now = date
        .and_then(|text| httpdate::parse_http_date(text.trim()).ok())
        .unwrap_or(own_clock);
    let retry_after = headers.get(RETRY_AFTER);
    if let Some(wait) = retry_after.and_then(|value| parse_retry_after(value, now)) {
        return Some(wait);
    }
    let must_be_spent = match status.as_u16() {
        429 | 503 => false,
        403 => true,
        _ => return None,
    };
    let is_spent = |quota: &RequestQuota| {
        quota
            .remaining
            .map_or(!must_be_spent, |requests| requests == 0)
    };
    let spent = request_quotas(headers, now).into_iter().filter(is_spent);
    spent.filter_map(|quota| quota.reset).max()
}

/// Retry-After (RFC 9110 10.2.3): seconds or a date. A date in the past is no wait; a value that cannot be read is `None`.
#[must_use]
pub fn parse_retry_after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a u64 holds are a very long time.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// The quotas that the fields of a response describe.
fn request_quotas(headers: &HeaderMap, now: SystemTime) -> Vec<RequestQuota> {
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    let field = |name: &str| text(headers.get(name)?);
    let structured = headers.get_all("ratelimit").iter().filter_map(text);
    let mut quotas: Vec<RequestQuota> = structured
        .flat_map(|text| quotas_of_rate_limit(&text))
        .collect();
    quotas.extend(RESET_FIELDS.map(|(reset, remaining)| RequestQuota {
        remaining: field(remaining).and_then(|text| whole_number(&text)),
        reset: field(reset).and_then(|text| time_until_reset(&text, now)),
    }));
    quotas
}

/// `"name";r=0;t=93, "other";r=5;t=3`, or the same as one quota in the earlier form: `limit=100, remaining=0, reset=93`.
fn quotas_of_rate_limit(text: &str) -> Vec<RequestQuota> {
    let mut single = RequestQuota::default();
    let mut quotas = Vec::new();
    for member in split_outside_quotes(text, ',') {
        let mut quota = RequestQuota::default();
        for part in split_outside_quotes(member, ';') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let number = whole_number(value);
            let seconds = number.map(Duration::from_secs);
            match name.trim() {
                "r" => quota.remaining = number,
                "t" => quota.reset = seconds,
                "remaining" => single.remaining = number,
                "reset" => single.reset = seconds,
                _ => {}
            }
        }
        quotas.push(quota);
    }
    quotas.push(single);
    quotas
}

fn split_outside_quotes(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |c| {
        is_quoted ^= c == '"';
        c == separator && !is_quoted
    })
}

/// The value of a field that names a reset: seconds until then, seconds or milliseconds of the Unix epoch, or a date.
fn time_until_reset(text: &str, now: SystemTime) -> Option<Duration> {
    let until = |then: SystemTime| then.duration_since(now).unwrap_or_default();
    let since_epoch = match whole_number(text) {
        None => return httpdate::parse_http_date(text.trim()).ok().map(until),
        Some(number @ ..MIN_EPOCH_SECONDS) => return Some(Duration::from_secs(number)),
        Some(number @ ..MIN_EPOCH_MILLISECONDS) => Duration::from_secs(number),
        Some(number) => Duration::from_millis(number),
    };
    SystemTime::UNIX_EPOCH.checked_add(since_epoch).map(until)
}

/// A number of the peer; a fraction is rounded up.
fn whole_number(text: &str) -> Option<u64> {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let number = whole.parse().unwrap_or(u64::MAX);
    let is_above = fraction.bytes().any(|byte| byte != b'0');
    Some(number.saturating_add(u64::from(is_above)))
}

/// Prints `, and asks to wait for 1 h`, or nothing.
#[derive(Debug, Clone, Copy)]
pub struct RetryAfterText(pub Option<Duration>);

impl fmt::Display for RetryAfterText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.filter(|wait| !wait.is_zero()) {
            Some(wait) => write!(f, ", and asks to wait for {}", WaitText(wait)),
            None => Ok(()),
        }
    }
}

/// Prints `1 h`.
#[derive(Debug, Clone, Copy)]
pub struct WaitText(pub Duration);

impl fmt::Display for WaitText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs().max(1);
        let (number, unit) = match seconds {
            ..=300 => (seconds, "s"),
            301..=18_000 => (seconds.div_ceil(60), "min"),
            18_001..=432_000 => (seconds.div_ceil(3600), "h"),
            _ => (seconds.div_ceil(86_400), "days"),
        };
        write!(f, "{number} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;
    use proptest::prelude::*;

    /// The `Date` of the responses.
    const DATE_SENT: &str = "Mon, 02 Nov 2026 08:49:37 GMT";

    fn date(text: &str) -> SystemTime {
        httpdate::parse_http_date(text).unwrap()
    }

    /// The seconds that a response asks for, at a machine whose clock is an hour ahead of the `Date` of the response.
    fn seconds(status: u16, fields: &[(&'static str, &str)]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let own_clock = date("Mon, 02 Nov 2026 09:49:37 GMT");
        let wait = requested_wait(StatusCode::from_u16(status).unwrap(), &headers, own_clock);
        wait.map(|wait| wait.as_secs())
    }

    #[test]
    fn a17_retry_after_is_seconds_or_a_date() {
        let now = date(DATE_SENT);
        let parse = |text: &'static str| parse_retry_after(&HeaderValue::from_static(text), now);
        assert_eq!(parse("7"), Some(Duration::from_secs(7)));
        assert_eq!(
            parse("Mon, 02 Nov 2026 08:50:37 GMT"),
            Some(Duration::from_secs(60))
        );
        assert_eq!(parse("Mon, 02 Nov 2026 07:59:37 GMT"), Some(Duration::ZERO));
        let absurd = parse("99999999999999999999999");
        assert_eq!(absurd, Some(Duration::from_secs(u64::MAX)));
        for junk in ["", "-1", "soon", "1.5", "0x10"] {
            assert_eq!(parse(junk), None, "{junk:?}");
        }
    }

    #[test]
    fn a42_moments_are_compared_with_the_date_of_the_response() {
        let to = "Mon, 02 Nov 2026 08:51:17 GMT";
        let (today, epoch) = (("date", DATE_SENT), "1793609477");
        assert_eq!(seconds(429, &[today, ("retry-after", to)]), Some(100));
        assert_eq!(
            seconds(429, &[today, ("x-ratelimit-reset", epoch)]),
            Some(100)
        );
        // Without a date, or with one that cannot be read, this machine's clock says that the moment is over.
        for unusable in [&[][..], &[("date", "today")]] {
            let fields = [unusable, &[("retry-after", to)]].concat();
            assert_eq!(seconds(503, &fields), Some(0));
            let fields = [unusable, &[("x-ratelimit-reset", epoch)]].concat();
            assert_eq!(seconds(503, &fields), Some(0));
        }
    }

    #[test]
    fn a42_each_form_of_a_rate_limit_names_its_reset() {
        for (name, value, wait) in [
            ("ratelimit", "\"resolvers\";r=0;t=93", Some(93)),
            ("ratelimit", "\"a;t=7,b\" ; r=0 ; t=93;pk=:aa==:", Some(93)),
            // Of several quotas the spent ones count, and of those the last to be reset.
            (
                "ratelimit",
                "\"a\";r=5;t=900, \"b\";r=0;t=3, \"c\";r=0;t=60",
                Some(60),
            ),
            ("ratelimit", "\"a\";r=5;t=900", None),
            ("ratelimit", "\"a\";t=12", Some(12)),
            ("ratelimit", "limit=100, remaining=0, reset=50", Some(50)),
            ("ratelimit", "limit=100, remaining=9, reset=50", None),
            ("ratelimit", "\"a\";r=0;t=-5, ;;=,\"", None),
            ("ratelimit-reset", "300", Some(300)),
            ("x-ratelimit-reset", "1.25", Some(2)),
            ("x-rate-limit-reset", "1793609477", Some(100)),
            ("x-ratelimit-reset", "1793609477.5", Some(101)),
            ("x-ratelimit-reset", "1793609477000", Some(100)),
            (
                "x-ratelimit-reset",
                "Mon, 02 Nov 2026 08:51:17 GMT",
                Some(100),
            ),
            ("x-ratelimit-reset", "1793608600", Some(0)),
            ("x-ratelimit-reset", "soon", None),
        ] {
            let found = seconds(429, &[("date", DATE_SENT), (name, value)]);
            assert_eq!(found, wait, "{name}: {value}");
            assert_eq!(
                seconds(404, &[("date", DATE_SENT), (name, value)]),
                None,
                "{value}"
            );
        }
        // Retry-After is about the request, the others are about limits.
        let both = [("ratelimit-reset", "300"), ("retry-after", "5")];
        assert_eq!(seconds(429, &both), Some(5));
        let left = [
            ("x-ratelimit-reset", "300"),
            ("x-ratelimit-remaining", "12"),
        ];
        assert_eq!(seconds(429, &left), None);
    }

    #[test]
    fn a42_a_403_asks_to_wait_if_no_request_remains() {
        let reset = ("x-ratelimit-reset", "1793609477");
        let with = |fields: &[(&'static str, &str)]| {
            seconds(403, &[&[("date", DATE_SENT)], fields].concat())
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[reset]), None);
        assert_eq!(with(&[reset, ("x-ratelimit-remaining", "4999")]), None);
        assert_eq!(with(&[reset, ("x-ratelimit-remaining", "0")]), Some(100));
        assert_eq!(with(&[("ratelimit", "\"a\";r=0;t=93")]), Some(93));
        assert_eq!(with(&[("ratelimit", "\"a\";t=93")]), None);
        assert_eq!(with(&[("retry-after", "60")]), Some(60));
    }

    proptest! {
        #[test]
        fn a42_no_field_of_a_peer_panics(bytes: Vec<u8>, number: u64, status in 400u16..600) {
            let texts = [bytes, format!("\"a\";r=0;t={number}").into_bytes(), number.to_string().into_bytes()];
            for value in texts.iter().filter_map(|text| HeaderValue::from_bytes(text).ok()) {
                for name in ["retry-after", "ratelimit", "x-ratelimit-reset", "date"] {
                    let fields = [(HeaderName::from_static(name), value.clone())];
                    let status = StatusCode::from_u16(status).unwrap();
                    let _ = requested_wait(status, &fields.into_iter().collect(), SystemTime::UNIX_EPOCH);
                }
            }
        }
    }
}
