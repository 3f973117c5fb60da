//! Where requests go: AWS by region, or an endpoint that the user named; bucket in the host name or in the path.

use url::Url;

use crate::address::is_host_label;

/// Whether the bucket stands in the host name or in the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressingStyle {
    /// In the host name at AWS where its name allows that, in the path of other endpoints.
    #[default]
    Auto,
    /// In the path.
    Path,
    /// In the host name.
    Virtual,
}

/// The endpoint of all buckets.
#[derive(Debug, Clone)]
pub(crate) struct S3Endpoint {
    /// The user's endpoint; `None` is AWS.
    pub(crate) url: Option<Url>,
    pub(crate) style: AddressingStyle,
}

impl S3Endpoint {
    /// The URL that a request for `path`, which is escaped and begins with a slash, goes to. An empty bucket is the service itself.
    pub(crate) fn request_url(
        &self,
        region: &str,
        bucket: &str,
        path: &str,
        query: Option<&str>,
    ) -> Result<Url, url::ParseError> {
        let base = match &self.url {
            Some(url) => url.clone(),
            None => aws_endpoint(region)?,
        };
        let host = base.host_str().unwrap_or_default();
        let is_virtual = !bucket.is_empty() && self.is_virtual(bucket, base.scheme() == "https");
        let prefix = base.path().trim_end_matches('/');
        let port = base
            .port()
            .map_or_else(String::new, |port| format!(":{port}"));
        let scheme = base.scheme();
        let mut text = match (is_virtual, bucket.is_empty()) {
            (true, _) => format!("{scheme}://{bucket}.{host}{port}{prefix}{path}"),
            (false, false) => format!("{scheme}://{host}{port}{prefix}/{bucket}{path}"),
            (false, true) => format!("{scheme}://{host}{port}{prefix}{path}"),
        };
        if let Some(query) = query {
            text.push('?');
            text.push_str(query);
        }
        Url::parse(&text)
    }

    fn is_virtual(&self, bucket: &str, is_tls: bool) -> bool {
        match self.style {
            AddressingStyle::Path => false,
            AddressingStyle::Virtual => true,
            AddressingStyle::Auto => self.url.is_none() && is_host_label(bucket, is_tls),
        }
    }
}

fn aws_endpoint(region: &str) -> Result<Url, url::ParseError> {
    let domain = if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    };
    Url::parse(&format!("https://s3.{region}.{domain}/"))
}

/// Whether a region's name may stand in a host name: it may come from a response.
pub(crate) fn is_region(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=40).contains(&name.len()) && name.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(endpoint: Option<&str>, style: AddressingStyle, bucket: &str) -> String {
        let endpoint = S3Endpoint {
            url: endpoint.map(|url| url.parse().unwrap()),
            style,
        };
        let url = endpoint.request_url("eu-west-1", bucket, "/a%20b//c", Some("x=1"));
        url.unwrap().into()
    }

    #[test]
    fn the_bucket_is_in_the_host_name_at_aws_and_in_the_path_elsewhere() {
        use AddressingStyle::{Auto, Path, Virtual};
        let own = Some("http://127.0.0.1:9000/base/");
        for (endpoint, style, bucket, expected) in [
            (
                None,
                Auto,
                "abc",
                "https://abc.s3.eu-west-1.amazonaws.com/a%20b//c?x=1",
            ),
            (
                None,
                Auto,
                "a.bc",
                "https://s3.eu-west-1.amazonaws.com/a.bc/a%20b//c?x=1",
            ),
            (
                None,
                Path,
                "abc",
                "https://s3.eu-west-1.amazonaws.com/abc/a%20b//c?x=1",
            ),
            (
                None,
                Auto,
                "",
                "https://s3.eu-west-1.amazonaws.com/a%20b//c?x=1",
            ),
            (
                own,
                Auto,
                "abc",
                "http://127.0.0.1:9000/base/abc/a%20b//c?x=1",
            ),
            (
                Some("http://s3.test"),
                Virtual,
                "abc",
                "http://abc.s3.test/a%20b//c?x=1",
            ),
        ] {
            assert_eq!(url(endpoint, style, bucket), expected);
        }
    }

    #[test]
    fn china_has_a_domain_of_its_own() {
        let url = aws_endpoint("cn-north-1").unwrap();
        assert_eq!(url.as_str(), "https://s3.cn-north-1.amazonaws.com.cn/");
    }

    #[test]
    fn f6_a_region_from_a_response_cannot_name_a_host() {
        assert!(is_region("us-east-1"));
        for name in ["", "evil.test/", "a.b", "x@y", "A"] {
            assert!(!is_region(name), "{name}");
        }
    }
}
