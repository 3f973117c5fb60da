//! The HTTP client of `aws-config`: requests for credentials go over connections of `haul_net`, with the user's proxy and trust.
//!
//! Metadata services have link-local addresses (RFC 3927), which no proxy can reach: requests to them go directly, as with AWS's
//! own programs.

use std::sync::Arc;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use haul_net::{Client, Error, FetchRequest, RequestBody};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::{Host, Url};

/// The longest response: tokens and documents of some kilobytes.
const MAX_RESPONSE: usize = 1 << 20;

/// How long a request may take if `aws-config` says nothing.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Makes the requests of credential providers.
#[derive(Debug, Clone)]
pub(crate) struct CredentialsHttp {
    clients: Arc<CredentialsClients>,
}

#[derive(Debug)]
struct CredentialsClients {
    /// With the user's proxy.
    routed: Client,
    /// Without a proxy.
    direct: Client,
}

/// Requests with the time limit of one provider.
#[derive(Debug)]
struct CredentialsConnector {
    clients: Arc<CredentialsClients>,
    timeout: Duration,
}

impl CredentialsHttp {
    /// `direct` is for metadata services.
    pub(crate) fn new(routed: Client, direct: Client) -> Self {
        Self {
            clients: Arc::new(CredentialsClients { routed, direct }),
        }
    }
}

impl HttpClient for CredentialsHttp {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        // A metadata service that is not there is noticed by the time limit of connecting.
        let timeout = settings
            .read_timeout()
            .into_iter()
            .chain(settings.connect_timeout());
        SharedHttpConnector::new(CredentialsConnector {
            clients: Arc::clone(&self.clients),
            timeout: timeout.max().unwrap_or(TIMEOUT),
        })
    }
}

impl HttpConnector for CredentialsConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (clients, timeout) = (Arc::clone(&self.clients), self.timeout);
        HttpConnectorFuture::new(async move {
            match tokio::time::timeout(timeout, send(&clients, request)).await {
                Ok(response) => response,
                Err(elapsed) => Err(ConnectorError::timeout(elapsed.into())),
            }
        })
    }
}

async fn send(
    clients: &CredentialsClients,
    request: HttpRequest,
) -> Result<HttpResponse, ConnectorError> {
    let user = |error: &str| ConnectorError::user(error.into());
    let url = Url::parse(request.uri()).map_err(|error| ConnectorError::user(error.into()))?;
    let method = Method::from_bytes(request.method().as_bytes())
        .map_err(|error| ConnectorError::user(error.into()))?;
    let body = request
        .body()
        .bytes()
        .map(Bytes::copy_from_slice)
        .ok_or_else(|| user("the body of a request for credentials is in memory"))?;
    let fetch = FetchRequest {
        method,
        headers: headers(&request),
        body: if body.is_empty() {
            RequestBody::Empty
        } else {
            RequestBody::Bytes(body)
        },
        ..FetchRequest::get(&url)
    };
    let client = if is_link_local(&url) {
        &clients.direct
    } else {
        &clients.routed
    };
    let mut response = client.fetch(fetch).await.map_err(connector_error)?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(connector_error)? {
        if body.len() + chunk.len() > MAX_RESPONSE {
            return Err(user("the response with credentials is too long"));
        }
        body.extend_from_slice(&chunk);
    }
    let status = StatusCode::try_from(response.status.as_u16())
        .map_err(|error| ConnectorError::other(error.into(), None))?;
    let mut result = HttpResponse::new(status, SdkBody::from(body));
    for (name, value) in &response.headers {
        if let Ok(value) = value.to_str() {
            result
                .headers_mut()
                .append(name.as_str().to_owned(), value.to_owned());
        }
    }
    response.recycle();
    Ok(result)
}

fn headers(request: &HttpRequest) -> HeaderMap {
    let fields = request.headers().iter().filter_map(|(name, value)| {
        let mut value = HeaderValue::from_str(value).ok()?;
        // Tokens are among them.
        value.set_sensitive(true);
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
    });
    fields.collect()
}

fn connector_error(error: Error) -> ConnectorError {
    if error.is_transient() {
        ConnectorError::io(error.into())
    } else {
        ConnectorError::other(error.into(), None)
    }
}

/// Whether the host is one of a metadata service: link-local, loopback, or EKS's address of IPv6.
fn is_link_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_link_local() || address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_unique_local() || address.is_unicast_link_local() || address.is_loopback()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_services_are_reached_directly() {
        for (url, is_direct) in [
            ("http://169.254.169.254/latest/", true),
            ("http://169.254.170.2/v2/credentials", true),
            ("http://[fd00:ec2::254]/latest/", true),
            ("http://[fd00:ec2::23]/v1/credentials", true),
            ("https://sts.amazonaws.com/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_link_local(&url.parse().unwrap()), is_direct, "{url}");
        }
    }
}
