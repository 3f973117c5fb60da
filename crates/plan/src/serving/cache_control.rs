//! What caches are told of an answer that not everybody would get.

use http::HeaderValue;

/// The Cache-Control of such an answer: what caches are told of all others (`said`), but not to share it (RFC 9111 5.2.2.7). Without a login
/// in the request, as with a signed URL, they would take it for anybody's.
#[must_use]
pub fn private_cache_control(said: Option<&HeaderValue>) -> HeaderValue {
    let said = said
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let is_shared = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default();
        ["public", "private", "s-maxage", ""]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other))
    };
    let rest = said
        .split(',')
        .map(str::trim)
        .filter(|part| !is_shared(part));
    let text = std::iter::once("private")
        .chain(rest)
        .collect::<Vec<_>>()
        .join(", ");
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("private"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_one_persons_is_not_for_shared_caches() {
        let told =
            |said: &'static str| private_cache_control(Some(&HeaderValue::from_static(said)));
        assert_eq!(private_cache_control(None), "private");
        assert_eq!(
            told("public, max-age=60, s-maxage=600"),
            "private, max-age=60"
        );
        assert_eq!(told("Private,no-cache"), "private, no-cache");
        assert_eq!(told("no-store"), "private, no-store");
    }
}
