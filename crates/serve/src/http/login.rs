//! The login button of a page that can be read without a login. Browsers ask for a password only
//! when a response challenges them, and a page that everybody may read does not.
//!
//! The button requests `/?login=FOLDER`. Without credentials the response is a challenge, with them
//! it redirects to the folder. The request is for the root, so that the browser sends the
//! credentials with all later requests (RFC 7617 2.2), but the permissions that count are those of
//! the folder: a user may have none for the root.

use http::header::{CACHE_CONTROL, HeaderValue, LOCATION};
use http::{Method, StatusCode, request};
use url::form_urlencoded;

use super::error_response::{ServeResponse, access_refused_response, empty_response};
use crate::access::{AccessControl, PermissionSource, Permissions};
use crate::{ObjectKey, RequestPath};

const LOGIN_PARAMETER: &str = "login";

/// The folder that the login button of its page names; `None` for all other requests. An invalid
/// folder becomes the root.
pub(super) fn requested_folder(head: &request::Parts, path: &RequestPath) -> Option<RequestPath> {
    if !path.is_folder || !path.key.is_root() || head.method != Method::GET {
        return None;
    }
    let query = head.uri.query()?.as_bytes();
    let (_, folder) = form_urlencoded::parse(query).find(|(name, _)| name == LOGIN_PARAMETER)?;
    let key = ObjectKey::parse(&folder).map_or_else(|_| ObjectKey::root(), |path| path.key);
    Some(RequestPath {
        key,
        is_folder: true,
    })
}

/// Challenges a client without credentials, and redirects all others to the folder.
pub(super) fn respond(
    access: &AccessControl,
    folder: &RequestPath,
    permissions: &Permissions,
) -> ServeResponse {
    let is_anonymous = permissions.source == PermissionSource::Anonymous;
    let challenge = access.login_challenge().filter(|_| is_anonymous);
    let mut response = match challenge {
        Some(challenge) => access_refused_response(&challenge),
        None => empty_response(StatusCode::SEE_OTHER),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if response.status() == StatusCode::SEE_OTHER {
        // Relative to the root, wherever a proxy has put that. The dot keeps it on this server.
        let path = folder.key.escaped();
        let slash = if folder.key.is_root() { "" } else { "/" };
        if let Ok(location) = HeaderValue::try_from(format!(".{path}{slash}")) {
            response.headers_mut().insert(LOCATION, location);
        }
    }
    response
}
