//! Parses responses strictly (RFC 9112).

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl TestResponse {
    /// The value of the header with this name, which must not appear twice.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(field, _)| field == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(
            found.next().is_none(),
            "{name} appears twice: {:?}",
            self.fields
        );
        value
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The ETag, which must be present.
    #[track_caller]
    pub(crate) fn etag(&self) -> &str {
        self.header("etag").expect("an entity tag")
    }
}

/// The position of a substring.
pub(crate) fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Parses a head without its empty line; the body is read later.
#[track_caller]
pub(super) fn parse(head: &[u8]) -> TestResponse {
    let head = std::str::from_utf8(head).expect("the response head is UTF-8");
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .unwrap()
        .strip_prefix("HTTP/1.1 ")
        .expect("HTTP/1.1");
    assert_eq!(status.as_bytes().get(3), Some(&b' '), "{status}");
    let fields = lines.map(|line| {
        let (name, value) = line.split_once(": ").expect("a name and a value");
        assert!(!name.contains(' ') && value.trim() == value, "{line:?}");
        (name.to_ascii_lowercase(), value.to_owned())
    });
    TestResponse {
        status: status[..3].parse().unwrap(),
        fields: fields.collect(),
        body: Vec::new(),
    }
}
