//! The words of the command for what a user can do about an error: its flags.

use std::borrow::Cow;

use haul_net::{Kind, TlsProblem};
use haul_plan::{Remedy, TlsEndpoint, TransferTimeLimit, remedies_text};
use haul_transfer::GetError;
use haul_transfer::bucket::BucketError;
use haul_transfer::put::PutError;

/// Commands with the same flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandGroup {
    Get,
    /// `put`, `sync`, `cp`, `rm` and `ls`.
    Store,
    Tunnel,
}

/// What the user can do about a failed download.
pub(crate) fn error_hint(error: &GetError) -> Option<String> {
    hint_text(&error.remedies(), CommandGroup::Get)
}

/// What the user of downloads can do, by the remedies of a row.
pub(crate) fn remedies_hint(remedies: &[Remedy]) -> Option<String> {
    hint_text(remedies, CommandGroup::Get)
}

/// What the user can do about a failed upload.
pub(crate) fn upload_hint(error: &PutError) -> Option<String> {
    hint_text(&error.remedies(), CommandGroup::Store)
}

/// What the user can do about an operation on a bucket that ended.
pub(crate) fn bucket_hint(error: &BucketError) -> Option<String> {
    match error {
        BucketError::Interrupted => None,
        BucketError::Store(error) => hint_text(&error.remedies(), CommandGroup::Store),
    }
}

/// What the user of a tunnel can do about a target that cannot be reached. A connection of a tunnel only has the proxy to begin with.
pub(crate) fn tunnel_hint(error: &haul_net::Error) -> Option<String> {
    let is_of_proxy = error.proxy().is_some();
    match error.kind() {
        Kind::Closed | Kind::Protocol if is_of_proxy => {
            let text = "is this an HTTP proxy, and its port correct? write a SOCKS proxy with socks5://, a proxy over TLS with https://";
            Some(text.to_owned())
        }
        Kind::Tls(TlsProblem::NotTls | TlsProblem::PlainHttp) if !is_of_proxy => {
            Some("the target does not speak TLS on this port: leave out --target-tls".to_owned())
        }
        _ => hint_text(&error.remedies(), CommandGroup::Tunnel),
    }
}

fn hint_text(remedies: &[Remedy], command: CommandGroup) -> Option<String> {
    remedies_text(remedies, |remedy| words(remedy, command))
}

fn words(remedy: &Remedy, command: CommandGroup) -> Option<Cow<'_, str>> {
    let text = match remedy {
        Remedy::Advice(text) => return Some(Cow::Borrowed(text)),
        Remedy::DownloadFolder(list) => {
            let text = format!(
                "haul get -o - '{list}' | haul get -i - downloads its files; -o FILE saves the page"
            );
            return Some(text.into());
        }
        Remedy::SaveInto(directory) => {
            return Some(format!("-d {} puts the file into it", directory.display()).into());
        }
        Remedy::ExtendTimeLimit(limit) => time_limit_words(*limit),
        Remedy::Resume if command == CommandGroup::Store => "the same command sends the rest",
        Remedy::Resume => "the same command resumes the download",
        Remedy::AbortUpload => {
            "haul put --abort with the same arguments removes the parts that were sent"
        }
        Remedy::AllowRetries => "or allow more retries with --retries N",
        Remedy::LogIn => "give credentials with -u USER, --bearer or --netrc",
        Remedy::UseSeveralConnections => "-x N uses several all the same",
        Remedy::AllowOpenFiles if command == CommandGroup::Get => {
            "too many open files: raise the limit with ulimit -n N, or use a lower -x N or fewer URLs at once"
        }
        Remedy::AllowOpenFiles => "too many open files: raise the limit with ulimit -n N",
        Remedy::Decode => "--decode decodes it",
        Remedy::StoreEncoded => "without --decode it is stored as sent",
        Remedy::IgnoreRobotsTag => "--robots-tag ignore downloads it all the same",
        Remedy::AllowDowngrade => "--allow-downgrade follows this redirect",
        Remedy::FollowMoreRedirects => "--max-redirs N follows more",
        Remedy::Replace => "--overwrite replaces the file",
        Remedy::ReplaceIfOlder => "--update replaces it only if the origin has a newer one",
        Remedy::Rename => "or choose another name with -o",
        Remedy::WriteToFile => "-o FILE writes to a file",
        Remedy::WriteElsewhere => "choose a place you may write to with -o or -d",
        Remedy::GiveStoreCredentials => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, choose a profile with --profile"
        }
        Remedy::OmitSignature => "or read a public bucket with --no-sign-request",
        Remedy::ChangeStoreCredentials => "or choose another --profile",
        Remedy::PayForRequests => "or the requester has to pay (--request-payer)",
        Remedy::ChangeEndpoint => "is the endpoint correct (--endpoint-url)?",
        Remedy::ListObjects => "haul ls s3://BUCKET/PREFIX lists the objects",
        Remedy::ListBuckets => "haul ls lists the buckets",
        Remedy::AllowWriting => "haul serve accepts files with -w",
        Remedy::GiveExpectedSize => "--expected-size SIZE makes the parts large enough",
        _ => return connection_words(remedy, command).map(Cow::Borrowed),
    };
    Some(Cow::Borrowed(text))
}

/// What is done about a connection.
fn connection_words(remedy: &Remedy, command: CommandGroup) -> Option<&'static str> {
    let is_tunnel = command == CommandGroup::Tunnel;
    Some(match remedy {
        Remedy::LogInToProxy if is_tunnel => {
            "log in with -U USER; see haul tunnel --help for other ways"
        }
        Remedy::LogInToProxy => "log in with -U USER; see haul get --help for other ways",
        Remedy::ChangeProxy if is_tunnel => "use another proxy with -p PROXY, or none with -p ''",
        Remedy::ChangeProxy => "use another proxy with --proxy URL, or none with --proxy ''",
        Remedy::BypassProxy if is_tunnel => return None,
        Remedy::BypassProxy => "--proxy '' bypasses the proxy",
        Remedy::UseProxy if is_tunnel => "is a proxy needed (-p)?",
        Remedy::UseProxy => "is a proxy needed (--proxy)?",
        Remedy::ConnectDirectly if is_tunnel => {
            "--direct-fallback connects directly when it is down"
        }
        Remedy::SetAddress => "or set its address with --resolve HOST:PORT:ADDRESS",
        Remedy::AllowBothFamilies { only_ipv4: true } => "leave out -4/--ipv4",
        Remedy::AllowBothFamilies { .. } => "leave out -6/--ipv6",
        Remedy::UseHttp1 => "use --http1.1",
        Remedy::TrustAuthority(TlsEndpoint::Target) => {
            "trust your own authority or a self-signed certificate with --cacert FILE"
        }
        Remedy::TrustAuthority(TlsEndpoint::Proxy) => {
            "trust your own authority with --proxy-cacert FILE"
        }
        Remedy::SkipVerification(TlsEndpoint::Target) => {
            "continue at your own risk with --insecure"
        }
        Remedy::SkipVerification(TlsEndpoint::Proxy) => {
            "continue at your own risk with --proxy-insecure"
        }
        Remedy::NameTrustedCertificates(TlsEndpoint::Target) => {
            "name the trusted certificates with SSL_CERT_FILE or --cacert"
        }
        Remedy::NameTrustedCertificates(TlsEndpoint::Proxy) => {
            "name the trusted certificates with SSL_CERT_FILE or --proxy-cacert"
        }
        Remedy::GiveClientCertificate(TlsEndpoint::Target) => {
            "give the server a client certificate with --cert and --key"
        }
        Remedy::GiveClientCertificate(TlsEndpoint::Proxy) => {
            "give the proxy a client certificate with --proxy-cert and --proxy-key"
        }
        _ => return None,
    })
}

fn time_limit_words(limit: TransferTimeLimit) -> &'static str {
    match limit {
        TransferTimeLimit::Connect => "--connect-timeout TIME waits longer",
        TransferTimeLimit::Response => {
            "--response-timeout TIME waits longer for the start of a response"
        }
        TransferTimeLimit::Stall => "--stall-timeout TIME waits longer in the middle of a body",
        TransferTimeLimit::RequestedWait => {
            "--max-wait TIME sets how long haul waits when a server asks for it"
        }
        TransferTimeLimit::MinRate => {
            "--min-rate RATE:TIME sets which downloads are too slow, and 0 allows all"
        }
        TransferTimeLimit::MaxTime => "--max-time TIME gives each file more time",
    }
}
