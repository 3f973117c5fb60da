//! What the URLs of a plan mean: where to connect, and the bytes of requests.

use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Uri, header};
use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use url::{Host, Position, Url};

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

/// The address of an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OriginAddress {
    /// It needs no lookup.
    Socket(SocketAddr),
    /// A name and a port.
    Name(String, u16),
}

/// A URL, made ready.
#[derive(Debug)]
pub(super) struct LoadTarget {
    /// The number of its origin.
    pub(super) origin: usize,
    /// The request line and the head, in the parts between the numbers of the request.
    head: NumberedText,
    /// The same for HTTP/2: the URL without the credentials.
    url: NumberedText,
    /// The URL for HTTP/2, if it has no number.
    uri: Option<Uri>,
    /// The fields for HTTP/2.
    fields: HeaderMap,
}

/// A text with places for a number: its parts before, between and after them.
#[derive(Debug)]
struct NumberedText(Vec<String>);

impl NumberedText {
    /// A text whose places for the number are `{}`, which `Url` escapes in paths; or, without `is_numbered`, one that stays as it is.
    fn new(text: &str, is_numbered: bool) -> Self {
        if !is_numbered {
            return Self(vec![text.to_owned()]);
        }
        let text = text.replace("%7B%7D", "{}");
        Self(text.split("{}").map(str::to_owned).collect())
    }

    fn append(&self, number: u64, output: &mut Vec<u8>) {
        use std::io::Write as _;
        for (index, part) in self.0.iter().enumerate() {
            if index > 0 {
                write!(output, "{number}").expect("a Vec takes all bytes");
            }
            output.extend_from_slice(part.as_bytes());
        }
    }

    /// Appends a text that has no number.
    fn push_str(&mut self, text: &str) {
        if let Some(last) = self.0.last_mut() {
            last.push_str(text);
        }
    }
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
        Ok(Self { origins, targets })
    }

    /// The target of a request, by its number.
    pub(super) fn target(&self, number: u64) -> &LoadTarget {
        let count = self.targets.len() as u64;
        let index = usize::try_from(number % count).unwrap_or_default();
        &self.targets[index]
    }
}

/// Whether requests for a URL are sent through the plan's proxy.
fn is_proxied(plan: &LoadPlan, url: &Url) -> bool {
    plan.proxy.is_some() && url.scheme() == "http" && plan.protocol != LoadProtocol::Http2
}

fn load_origin(plan: &LoadPlan, url: &Url) -> Result<LoadOrigin, LoadError> {
    let wrong = || LoadError::Url(haul_net::redacted_url(url));
    let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
        return Err(wrong());
    };
    let tls_name = match (url.scheme(), &host) {
        ("http", _) => None,
        ("https", Host::Domain(name)) => {
            Some(ServerName::try_from((*name).to_owned()).map_err(|_| wrong())?)
        }
        ("https", Host::Ipv4(address)) => Some(IpAddr::from(*address).into()),
        ("https", Host::Ipv6(address)) => Some(IpAddr::from(*address).into()),
        _ => return Err(wrong()),
    };
    let proxy = plan.proxy.filter(|_| is_proxied(plan, url));
    let address = match (plan.connect_to.or(proxy), host) {
        (Some(address), _) => OriginAddress::Socket(address),
        (None, Host::Domain(name)) => OriginAddress::Name(name.to_owned(), port),
        (None, Host::Ipv4(address)) => OriginAddress::Socket((address, port).into()),
        (None, Host::Ipv6(address)) => OriginAddress::Socket((address, port).into()),
    };
    Ok(LoadOrigin { address, tls_name })
}

impl LoadTarget {
    fn new(plan: &LoadPlan, url: &Url, origin: usize) -> Result<Self, LoadError> {
        let (host, path) = (
            &url[Position::BeforeHost..Position::AfterPort],
            &url[Position::BeforePath..Position::AfterQuery],
        );
        let scheme = url.scheme();
        let absolute = format!("{scheme}://{host}{path}");
        let target = if is_proxied(plan, url) {
            &absolute
        } else {
            path
        };
        let mut fields = HeaderMap::new();
        let agent = concat!("haul-bench/", env!("CARGO_PKG_VERSION"));
        fields.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        if let Some(credentials) = basic_credentials(url) {
            fields.insert(header::AUTHORIZATION, credentials);
        }
        if let LoadMethod::Put(bytes) = plan.method {
            fields.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
        }
        let mut head = NumberedText::new(
            &format!("{} {target}", plan.method.name()),
            plan.is_numbered,
        );
        head.push_str(&format!(" HTTP/1.1\r\nHost: {host}\r\n"));
        for (name, value) in &fields {
            let value = value.to_str().unwrap_or_default();
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(if plan.is_kept_alive {
            "\r\n"
        } else {
            "Connection: close\r\n\r\n"
        });
        let url_text = NumberedText::new(&absolute, plan.is_numbered);
        let has_number = url_text.0.len() > 1;
        let uri = absolute.parse().ok().filter(|_| !has_number);
        if uri.is_none() && !has_number {
            return Err(LoadError::Url(haul_net::redacted_url(url)));
        }
        Ok(Self {
            origin,
            head,
            url: url_text,
            uri,
            fields,
        })
    }

    /// Writes the head of a request into an empty buffer.
    pub(super) fn write_head(&self, number: u64, buffer: &mut Vec<u8>) {
        buffer.clear();
        self.head.append(number, buffer);
    }

    /// The head of a request over HTTP/2; `None` if the URL is not one that HTTP/2 can send.
    pub(super) fn http2_request(
        &self,
        number: u64,
        method: LoadMethod,
    ) -> Option<http::Request<()>> {
        let uri = match &self.uri {
            Some(uri) => uri.clone(),
            None => {
                let mut text = Vec::new();
                self.url.append(number, &mut text);
                Uri::try_from(text).ok()?
            }
        };
        let mut request = http::Request::new(());
        *request.method_mut() = method.name().parse().ok()?;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.fields.clone();
        *request.version_mut() = http::Version::HTTP_2;
        Some(request)
    }
}

impl LoadMethod {
    /// The name on the request line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put(_) => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// The length of the body.
    pub(super) fn body_bytes(self) -> u64 {
        match self {
            Self::Put(bytes) => bytes,
            Self::Get | Self::Delete => 0,
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
