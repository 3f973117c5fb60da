//! How `haul get` recognises the page of a folder that `haul serve` sent, so that it does not save the page as a file.

use http::HeaderMap;
use http::header::{CONTENT_TYPE, LINK};

/// The Link field (RFC 8288) of a folder's page: its entries are also available as a list for programs.
pub const FOLDER_LISTING_LINK: &str =
    "<?format=jsonl>; rel=\"alternate\"; type=\"application/x-ndjson\"";

/// Whether these are the header fields of a folder's page.
#[must_use]
pub fn is_folder_listing(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/html"))
        && headers
            .get_all(LINK)
            .iter()
            .any(|link| link == FOLDER_LISTING_LINK)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_pages_with_the_link_are_folder_listings() {
        let headers = |content_type, links: &[&'static str]| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            for link in links {
                headers.append(LINK, HeaderValue::from_static(link));
            }
            headers
        };
        let page = "text/html; charset=utf-8";
        assert!(is_folder_listing(&headers(page, &[FOLDER_LISTING_LINK])));
        let other = "<http://m.test/f>; rel=duplicate";
        assert!(is_folder_listing(&headers(
            page,
            &[other, FOLDER_LISTING_LINK]
        )));
        assert!(!is_folder_listing(&headers(page, &[])));
        assert!(!is_folder_listing(&headers(page, &[other])));
        assert!(!is_folder_listing(&headers(
            "application/json",
            &[FOLDER_LISTING_LINK]
        )));
        assert!(!is_folder_listing(&HeaderMap::new()));
    }
}
