//! What the user can do about an error of the network.

use haul_plan::{Remedy, TlsEndpoint, TransferTimeLimit};

use super::{AddressFamily, Error, Kind, ProxyName, ProxyRefusal, TlsProblem};
use crate::redirect::RedirectError;

impl Error {
    /// What the user can do about it, the likeliest first.
    #[must_use]
    pub fn remedies(&self) -> Vec<Remedy> {
        if self.is_descriptor_limit() {
            return vec![Remedy::AllowOpenFiles];
        }
        if self.lacks_zone() {
            let text = "add the interface that leads to this link-local address: [fe80::1%eth0]";
            return vec![Remedy::advice(text)];
        }
        if self.is_login_unasked() {
            let text =
                "check the user name and password of the proxy, and whether it allows this target";
            return vec![Remedy::advice(text)];
        }
        if self.is_proxy_unreachable()
            && let Some(proxy) = self.proxy()
        {
            return proxy_remedies(proxy);
        }
        match &self.kind {
            Kind::NoSuchHost(_) => vec![Remedy::advice("check the name"), Remedy::SetAddress],
            Kind::ConnectTimeout(_) if self.proxy.is_some() => vec![
                Remedy::advice(
                    "the proxy accepts connections and does not respond: is its port correct, and the target up?",
                ),
                Remedy::ExtendTimeLimit(TransferTimeLimit::Connect),
            ],
            Kind::Connect(_) | Kind::ConnectTimeout(_) => vec![
                Remedy::advice("is the host up, and the port correct?"),
                Remedy::UseProxy,
            ],
            Kind::NoAddress(_, family) => vec![Remedy::AllowBothFamilies {
                only_ipv4: *family == AddressFamily::V4,
            }],
            Kind::UnusableProxyVariable(_) => vec![Remedy::ChangeProxy],
            Kind::ProxyAuth(_) => vec![self.proxy_login_remedy()],
            Kind::ProxyRefused(_) => self.refusal_remedies(),
            Kind::Tls(problem) => tls_remedies(*problem, self.tls_peer()),
            Kind::Redirect(RedirectError::Downgrade) => vec![Remedy::AllowDowngrade],
            Kind::Redirect(RedirectError::TooMany(_)) => vec![Remedy::FollowMoreRedirects],
            Kind::Signing => vec![Remedy::GiveStoreCredentials, Remedy::OmitSignature],
            Kind::Stall => vec![Remedy::ExtendTimeLimit(TransferTimeLimit::Stall)],
            Kind::ResponseTimeout => vec![Remedy::ExtendTimeLimit(TransferTimeLimit::Response)],
            _ => self.advice().map(Remedy::advice).into_iter().collect(),
        }
    }

    /// Advice for what only the other side can change.
    fn advice(&self) -> Option<&'static str> {
        Some(match &self.kind {
            Kind::Resolve(_) => "check the network connection and the name servers",
            Kind::NotSocks => "write an HTTP proxy with http:// or https://",
            Kind::Redirect(_) => "the origin sent a wrong redirect; check the URL",
            Kind::Framing(_) => {
                "the server, or a proxy on the way, does not send the body as HTTP requires: try another mirror"
            }
            Kind::Closed if self.is_closed_without_response() && self.may_expect_tls() => {
                "if the server speaks TLS on this port, use https:// instead of http://"
            }
            Kind::Protocol => "the server does not speak HTTP: check the port, or try https://",
            _ => return None,
        })
    }

    /// Whether the URL is of a server that might speak TLS instead.
    fn may_expect_tls(&self) -> bool {
        self.url.scheme() == "http" && self.url.port().is_some()
    }

    /// Whose TLS failed. An error of TLS with a target names no proxy, even if the connection goes through one.
    fn tls_peer(&self) -> TlsEndpoint {
        match self.proxy {
            Some(_) => TlsEndpoint::Proxy,
            None => TlsEndpoint::Target,
        }
    }

    fn proxy_login_remedy(&self) -> Remedy {
        if self.proxy.as_ref().is_some_and(|proxy| proxy.has_login) {
            Remedy::advice("check the user name and password of the proxy")
        } else {
            Remedy::LogInToProxy
        }
    }

    fn refusal_remedies(&self) -> Vec<Remedy> {
        let has_next_hop = (self.proxy.as_ref()).is_some_and(|proxy| proxy.next_hop.is_some());
        let (text, bypass) = match self.proxy_refusal() {
            _ if has_next_hop => (
                "is the next proxy up, and are its host and port correct?",
                None,
            ),
            Some(ProxyRefusal::TargetUnreachable) => {
                ("is the target up, and are its host and port correct?", None)
            }
            // Without CONNECT the port says nothing.
            Some(ProxyRefusal::NotAllowed) if self.url.scheme() == "http" => (
                "the proxy does not allow this target",
                Some(Remedy::BypassProxy),
            ),
            Some(ProxyRefusal::NotAllowed) => (
                "the proxy does not allow this target: many allow port 443 only",
                Some(Remedy::BypassProxy),
            ),
            _ => (
                "the proxy gives no reason: is the target up, and allowed?",
                Some(Remedy::BypassProxy),
            ),
        };
        [Some(Remedy::advice(text)), bypass]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// For a proxy that cannot be reached.
fn proxy_remedies(proxy: &ProxyName) -> Vec<Remedy> {
    let change = proxy.variable.map(|_| Remedy::ChangeProxy);
    [Remedy::advice("is the proxy up, and its port correct?")]
        .into_iter()
        .chain(change)
        .chain([Remedy::ConnectDirectly])
        .collect()
}

fn tls_remedies(problem: TlsProblem, peer: TlsEndpoint) -> Vec<Remedy> {
    let skip = Remedy::SkipVerification(peer);
    match (problem, peer) {
        (TlsProblem::PlainHttp | TlsProblem::NotTls, TlsEndpoint::Proxy) => {
            vec![Remedy::advice("try http:// for this proxy")]
        }
        (TlsProblem::PlainHttp, TlsEndpoint::Target) => {
            vec![Remedy::advice("use that URL: http:// instead of https://")]
        }
        (TlsProblem::NotTls, TlsEndpoint::Target) => {
            vec![Remedy::advice(
                "try http:// instead of https://, or another port",
            )]
        }
        (TlsProblem::UnknownIssuer | TlsProblem::SelfSigned, _) => {
            vec![Remedy::TrustAuthority(peer), skip]
        }
        (TlsProblem::WrongHost, _) => vec![Remedy::advice("use the name in the certificate"), skip],
        (TlsProblem::Expired, _) => vec![skip],
        (TlsProblem::ClientCertificate, _) => vec![Remedy::GiveClientCertificate(peer)],
        (TlsProblem::RootsUnavailable, _) => vec![Remedy::NameTrustedCertificates(peer)],
        (TlsProblem::NoHttp2, _) => vec![Remedy::UseHttp1],
        (TlsProblem::Revoked | TlsProblem::Other, _) => Vec::new(),
    }
}
