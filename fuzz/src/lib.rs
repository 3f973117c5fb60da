//! A target for each parser that reads bytes of a peer or of a file.
//!
//! A target takes any bytes. It panics if the parser does, or if what the parser returns breaks a promise: a range lies within its file, a
//! name is one component, what was printed is parsed as the same, the pieces in which bytes arrive make no difference. libFuzzer runs a
//! target under `cargo fuzz` (README.md), and `tests/kept.rs` runs all of them over the kept inputs in `corpus/` and mutations of those.
//!
//! Targets are grouped by who sends the bytes: `responses` (origins and proxies), `requests` (clients of `haul serve` and `haul tunnel`), `s3`
//! (both sides of S3), `files` (lists, manifests, journals), `names` (what URLs, lists and users name).

mod files;
mod input;
mod names;
mod requests;
mod responses;
mod s3;

pub type FuzzTarget = fn(&[u8]);

/// All targets by name, which is also the name of the target's directory in `corpus/`.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    ("access", requests::access),
    ("aws_chunked", s3::aws_chunked),
    ("byte_ranges", requests::byte_ranges),
    ("challenges", responses::challenges),
    ("checksum_list", files::checksum_list),
    ("chunked_body", responses::chunked_body),
    ("connect_response", responses::connect_response),
    ("content_disposition", responses::content_disposition),
    ("content_range", responses::content_range),
    ("forwarded_request", requests::forwarded_request),
    ("glob", names::glob),
    ("journal", files::journal),
    ("link_header", responses::link_header),
    ("list", files::list),
    ("manifest", files::manifest),
    ("metalink", files::metalink),
    ("multipart_form", requests::multipart_form),
    ("netrc", files::netrc),
    ("object_key", requests::object_key),
    ("path_layout", names::path_layout),
    ("relative_path", names::relative_path),
    ("request_head", requests::request_head),
    ("requested_wait", responses::requested_wait),
    ("response_head", responses::response_head),
    ("s3_address", names::s3_address),
    ("s3_request", s3::request),
    ("s3_request_xml", s3::request_xml),
    ("s3_response_xml", s3::response_xml),
    ("socks_client", requests::socks_client),
    ("socks_proxy", responses::socks_proxy),
    ("upload_journal", files::upload_journal),
    ("validators", responses::validators),
];

/// Runs the target with this name.
///
/// # Panics
/// There is no such target, or it fails.
pub fn run(name: &str, data: &[u8]) {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = found.unwrap_or_else(|| panic!("no target is called {name}"));
    target(data);
}
