//! The levels of a cell of the workload `requests`.

use crate::cell::{Cell, FileSet, LevelError};
use crate::load::{LoadClient, LoadPace};
use crate::servers::LinkSpec;

/// The factors of this workload.
pub(crate) const FACTORS: &[&str] = &[
    "method",
    "files",
    "client",
    "concurrency",
    "protocol",
    "connections",
    "rate",
    "link",
    "route",
    "accept",
    "server",
    "url",
];

/// The levels of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestsCell {
    /// `method`: get, put or delete.
    pub method: RequestsMethod,
    /// `files`: how many requests, and how large their bodies are.
    pub files: FileSet,
    /// `client`: threads or async.
    pub client: LoadClient,
    /// `concurrency`: requests at a time; all of them for `None`.
    pub concurrency: Option<u32>,
    /// `protocol`: http, https, https-resumed or h2, which is HTTP/2 over TLS.
    pub protocol: RequestsProtocol,
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
    /// `url`: the number of the user's URL, from 1; all of them in turn for `None`.
    pub url: Option<usize>,
    /// `server`: serve, or short-queue for a server that accepts one connection after the other.
    pub server: RequestsServer,
}

/// The method of all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestsMethod {
    /// GET.
    Get,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
}

/// HTTP, and what is below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestsProtocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/1.1 over TLS, a full handshake for each connection.
    Https,
    /// The same with resumed sessions.
    HttpsResumed,
    /// HTTP/2 over TLS.
    Http2,
}

/// How requests get to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestsRoute {
    /// Straight.
    Direct,
    /// Through an HTTP proxy.
    Proxy,
    /// Through `haul tunnel` and the proxy.
    Tunnel,
    /// The same with connections to the proxy made in advance.
    WarmTunnel,
}

/// The server where the user named none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestsServer {
    /// `haul serve`.
    Serve,
    /// A server with a short queue of connections, which it accepts one after the other.
    ShortQueue,
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
        let accepts = ["work-stealing", "reuseport", "round-robin", "single"];
        Ok(Self {
            method: cell.parse("method", "get, put or delete", RequestsMethod::Get, method)?,
            files: cell.parse(
                "files",
                "COUNT x SIZE, such as 100 x 1k",
                files,
                FileSet::parse,
            )?,
            client: cell.parse("client", "threads or async", LoadClient::Async, client)?,
            concurrency: cell.parse("concurrency", "a number, or all", Some(1), concurrency)?,
            protocol: cell.parse(
                "protocol",
                "http, https, https-resumed or h2",
                RequestsProtocol::Http,
                protocol,
            )?,
            is_kept_alive: cell.parse("connections", "keep-alive or each", true, is_kept_alive)?,
            pace: cell.parse(
                "rate",
                "closed, or a number with /s",
                LoadPace::Closed,
                pace,
            )?,
            link: cell.parse(
                "link",
                LinkSpec::EXPECTED,
                LinkSpec::default(),
                LinkSpec::parse,
            )?,
            route: cell.parse(
                "route",
                "direct, proxy, tunnel or warm-tunnel",
                RequestsRoute::Direct,
                route,
            )?,
            accept: cell.parse(
                "accept",
                "work-stealing, reuseport, round-robin or single",
                None,
                |text| accepts.contains(&text).then(|| Some(text.to_owned())),
            )?,
            url: cell.parse("url", "the number of a URL, from 1", None, url)?,
            server: cell.parse(
                "server",
                "serve or short-queue",
                RequestsServer::Serve,
                server,
            )?,
        })
    }
}

fn method(text: &str) -> Option<RequestsMethod> {
    match text {
        "get" => Some(RequestsMethod::Get),
        "put" => Some(RequestsMethod::Put),
        "delete" => Some(RequestsMethod::Delete),
        _ => None,
    }
}

fn client(text: &str) -> Option<LoadClient> {
    match text {
        "threads" => Some(LoadClient::Threads),
        "async" => Some(LoadClient::Async),
        _ => None,
    }
}

/// At most as many as a process may have sockets without asking for more.
fn concurrency(text: &str) -> Option<Option<u32>> {
    match text {
        "all" => Some(None),
        number => {
            let number = number
                .parse()
                .ok()
                .filter(|number| (1..=10_000).contains(number));
            number.map(Some)
        }
    }
}

fn protocol(text: &str) -> Option<RequestsProtocol> {
    match text {
        "http" => Some(RequestsProtocol::Http),
        "https" => Some(RequestsProtocol::Https),
        "https-resumed" => Some(RequestsProtocol::HttpsResumed),
        "h2" => Some(RequestsProtocol::Http2),
        _ => None,
    }
}

fn is_kept_alive(text: &str) -> Option<bool> {
    match text {
        "keep-alive" => Some(true),
        "each" => Some(false),
        _ => None,
    }
}

fn pace(text: &str) -> Option<LoadPace> {
    if text == "closed" {
        return Some(LoadPace::Closed);
    }
    let rate: f64 = text.strip_suffix("/s")?.parse().ok()?;
    (rate > 0.0 && rate.is_finite()).then_some(LoadPace::Rate(rate))
}

fn route(text: &str) -> Option<RequestsRoute> {
    match text {
        "direct" => Some(RequestsRoute::Direct),
        "proxy" => Some(RequestsRoute::Proxy),
        "tunnel" => Some(RequestsRoute::Tunnel),
        "warm-tunnel" => Some(RequestsRoute::WarmTunnel),
        _ => None,
    }
}

fn url(text: &str) -> Option<Option<usize>> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.map(Some)
}

fn server(text: &str) -> Option<RequestsServer> {
    match text {
        "serve" => Some(RequestsServer::Serve),
        "short-queue" => Some(RequestsServer::ShortQueue),
        _ => None,
    }
}
