//! The Cache-Control of responses that are for one user only.

use http::HeaderValue;

/// The Cache-Control of a response that not everybody would get: like that of all others (`public_value`),
/// but shared caches must not store it (RFC 9111 5.2.2.7). Without a login in the request, as with a signed
/// URL, they would serve it to anybody.
#[must_use]
pub(super) fn private_cache_control(public_value: Option<&HeaderValue>) -> HeaderValue {
    let public_value = public_value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let concerns_sharing = |directive: &&str| {
        let name = directive.split('=').next().unwrap_or_default();
        ["public", "private", "s-maxage", ""]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other))
    };
    let kept = public_value
        .split(',')
        .map(str::trim)
        .filter(|directive| !concerns_sharing(directive));
    let text = std::iter::once("private")
        .chain(kept)
        .collect::<Vec<_>>()
        .join(", ");
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("private"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_for_one_user_is_not_for_shared_caches() {
        let private = |public_value: &'static str| {
            private_cache_control(Some(&HeaderValue::from_static(public_value)))
        };
        assert_eq!(private_cache_control(None), "private");
        assert_eq!(
            private("public, max-age=60, s-maxage=600"),
            "private, max-age=60"
        );
        assert_eq!(private("Private,no-cache"), "private, no-cache");
        assert_eq!(private("no-store"), "private, no-store");
    }
}
