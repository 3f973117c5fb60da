//! What the URLs of a plan mean: where to connect, and the bytes of requests.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_net::socket_address;
use http::{HeaderValue, Version, header};
use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use url::{Host, Position, Url};

use super::outcome::shown_url;
use super::{LoadError, LoadMethod, LoadPlan, LoadProtocol};

/// The URLs of a plan, made ready: one at least.
#[derive(Debug)]
pub(super) struct TargetList {
    pub(super) origins: Vec<LoadOrigin>,
    targets: Vec<LoadTarget>,
}

/// Where connections go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoadOrigin {
    pub(super) address: OriginAddress,
    /// For TLS, the name on the server's certificate.
    pub(super) tls_name: Option<ServerName<'static>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OriginAddress {
    /// It needs no lookup.
    Socket(SocketAddr),
    Name(String, u16),
}

/// A URL, made ready.
#[derive(Debug)]
pub(super) struct LoadTarget {
    /// The number of its origin.
    pub(super) origin: usize,
    /// How failures name it.
    name: String,
    /// Of HTTP/1.1: the method and the target, without the number of the file.
    request_line: String,
    /// The rest of the head.
    fields: String,
    /// The same for HTTP/2, without the number of the file.
    request: http::Request<()>,
    /// How many files the URL stands for: see [`LoadPlan::files`].
    files: Option<u64>,
}

impl TargetList {
    /// Makes the URLs of a plan ready.
    pub(super) fn new(plan: &LoadPlan) -> Result<Self, LoadError> {
        let mut origins: Vec<LoadOrigin> = Vec::new();
        let mut targets = Vec::with_capacity(plan.urls.len());
        for url in &plan.urls {
            let origin = load_origin(plan, url)?;
            let known = origins.iter().position(|known| *known == origin);
            let number = known.unwrap_or(origins.len());
            if known.is_none() {
                origins.push(origin);
            }
            targets.push(LoadTarget::new(plan, url, number)?);
        }
        if targets.is_empty() {
            Err(LoadError::NoUrl)
        } else {
            Ok(Self { origins, targets })
        }
    }

    /// The target of a request, by its number.
    pub(super) fn target(&self, number: u64) -> &LoadTarget {
        &self.targets[self.index(number)]
    }

    /// The index of that target.
    pub(super) fn index(&self, number: u64) -> usize {
        let count = self.targets.len() as u64;
        usize::try_from(number % count).unwrap_or_default()
    }

    /// The name of a target by its index, where there are several.
    pub(super) fn name(&self, index: usize) -> Option<&str> {
        let target = self.targets.get(index)?;
        (self.targets.len() > 1).then_some(&target.name)
    }
}

/// Whether requests for a URL are sent through the plan's proxy.
fn is_proxied(plan: &LoadPlan, url: &Url) -> bool {
    plan.proxy.is_some() && url.scheme() == "http" && plan.protocol != LoadProtocol::Http2
}

fn wrong_url(url: &Url) -> LoadError {
    LoadError::Url(haul_net::redacted_url(url))
}

fn load_origin(plan: &LoadPlan, url: &Url) -> Result<LoadOrigin, LoadError> {
    let (name, ip) = match url.host() {
        Some(Host::Domain(name)) => (name.to_owned(), None),
        Some(Host::Ipv4(address)) => (String::new(), Some(IpAddr::from(address))),
        Some(Host::Ipv6(address)) => (String::new(), Some(IpAddr::from(address))),
        None => return Err(wrong_url(url)),
    };
    let tls_name = match (url.scheme(), ip) {
        ("http", _) => None,
        ("https", Some(ip)) => Some(socket_address(ip, 0).ip().into()),
        ("https", None) => Some(ServerName::try_from(name.clone()).map_err(|_| wrong_url(url))?),
        _ => return Err(wrong_url(url)),
    };
    let proxy = plan.proxy.filter(|_| is_proxied(plan, url));
    let port = url.port_or_known_default().unwrap_or_default();
    let address = match (plan.connect_to.or(proxy), ip) {
        (Some(address), _) => OriginAddress::Socket(address),
        (None, Some(ip)) => OriginAddress::Socket(socket_address(ip, port)),
        (None, None) => OriginAddress::Name(name, port),
    };
    Ok(LoadOrigin { address, tls_name })
}

impl LoadTarget {
    fn new(plan: &LoadPlan, url: &Url, origin: usize) -> Result<Self, LoadError> {
        let host = haul_net::authority(url);
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let absolute = format!("{}://{host}{path}", url.scheme());
        let target = if is_proxied(plan, url) {
            &absolute
        } else {
            path
        };
        let method = plan.method.name();
        let mut request = http::Request::builder()
            .method(method)
            .uri(&absolute)
            .version(Version::HTTP_2)
            .header(
                header::USER_AGENT,
                concat!("haul-bench/", env!("CARGO_PKG_VERSION")),
            );
        if let Some(credentials) = basic_credentials(url) {
            request = request.header(header::AUTHORIZATION, credentials);
        }
        if plan.method == LoadMethod::Put {
            request = request.header(header::CONTENT_LENGTH, plan.put_bytes);
        }
        let request = request.body(()).map_err(|_| wrong_url(url))?;
        let mut fields = format!(" HTTP/1.1\r\nHost: {host}\r\n");
        for (name, value) in request.headers() {
            let value = value.to_str().unwrap_or_default();
            let _ = write!(fields, "{name}: {value}\r\n");
        }
        fields.push_str(if plan.is_kept_alive {
            "\r\n"
        } else {
            "Connection: close\r\n\r\n"
        });
        Ok(Self {
            origin,
            name: shown_url(&absolute),
            request_line: format!("{method} {target}"),
            fields,
            request,
            files: plan.files,
        })
    }

    /// Writes the head of a request into a buffer.
    pub(super) fn write_head(&self, number: u64, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.extend_from_slice(self.request_line.as_bytes());
        if let Some(files) = self.files {
            write!(buffer, "{}", number % files).expect("a Vec takes all bytes");
        }
        buffer.extend_from_slice(self.fields.as_bytes());
    }

    /// The head of a request over HTTP/2; `None` if the URL is not one that HTTP/2 can send.
    pub(super) fn http2_request(&self, number: u64) -> Option<http::Request<()>> {
        let mut request = self.request.clone();
        if let Some(files) = self.files {
            let uri = format!("{}{}", request.uri(), number % files);
            *request.uri_mut() = uri.parse().ok()?;
        }
        Some(request)
    }
}

impl LoadMethod {
    /// The name on the request line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// The value of Authorization for a URL with a user name.
fn basic_credentials(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut credentials: Vec<u8> = percent_decode_str(url.username()).collect();
    credentials.push(b':');
    credentials.extend(percent_decode_str(url.password().unwrap_or_default()));
    let text = format!("Basic {}", STANDARD.encode(credentials));
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
