//! The rules that tests use most. Each changes an [`OriginResponse`](super::OriginResponse), and is passed to
//! [`OriginResource::rule`](super::OriginResource::rule).
//!
//! A row in parentheses is the corner case that the rule causes. The [`RequestMatcher`](super::RequestMatcher) next to a rule selects the
//! requests. Several rules apply in the order in which they were added.

mod auth;
mod bodies;
mod digests;
mod heads;
mod ranges;
mod statuses;

pub use auth::{RequiredLogin, require_bearer_token};
pub use bodies::{
    body_rate, chunked, close_after, close_delimited, content_encoding, extra_bytes, gzip,
    overstated_length, reset_after, stall_after,
};
pub use digests::{DigestHeader, right_digest, wrong_digest};
pub use heads::{
    content_disposition, delay_response, endless_head, folded_header, header, http10, huge_header,
    interim_response, invalid_header_name, lower_case_names, nul_in_header, response_splitting,
    trickled_head,
};
pub use ranges::{
    content_range, content_range_from, growing_resource, if_range_never_matches, ignore_range,
    multipart_byteranges, no_content_range, serve_other,
};
pub use statuses::{
    error_page, expiring_token, overloaded, redirect, redirect_with_token, reset_connection,
    status, status_with_header,
};
