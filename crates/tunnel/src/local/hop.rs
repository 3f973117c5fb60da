//! Which fields of a message are about one connection, and so stay here when the message goes on (RFC 9110 section 7.6.1).

/// Fields that say how long a body is: those are no affair of one connection, whoever says so.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// Fields that are about one connection. A client's login for its proxy is for us, who ask for none, and for nobody behind us.
const FIELDS: [&str; 7] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "upgrade",
];

/// The fields of one message that are about its connection.
#[derive(Debug)]
pub(super) struct HopByHopFields {
    /// Those that Connection names.
    named: Vec<String>,
}

impl HopByHopFields {
    /// Those of a message with these fields.
    pub(super) fn of(fields: &[httparse::Header<'_>]) -> Self {
        let named = values(fields, "connection")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
            .filter(|name| !FRAMING.contains(&name.as_str()));
        Self {
            named: named.collect(),
        }
    }

    /// Whether a field goes no further.
    pub(super) fn is_ours(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        FIELDS.contains(&name.as_str()) || self.named.contains(&name)
    }
}

/// The values of all fields of a name.
pub(super) fn values<'a>(
    fields: &'a [httparse::Header<'_>],
    name: &'a str,
) -> impl Iterator<Item = &'a [u8]> {
    let named = fields
        .iter()
        .filter(move |field| field.name.eq_ignore_ascii_case(name));
    named.map(|field| field.value.trim_ascii())
}
