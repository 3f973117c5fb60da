//! Sends a request to its origin, or to a proxy that takes it in absolute-form and may want a login first.
//!
//! A request without a body is sent again with what the proxy's 407 asks for. A body cannot be sent twice, so where it is not known for
//! certain what the proxy wants to see, a HEAD request for the same URL finds out first: a password is right whenever it is shown, but a
//! nonce that is remembered may have been used up by other requests.
//!
//! A proxy may also want its login without asking for it. So a request that it answers by 401 or 403, or by closing the connection, is sent
//! again with the login, once it is known that no login was sent and the proxy has never asked for one; then the response counts.
//!
//! A 407 is never passed on. The client could not respond to it: it would send its login to us, and we forward none. So a 407 that is left is
//! an error of ours, as when a CONNECT is refused.

use std::sync::Arc;

use haul_net::{Authorization, MAX_AUTH_ATTEMPTS, Proxy};
use http::{HeaderMap, Response, StatusCode};
use hyper::body::{Body, Incoming};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::request::ForwardRequest;
use super::request_body::ForwardRequestBody;
use super::upstream_connection::HttpUpstream;
use super::{HttpSession, RequestError};
use crate::upstream::{StreamPurpose, Upstream, UpstreamConnectError, UpstreamConnection};

/// A response whose body has not been read, and its connection.
pub(super) struct ForwardedResponse {
    pub(super) response: Response<Incoming>,
    pub(super) upstream: HttpUpstream,
}

impl HttpSession {
    /// Sends a request with its body, and returns the response to it.
    pub(super) async fn forward(
        &self,
        request: &ForwardRequest,
        body: Incoming,
    ) -> Result<ForwardedResponse, RequestError> {
        if body.is_end_stream() {
            Ok(self.forward_without_body(request).await?)
        } else {
            self.forward_with_body(request, body).await
        }
    }

    /// Sends a request, and again with a login for as long as the proxy asks for one.
    async fn forward_without_body(
        &self,
        request: &ForwardRequest,
    ) -> Result<ForwardedResponse, UpstreamConnectError> {
        let mut upstream = match self.take_kept(request) {
            Some(kept) => kept,
            None => self.open(request).await?,
        };
        let proxy = upstream.http_proxy.clone();
        let Some(proxy) = proxy.filter(|proxy| proxy.login.is_some()) else {
            let sent = self.send(upstream, request, None).await?;
            return self.unless_challenged(sent, request, false);
        };
        let (method, url) = request.method_and_url();
        let connector = self.upstream().connector();
        let mut authorization = connector.proxy_authorization(&proxy, method, &url);
        for _ in 1..MAX_AUTH_ATTEMPTS {
            let sent = self.send(upstream, request, authorization.as_ref()).await;
            let response = match &sent {
                Ok(sent) => Some(status_and_fields(&sent.response)),
                Err(error) if error.is_closed() && request.is_idempotent() => None,
                Err(_) => return sent,
            };
            if authorization.is_none() {
                self.record_unchallenged(&proxy, request, response);
            }
            let shown = authorization.as_ref();
            let next = connector.retry_proxy_auth(&proxy, response, shown, method, &url);
            if next.is_none() {
                let sent = sent.map_err(|error| error.of_proxy(connector, &proxy))?;
                return self.unless_challenged(sent, request, true);
            }
            authorization = next;
            upstream = self.open(request).await?;
            // The login is for the proxy that sent the 407, and for no other.
            if !is_same(upstream.http_proxy.as_ref(), &proxy) {
                authorization = None;
                break;
            }
        }
        let sent = self.send(upstream, request, authorization.as_ref()).await?;
        self.unless_challenged(sent, request, authorization.is_some())
    }

    /// Sends a request with a body, once. The login that the proxy wants with it is known, or found out before.
    async fn forward_with_body(
        &self,
        request: &ForwardRequest,
        body: Incoming,
    ) -> Result<ForwardedResponse, RequestError> {
        let mut reached = self.reach(request).await?;
        let mut authorization = None;
        let proxy = reached.http_proxy.clone();
        if let Some(proxy) = proxy.filter(|proxy| proxy.login.is_some()) {
            let (method, url) = request.method_and_url();
            let connector = self.upstream().connector();
            authorization = connector
                .proxy_authorization(&proxy, method, &url)
                .filter(Authorization::is_reusable);
            let unchallenged = self.upstream().unchallenged();
            if authorization.is_none() && !unchallenged.is_known(&proxy, request.target()) {
                authorization = self.probe(request, reached, &proxy).await?;
                reached = self.reach(request).await?;
                authorization =
                    authorization.filter(|_| is_same(reached.http_proxy.as_ref(), &proxy));
            }
        }
        let target = request.target();
        let counted_for = Some(Arc::clone(&self.connection));
        let mut upstream = HttpUpstream::new(reached, target, counted_for).await?;
        let sent = upstream.send(with_body(request, &upstream, authorization.as_ref(), body));
        let response = match sent.await {
            Ok(response) => response,
            // It is the client's body that broke, and not the connection.
            Err(error) if error.is_user() => return Err(RequestError::Body(error)),
            Err(error) => return Err(upstream.error(error).into()),
        };
        let sent = ForwardedResponse { response, upstream };
        Ok(self.unless_challenged(sent, request, authorization.is_some())?)
    }

    /// Finds out by a request without a body which login a proxy wants. A proxy that does not respond in time is shown none.
    async fn probe(
        &self,
        request: &ForwardRequest,
        reached: UpstreamConnection,
        proxy: &Proxy,
    ) -> Result<Option<Authorization>, UpstreamConnectError> {
        let mut upstream = HttpUpstream::new(reached, request.target(), None).await?;
        let probe = request.probe().for_proxy(None, ForwardRequestBody::empty());
        let limit = self.upstream().connect_timeout();
        let Ok(response) = timeout(limit, upstream.send(probe)).await else {
            return Ok(None);
        };
        let response = response.as_ref().ok().map(status_and_fields);
        self.record_unchallenged(proxy, request, response);
        let (method, url) = request.method_and_url();
        let connector = self.upstream().connector();
        let authorization = connector.retry_proxy_auth(proxy, response, None, method, &url);
        match response {
            // It would refuse the body as well.
            Some((status, fields)) if authorization.is_none() && is_challenge(status) => {
                Err(connector
                    .proxy_auth_error(proxy, fields, true, upstream.url())
                    .into())
            }
            _ => Ok(authorization),
        }
    }

    /// Remembers whether a proxy has let a request pass that showed no login. A refusal may be the origin's, and says nothing.
    fn record_unchallenged(
        &self,
        proxy: &Proxy,
        request: &ForwardRequest,
        response: Option<(StatusCode, &HeaderMap)>,
    ) {
        let status = response.map(|(status, _)| status);
        if let Some(status) = status.filter(|status| !matches!(status.as_u16(), 401 | 403)) {
            let unchallenged = self.upstream().unchallenged();
            unchallenged.record(proxy, request.target(), is_challenge(status));
        }
    }

    /// Sends a request without a body. A kept connection that the peer has closed meanwhile is replaced.
    async fn send(
        &self,
        mut upstream: HttpUpstream,
        request: &ForwardRequest,
        authorization: Option<&Authorization>,
    ) -> Result<ForwardedResponse, UpstreamConnectError> {
        let sent = upstream
            .send(to_peer(
                request,
                &upstream,
                authorization,
                ForwardRequestBody::empty(),
            ))
            .await;
        let sent = match sent {
            Err(_) if upstream.is_reused => {
                let proxy = upstream.http_proxy.take();
                upstream = self.open(request).await?;
                let is_same_proxy =
                    proxy.is_some_and(|proxy| is_same(upstream.http_proxy.as_ref(), &proxy));
                let authorization = authorization.filter(|_| is_same_proxy);
                let again = to_peer(
                    request,
                    &upstream,
                    authorization,
                    ForwardRequestBody::empty(),
                );
                upstream.send(again).await
            }
            sent => sent,
        };
        let response = sent.map_err(|error| upstream.error(error))?;
        Ok(ForwardedResponse { response, upstream })
    }

    /// Turns a proxy's 407 into an error, and passes all other responses. If the request showed no login, the challenge is remembered for
    /// the next one. A 407 from an origin is odd, and passed on like any other response.
    fn unless_challenged(
        &self,
        sent: ForwardedResponse,
        request: &ForwardRequest,
        is_shown: bool,
    ) -> Result<ForwardedResponse, UpstreamConnectError> {
        let Some(proxy) =
            (sent.upstream.http_proxy.as_ref()).filter(|_| is_challenge(sent.response.status()))
        else {
            return Ok(sent);
        };
        let connector = self.upstream().connector();
        let (status, fields) = status_and_fields(&sent.response);
        if !is_shown {
            let (method, url) = request.method_and_url();
            let response = Some((status, fields));
            let _ = connector.retry_proxy_auth(proxy, response, None, method, &url);
            self.record_unchallenged(proxy, request, response);
        }
        Err(connector
            .proxy_auth_error(proxy, fields, is_shown, sent.upstream.url())
            .into())
    }

    /// The connection of the request before, if this one may go over it: the peer may close it at any time, so a request that cannot be
    /// sent twice never does. squid has the same rule.
    fn take_kept(&self, request: &ForwardRequest) -> Option<HttpUpstream> {
        let mut kept = self.lock().kept.take()?;
        let may_reuse = request.is_idempotent()
            && kept.leads_to(request.target(), self.upstream())
            && kept.is_reusable();
        may_reuse.then(|| {
            self.connection.set_via(&kept.via);
            kept
        })
    }

    async fn open(&self, request: &ForwardRequest) -> Result<HttpUpstream, UpstreamConnectError> {
        let reached = self.reach(request).await?;
        let counted_for = Some(Arc::clone(&self.connection));
        HttpUpstream::new(reached, request.target(), counted_for).await
    }

    async fn reach(
        &self,
        request: &ForwardRequest,
    ) -> Result<UpstreamConnection, UpstreamConnectError> {
        let connecting = self
            .upstream()
            .connect(request.target(), StreamPurpose::HttpRequest);
        let reached = connecting.await?;
        self.connection.set_via(&reached.via);
        Ok(reached)
    }

    fn upstream(&self) -> &Arc<Upstream> {
        &self.connection.config.upstream
    }
}

fn is_challenge(status: StatusCode) -> bool {
    status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
}

fn status_and_fields(response: &Response<Incoming>) -> (StatusCode, &HeaderMap) {
    (response.status(), response.headers())
}

fn is_same(found: Option<&Proxy>, proxy: &Proxy) -> bool {
    found.is_some_and(|found| found.address() == proxy.address())
}

/// The request in the form that its peer takes.
fn to_peer(
    request: &ForwardRequest,
    upstream: &HttpUpstream,
    authorization: Option<&Authorization>,
    body: ForwardRequestBody,
) -> http::Request<ForwardRequestBody> {
    match upstream.http_proxy {
        Some(_) => request.for_proxy(authorization, body),
        None => request.for_origin(body),
    }
}

/// The same with the client's body. A client that waits for 100 Continue gets it when the peer has sent it.
fn with_body(
    request: &ForwardRequest,
    upstream: &HttpUpstream,
    authorization: Option<&Authorization>,
    body: Incoming,
) -> http::Request<ForwardRequestBody> {
    if !request.expects_continue() {
        return to_peer(
            request,
            upstream,
            authorization,
            ForwardRequestBody::new(body),
        );
    }
    let go_ahead = Arc::new(Notify::new());
    let body = ForwardRequestBody::with_go_ahead(body, Arc::clone(&go_ahead));
    let mut request = to_peer(request, upstream, authorization, body);
    hyper::ext::on_informational(&mut request, move |response| {
        if response.status() == StatusCode::CONTINUE {
            go_ahead.notify_one();
        }
    });
    request
}
