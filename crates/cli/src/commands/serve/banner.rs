//! The start message of `haul serve`: the folder, the addresses, access, and warnings.

use std::path::Path;
use std::time::SystemTime;

use haul_serve::store::FileStore;
use haul_serve::tls::ServerTls;
use haul_service::listen::BoundAddress;

use super::listeners::ServeListeners;
use crate::commands::service::addresses::{is_public, urls};
use crate::commands::service::banner::Banner;
use crate::settings::ServeSettings;

pub(super) fn banner(
    settings: &ServeSettings,
    listeners: &ServeListeners,
    store: &FileStore,
    admin: &[BoundAddress],
) -> Banner {
    if settings.quiet {
        // Nobody could use the store without its keys.
        return Banner {
            lines: temporary_store_lines(settings, listeners),
            warnings: Vec::new(),
        };
    }
    let mut banner = Banner {
        lines: lines(settings, listeners),
        warnings: settings.warnings.clone(),
    };
    banner.warnings.extend(access_warnings(settings, listeners));
    banner.add_admin(admin);
    let removed = store.removed_leftovers();
    if removed > 0 {
        let plural = if removed == 1 { "" } else { "s" };
        let line = format!("removed {removed} unfinished upload{plural} of an earlier run");
        banner.lines.push(line);
    }
    if let Some(tls) = &listeners.tls {
        let invalid = tls.certificates.not_valid_at(SystemTime::now());
        banner
            .warnings
            .extend(invalid.iter().map(ToString::to_string));
    }
    banner.add_unused_sockets(&listeners.unused_sockets, "-l systemd");
    banner
}

fn lines(settings: &ServeSettings, listeners: &ServeListeners) -> Vec<String> {
    let folder = absolute(&settings.folder);
    let mode = if settings.store.writable {
        "writable"
    } else {
        "read-only"
    };
    let mut lines = vec![format!("serving {folder}, {mode}, {}", who(settings))];
    if settings.store.discard_uploads {
        lines.push("uploads are discarded (--sink null)".to_owned());
    }
    for address in listeners.addresses() {
        let urls = urls(&address, listeners.tls.is_some()).into_iter();
        lines.extend(urls.map(|url| format!("listening on {url}")));
    }
    let keys = temporary_store_lines(settings, listeners);
    if !keys.is_empty() {
        lines.push("the folder is temporary: haul removes it at the end".to_owned());
    }
    lines.extend(keys);
    let is_self_signed = |tls: &&ServerTls| tls.self_signed_pem.is_some();
    if let Some(tls) = listeners.tls.as_ref().filter(is_self_signed)
        && let Some(fingerprint) = tls.certificates.fingerprints().first()
    {
        lines.push(format!("certificate's SHA-256 fingerprint {fingerprint}"));
    }
    lines
}

/// Who has access.
fn who(settings: &ServeSettings) -> String {
    let Some(s3) = &settings.s3 else {
        return settings.access.to_string();
    };
    let plural = if s3.keys == 1 { "" } else { "s" };
    let keys = format!("by S3 with {} key{plural}", s3.keys);
    if s3.is_http_on {
        format!("{}, and {keys}", settings.access)
    } else {
        format!("only {keys}")
    }
}

/// How to use a temporary store: its keys and its address.
fn temporary_store_lines(settings: &ServeSettings, listeners: &ServeListeners) -> Vec<String> {
    let s3 = settings.s3.as_ref();
    let Some(store) = s3.and_then(|s3| s3.temporary.as_ref()) else {
        return Vec::new();
    };
    let is_tls = listeners.tls.is_some();
    let endpoint = listeners
        .addresses()
        .iter()
        .flat_map(|address| urls(address, is_tls))
        .next()
        .map_or_else(String::new, |url| url.trim_end_matches('/').to_owned());
    vec![
        format!(
            "export AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={}",
            store.access_key, store.secret
        ),
        format!("aws --endpoint-url {endpoint} s3 mb s3://test"),
    ]
}

/// Warnings about what others on the network could do or see.
fn access_warnings(settings: &ServeSettings, listeners: &ServeListeners) -> Vec<String> {
    let addresses = listeners.addresses();
    let public: Vec<String> = addresses
        .iter()
        .filter(|local| is_public(local))
        .map(ToString::to_string)
        .collect();
    let mut warnings = Vec::new();
    if public.is_empty() {
        return warnings;
    }
    let public = public.join(", ");
    let is_http_on = settings.s3.as_ref().is_none_or(|s3| s3.is_http_on);
    if is_http_on && settings.store.writable && settings.access.allows_anonymous_writes() {
        warnings.push(format!(
            "everybody who can reach {public} can upload and delete files: require a login with --auth USER:PASSWORD:rw"
        ));
    }
    if settings.access.has_secrets() && listeners.tls.is_none() {
        warnings.push(format!(
            "passwords and tokens are sent unencrypted to {public}: use TLS with --cert and --key, or --self-signed"
        ));
    }
    warnings
}

fn absolute(folder: &Path) -> String {
    let path = folder.canonicalize();
    path.as_deref().unwrap_or(folder).display().to_string()
}
