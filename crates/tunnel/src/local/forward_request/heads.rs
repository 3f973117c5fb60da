//! How a request goes on: its head in the words of an origin, and in those of a proxy.

use http::HeaderValue;

use super::ForwardRequest;

impl ForwardRequest {
    /// Its head for the origin.
    pub(crate) fn for_origin(&self) -> Vec<u8> {
        self.head(&self.path, None)
    }

    /// Its head for a proxy, with what that wants to see.
    pub(crate) fn for_proxy(&self, authorization: Option<&HeaderValue>) -> Vec<u8> {
        self.head(&self.absolute(), authorization)
    }

    /// Without credentials, which are no part of what is asked for, and without a fragment.
    pub(super) fn absolute(&self) -> String {
        match self.path.as_str() {
            "*" => format!("http://{}", self.host),
            path => format!("http://{}{path}", self.host),
        }
    }

    fn head(&self, target: &str, authorization: Option<&HeaderValue>) -> Vec<u8> {
        let host = &self.host;
        let minor = self.minor;
        let mut head = format!(
            "{} {target} HTTP/1.{minor}\r\nHost: {host}\r\n",
            self.method
        )
        .into_bytes();
        let own = authorization.map(|value| ("Proxy-Authorization", value.as_bytes()));
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()));
        for (name, value) in fields.chain(own).chain([("Connection", &b"close"[..])]) {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::request;
    use super::*;
    use crate::relay::BodyFraming;

    const POST: &str = "POST http://a.test:81/p?q#f HTTP/1.1\r\nHost: other.test\r\nX-One: 1\r\nConnection: x-two, keep-alive\r\nX-Two: 2\r\n\
        Proxy-Authorization: Basic x\r\nContent-Length: 3\r\nTE: trailers\r\n\r\n";

    #[test]
    fn the_origin_gets_what_is_for_it() {
        let head = String::from_utf8(request(POST).for_origin()).unwrap();
        let expected = "POST /p?q HTTP/1.1\r\nHost: a.test:81\r\nX-One: 1\r\nContent-Length: 3\r\nConnection: close\r\n\r\n";
        assert_eq!(head, expected);
    }

    #[test]
    fn a_proxy_gets_the_whole_url_and_its_login() {
        let authorization = HeaderValue::from_static("Basic y");
        let request = request(POST);
        let head = String::from_utf8(request.for_proxy(Some(&authorization))).unwrap();
        assert!(
            head.starts_with("POST http://a.test:81/p?q HTTP/1.1\r\nHost: a.test:81\r\n"),
            "{head}"
        );
        assert!(
            head.contains("\r\nProxy-Authorization: Basic y\r\n") && !head.contains("Basic x"),
            "{head}"
        );
        assert_eq!(request.body(), BodyFraming::bytes(3));
        let probe = String::from_utf8(request.probe().for_proxy(None)).unwrap();
        assert_eq!(
            probe,
            "HEAD http://a.test:81/p?q HTTP/1.1\r\nHost: a.test:81\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn a_path_goes_on_as_it_was_written() {
        for (url, path, absolute) in [
            (
                "http://a.test/b/../c//%2e%2E/{d}|?q='e'&f",
                "/b/../c//%2e%2E/{d}|?q='e'&f",
                "http://a.test/b/../c//%2e%2E/{d}|?q='e'&f",
            ),
            ("HTTP://A.test", "/", "http://a.test/"),
            ("http://a.test?q", "/?q", "http://a.test/?q"),
            ("http://a.test/x#y", "/x", "http://a.test/x"),
            ("http://me:secret@a.test:81/x", "/x", "http://a.test:81/x"),
        ] {
            let request = request(&format!("GET {url} HTTP/1.1\r\n\r\n"));
            let head = String::from_utf8(request.for_origin()).unwrap();
            assert!(
                head.starts_with(&format!("GET {path} HTTP/1.1\r\n")),
                "{head}"
            );
            assert_eq!(request.line(), ("GET", absolute.to_owned()));
        }
        let options = request("OPTIONS http://a.test HTTP/1.1\r\n\r\n");
        assert!(options.for_origin().starts_with(b"OPTIONS * HTTP/1.1\r\n"));
        assert!(
            options
                .for_proxy(None)
                .starts_with(b"OPTIONS http://a.test HTTP/1.1\r\n")
        );
    }
}
