//! What an origin serves: content, header fields, and the rules that change its responses.

use std::fmt;
use std::sync::Arc;

use super::{OriginResponse, RecordedRequest, RequestMatcher};
use crate::content::ResourceContent;

/// The effect of a rule.
type ResponseChange = Arc<dyn Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync>;

/// Changes the responses to some requests.
#[derive(Clone)]
pub(crate) struct ResponseRule {
    when: RequestMatcher,
    change: ResponseChange,
}

impl ResponseRule {
    pub(crate) fn new(
        when: RequestMatcher,
        change: impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync + 'static,
    ) -> Self {
        Self {
            when,
            change: Arc::new(change),
        }
    }

    pub(crate) fn apply(&self, request: &RecordedRequest, response: &mut OriginResponse) {
        if self.when.matches(request) {
            (self.change)(request, response);
        }
    }
}

impl fmt::Debug for ResponseRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rule")
    }
}

/// Something that an origin serves.
#[derive(Debug, Clone)]
pub struct OriginResource {
    pub(crate) content: ResourceContent,
    /// Header fields of every response with content. Names are written as they are here.
    pub(crate) headers: Vec<(String, String)>,
    /// The rules, in the order in which they apply.
    pub(crate) rules: Vec<ResponseRule>,
}

impl OriginResource {
    /// A resource with a strong entity tag.
    #[must_use]
    pub fn new(content: ResourceContent) -> Self {
        Self::without_validator(content).etag("\"v1\"")
    }

    /// One without any validator (row A7).
    #[must_use]
    pub fn without_validator(content: ResourceContent) -> Self {
        Self {
            content,
            headers: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// Sets its entity tag, as it is written on the wire.
    #[must_use]
    pub fn etag(self, tag: &str) -> Self {
        self.header("ETag", tag)
    }

    #[must_use]
    pub fn last_modified(self, date: &str) -> Self {
        self.header("Last-Modified", date)
    }

    /// Sets a header field of every response with content.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a rule. Rules apply in the order in which they were added.
    #[must_use]
    pub fn rule(
        mut self,
        when: RequestMatcher,
        change: impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync + 'static,
    ) -> Self {
        self.rules.push(ResponseRule::new(when, change));
        self
    }

    pub(crate) fn find_header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}
