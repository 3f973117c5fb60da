//! The words of the Python package for what a user can do about an error: its arguments.

use std::borrow::Cow;

use haul_plan::{Remedy, TlsEndpoint, TransferTimeLimit, remedies_text};

/// Remedies in one line, as far as the package has arguments for them.
pub(crate) fn remedies_hint(remedies: &[Remedy]) -> Option<String> {
    remedies_text(remedies, words)
}

fn words(remedy: &Remedy) -> Option<Cow<'_, str>> {
    let text = match remedy {
        Remedy::Advice(text) => return Some(Cow::Borrowed(text)),
        Remedy::DownloadFolder(list) => {
            let text = format!(
                "get('{list}', \"list.jsonl\") saves a list of its files, which batch takes; with a path get saves the page"
            );
            return Some(text.into());
        }
        Remedy::SaveInto(directory) => {
            return Some(format!("dir={} puts the file into it", directory.display()).into());
        }
        Remedy::Resume => "the same call resumes it",
        Remedy::AllowRetries => "or allow more retries with Client(retries=N)",
        Remedy::ExtendTimeLimit(limit) => return time_limit_words(*limit).map(Cow::Borrowed),
        Remedy::LogIn => "give credentials with auth=(USER, PASSWORD) or auth=TOKEN",
        Remedy::LogInToProxy => {
            "give the proxy's credentials in proxy=\"http://user:password@host:port\""
        }
        Remedy::ChangeProxy => "use another proxy with proxy=URL, or none with proxy=\"\"",
        Remedy::BypassProxy => "proxy=\"\" bypasses the proxy",
        Remedy::UseProxy => "is a proxy needed (proxy=URL)?",
        Remedy::TrustAuthority(TlsEndpoint::Target) => {
            "trust your own authority or a self-signed certificate with verify=FILE"
        }
        Remedy::SkipVerification(TlsEndpoint::Target) => {
            "continue at your own risk with verify=False"
        }
        Remedy::NameTrustedCertificates(_) => {
            "name the trusted certificates with SSL_CERT_FILE or verify=FILE"
        }
        Remedy::GiveClientCertificate(TlsEndpoint::Target) => {
            "give a client certificate with cert=(FILE, KEY)"
        }
        Remedy::SetAddress => "or set its address with resolve={\"HOST:PORT\": ADDRESS}",
        Remedy::AllowBothFamilies { .. } => "leave out ip_version",
        Remedy::UseHttp1 => "use http_version=\"1.1\"",
        Remedy::AllowDowngrade => "allow_downgrade=True follows this redirect",
        Remedy::FollowMoreRedirects => "max_redirects=N follows more",
        Remedy::ListObjects => "list shows what there is",
        Remedy::UseSeveralConnections => "connections=N uses several all the same",
        Remedy::AllowOpenFiles => "too many open files: raise the limit with ulimit -n N",
        Remedy::IgnoreRobotsTag => "robots_tag=\"ignore\" downloads it all the same",
        Remedy::Replace => "overwrite=True replaces the file",
        Remedy::Rename => "or choose another path",
        Remedy::WriteToFile => "get writes to a file",
        Remedy::WriteElsewhere => "choose a path or dir that you may write to",
        Remedy::GiveStoreCredentials => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or choose a profile with s3={\"profile\": NAME}"
        }
        Remedy::OmitSignature => "or read a public bucket with s3={\"no_sign_request\": True}",
        Remedy::ChangeStoreCredentials => "or choose another profile with s3={\"profile\": NAME}",
        Remedy::PayForRequests => "or the requester has to pay (s3={\"request_payer\": True})",
        Remedy::ChangeEndpoint => "is the endpoint correct (s3={\"endpoint_url\": URL})?",
        _ => return None,
    };
    Some(Cow::Borrowed(text))
}

fn time_limit_words(limit: TransferTimeLimit) -> Option<&'static str> {
    Some(match limit {
        TransferTimeLimit::Connect => {
            "Client(connect_timeout=SECONDS) waits longer for a connection"
        }
        TransferTimeLimit::Response => {
            "Client(response_timeout=SECONDS) waits longer for the start of a response"
        }
        TransferTimeLimit::Stall => "Client(timeout=SECONDS) waits longer",
        TransferTimeLimit::RequestedWait => {
            "Client(max_wait=SECONDS) sets how long haul waits when a server asks for it"
        }
        TransferTimeLimit::MinRate => {
            "Client(min_rate=(BYTES, SECONDS)) sets which downloads are too slow, and 0 allows all"
        }
        TransferTimeLimit::MaxTime => "Client(max_time=SECONDS) gives each file more time",
    })
}
