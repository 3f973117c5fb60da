//! Tests of whole decisions, as a server asks for them.
//!
//! `rights`: what rules, tokens and signatures permit. `logins`: passwords that must be hashed, the
//! cost, the queue. `secrets`: nothing is granted without a secret, and no secret is shown.

mod logins;
mod rights;
mod secrets;

use std::path::Path;
use std::time::{Duration, SystemTime};

use argon2::password_hash::{PasswordHasher as _, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use super::*;
use crate::{ObjectKey, RequestPath};

/// The cheapest argon2 hash.
pub(super) fn argon2_of(password: &str) -> String {
    let params = Params::new(8, 1, 1, None).expect("parameters");
    let salt = SaltString::encode_b64(b"of the sea").expect("a salt");
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = hasher.hash_password(password.as_bytes(), &salt);
    hash.expect("a hash").to_string()
}

/// The cheapest bcrypt hash.
pub(super) fn bcrypt_of(password: &str) -> String {
    bcrypt::hash_with_salt(password, 4, [7; 16])
        .expect("a hash")
        .to_string()
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

fn request_path(path: &str) -> RequestPath {
    ObjectKey::parse(path).expect("a key")
}

fn key(path: &str) -> ObjectKey {
    request_path(path).key
}

fn basic(user: &str, password: &str) -> Option<String> {
    Some(format!(
        "Basic {}",
        STANDARD.encode(format!("{user}:{password}"))
    ))
}

fn bearer(token: &str) -> Option<String> {
    Some(format!("Bearer {token}"))
}

/// Authorizes a request, given as its method and path with query, and its Authorization field.
fn authorize(
    access: &AccessControl,
    line: &str,
    authorization: Option<String>,
    again: Option<&LoginResult>,
) -> AccessDecision {
    let (method, target) = line.split_once(' ').expect("a line");
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let fields = authorization.map(|text| {
        (
            AUTHORIZATION,
            HeaderValue::from_str(&text).expect("a value"),
        )
    });
    let request = AccessRequest {
        method: &method.parse().expect("a method"),
        path: &request_path(path),
        query,
        headers: &HeaderMap::from_iter(fields),
        now: at(0),
        peer: Some([192, 0, 2, 1].into()),
    };
    match again {
        Some(login_result) => access.authorize_with_result(&request, login_result),
        None => access.authorize(&request),
    }
}

fn status(access: &AccessControl, line: &str, authorization: Option<String>) -> u16 {
    match authorize(access, line, authorization, None) {
        AccessDecision::Granted(_) => 200,
        AccessDecision::Refused(refusal) => refusal.status().as_u16(),
        AccessDecision::NeedsHashing(_) => 0,
    }
}

fn permissions_for(
    access: &AccessControl,
    line: &str,
    authorization: Option<String>,
) -> Permissions {
    match authorize(access, line, authorization, None) {
        AccessDecision::Granted(permissions) => permissions,
        other => panic!("{line}: {other:?}"),
    }
}

fn pending_login(
    access: &AccessControl,
    line: &str,
    authorization: Option<String>,
) -> PendingLogin {
    match authorize(access, line, authorization, None) {
        AccessDecision::NeedsHashing(pending) => pending,
        other => panic!("{line}: {other:?}"),
    }
}

fn rule_options(rules: &[&str]) -> AccessOptions {
    AccessOptions {
        users: rules
            .iter()
            .map(|rule| rule.parse().expect("a rule"))
            .collect(),
        ..AccessOptions::default()
    }
}

fn hashed_options(lines: &[String]) -> AccessOptions {
    let file = AuthFile::parse(Path::new("logins"), &lines.join("\n")).expect("a file");
    AccessOptions {
        auth_files: vec![file],
        ..AccessOptions::default()
    }
}

fn access(options: AccessOptions) -> AccessControl {
    AccessControl::new(options).expect("rules that agree")
}
