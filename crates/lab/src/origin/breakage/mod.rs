//! Rules that tests use again and again: each a change to a [`OriginReply`](super::OriginReply), to be given to
//! [`OriginResource::rule`](super::OriginResource::rule).
//!
//! A row in brackets is the corner case that the rule plays. Which requests it is for says the [`RequestMatcher`](super::RequestMatcher) beside it;
//! rules add up, in the order they were given.

mod auth;
mod bodies;
mod digests;
mod heads;
mod ranges;
mod statuses;

pub use auth::{OriginLogin, bearer};
pub use bodies::{
    chunked, close_after, drip, encoded, gzip, longer, reset_after, shorter, stall_after,
    until_close,
};
pub use digests::{DigestHeader, digest, wrong_digest};
pub use heads::{
    bad_name, disposition, endless_head, folded, header, http10, huge_head, interim, lower_case,
    nul_in_head, silent_for, split_head, trickled_head,
};
pub use ranges::{
    content_range, content_range_of, growing, ignore_range, instead, misread_if_range, multipart,
    no_content_range,
};
pub use statuses::{
    busy, error_page, expiring_token, redirect, refuse, status, status_with, with_token,
};
