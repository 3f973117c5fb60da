//! The levels of a cell of the workload `requests`.

use crate::cell::{Cell, FileSet, LevelError};
use crate::load::{LoadClient, LoadEnd, LoadMethod, LoadPace, LoadProtocol};
use crate::servers::LinkSpec;

/// The factors of this workload.
pub(crate) const FACTORS: &str = "method, files, seconds, client, concurrency, protocol, connections, rate, link, route, accept, server, url";

/// The longest load. The time of its experiment ends it sooner.
const MAX_SECONDS: f64 = 3600.0;

/// The ways of `haul serve` to accept connections.
const ACCEPTS: [&str; 4] = ["work-stealing", "reuseport", "round-robin", "single"];

const METHODS: [(&str, LoadMethod); 3] = [
    ("get", LoadMethod::Get),
    ("put", LoadMethod::Put),
    ("delete", LoadMethod::Delete),
];

const CLIENTS: [(&str, LoadClient); 2] = [
    ("async", LoadClient::Async),
    ("threads", LoadClient::Threads),
];

const PROTOCOLS: [(&str, LoadProtocol); 4] = [
    ("http", LoadProtocol::Http),
    ("https", LoadProtocol::Https),
    ("https-resumed", LoadProtocol::HttpsResumed),
    ("h2", LoadProtocol::Http2),
];

const ROUTES: [(&str, RequestsRoute); 4] = [
    ("direct", RequestsRoute::Direct),
    ("proxy", RequestsRoute::Proxy),
    ("tunnel", RequestsRoute::Tunnel),
    ("warm-tunnel", RequestsRoute::WarmTunnel),
];

#[derive(Debug, Clone, PartialEq)]
pub struct RequestsCell {
    /// `method`: get, put or delete.
    pub method: LoadMethod,
    /// `files`: how many requests, and how large their bodies are.
    pub files: FileSet,
    /// `seconds`: for how long requests begin, so that `files` says only what they are about.
    pub end: LoadEnd,
    /// `client`: threads or async.
    pub client: LoadClient,
    /// `concurrency`: requests at a time.
    pub concurrency: u32,
    /// `protocol`: http, https, https-resumed or h2, which is HTTP/2 over TLS.
    pub protocol: LoadProtocol,
    /// `connections`: keep-alive, or each for a connection each.
    pub is_kept_alive: bool,
    /// `rate`: closed, or requests a second as `500/s`.
    pub pace: LoadPace,
    /// `link`: loopback, or a link of `lab`.
    pub link: LinkSpec,
    /// `route`: direct, proxy, tunnel or warm-tunnel.
    pub route: RequestsRoute,
    /// `accept`: a way in which `haul serve` accepts connections.
    pub accept: Option<String>,
    /// `server`: serve, or short-queue for a server that accepts one connection after the other.
    pub has_short_queue: bool,
    /// `url`: the number of the user's URL, from 1; all of them in turn for `None`.
    pub url: Option<usize>,
}

/// How requests get to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestsRoute {
    Direct,
    /// Through an HTTP proxy.
    Proxy,
    /// Through `haul tunnel` and the proxy.
    Tunnel,
    /// The same with connections to the proxy made in advance.
    WarmTunnel,
}

impl RequestsCell {
    /// Parses a cell.
    ///
    /// # Errors
    /// A level is none of its factor's.
    pub fn parse(cell: &Cell) -> Result<Self, LevelError> {
        let files = FileSet {
            count: 100,
            bytes: 1 << 10,
        };
        let files = FileSet::from_cell(cell, files)?;
        cell.choose("accept", &ACCEPTS.map(|accept| (accept, ())))?;
        let (method, end) = (cell.choose("method", &METHODS)?, load_end(cell, files)?);
        if let (LoadMethod::Delete, LoadEnd::Seconds(seconds)) = (method, end) {
            let expected = "files says how many there are, as each DELETE needs one of its own";
            return Err(LevelError::new("seconds", &seconds.to_string(), expected));
        }
        let closed = LoadPace::Closed;
        let pace = |text: &str| match text {
            "closed" => Some(closed),
            text => above_zero(text.strip_suffix("/s")?).map(LoadPace::Rate),
        };
        Ok(Self {
            method,
            files,
            end,
            client: cell.choose("client", &CLIENTS)?,
            // At most as many as a process may have sockets without asking for more.
            concurrency: cell.parse("concurrency", "1 to 10000, or all", 1, |text| match text {
                "all" => Some(files.count),
                text => text
                    .parse()
                    .ok()
                    .filter(|count| (1..=10_000).contains(count)),
            })?,
            protocol: cell.choose("protocol", &PROTOCOLS)?,
            is_kept_alive: cell.choose("connections", &[("keep-alive", true), ("each", false)])?,
            pace: cell.parse("rate", "closed, or a number with /s", closed, pace)?,
            link: LinkSpec::from_cell(cell)?,
            route: cell.choose("route", &ROUTES)?,
            accept: cell.level("accept").map(str::to_owned),
            has_short_queue: cell.choose("server", &[("serve", false), ("short-queue", true)])?,
            url: cell.parse("url", "the number of a URL, from 1", None, |text| {
                let number = text.parse().ok().filter(|number| *number > 0);
                number.map(Some)
            })?,
        })
    }
}

/// A request for each file, or as many as begin in so many seconds.
fn load_end(cell: &Cell, files: FileSet) -> Result<LoadEnd, LevelError> {
    let each_file = LoadEnd::Requests(files.count.into());
    let expected = "a number above 0, 3600 at most";
    cell.parse("seconds", expected, each_file, |text| {
        let seconds = above_zero(text).filter(|seconds| *seconds <= MAX_SECONDS);
        seconds.map(LoadEnd::Seconds)
    })
}

fn above_zero(text: &str) -> Option<f64> {
    let number = text.parse().ok();
    number.filter(|number: &f64| number.is_finite() && *number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_ends_with_its_files_or_its_time() {
        let end = |levels: &[(&'static str, &'static str)]| {
            RequestsCell::parse(&Cell::new(levels.iter().copied())).map(|cell| cell.end)
        };
        assert_eq!(end(&[("files", "7 x 1k")]), Ok(LoadEnd::Requests(7)));
        assert_eq!(end(&[("seconds", "0.5")]), Ok(LoadEnd::Seconds(0.5)));
        for level in ["0", "-1", "nan", "inf", "3601", "10s"] {
            assert!(end(&[("seconds", level)]).is_err(), "{level}");
        }
        let deletes = end(&[("seconds", "1"), ("method", "delete")]);
        assert_eq!(deletes.unwrap_err().factor, "seconds");
    }
}
