//! What was asked, and which requests a rule is for.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A request, and what became of it.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Its place among the requests for this path, from 0 on.
    pub number: usize,
    /// Which connection it came over, from 0 on.
    pub connection: usize,
    /// Connections that were open when its own was accepted, that one among them.
    pub open: usize,
    /// `GET`.
    pub method: String,
    /// The request line's target.
    pub target: String,
    /// Header fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The status that was answered; 0 for none.
    pub status: u16,
    /// Bytes of the body that went out.
    pub sent: u64,
}

impl Asked {
    /// A header field's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The path, without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The range asked for, half-open, within a length; `None` if there is none or it is not one that is understood.
    #[must_use]
    pub fn range(&self, length: u64) -> Option<Range<u64>> {
        let (first, last) = self
            .header("range")?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        if first.is_empty() {
            return Some(length.saturating_sub(last.parse().ok()?)..length);
        }
        let end = if last.is_empty() {
            length
        } else {
            last.parse::<u64>().ok()?.saturating_add(1).min(length)
        };
        Some(first.parse().ok()?..end)
    }

    /// Where the range asked for begins; 0 without one.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.range(u64::MAX).map_or(0, |range| range.start)
    }

    /// Reads a request's head.
    pub(crate) fn parse(head: &str) -> Option<Self> {
        let mut lines = head.lines();
        let mut words = lines.next()?.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        };
        Some(Self {
            method,
            target,
            headers: lines.filter_map(field).collect(),
            ..Self::default()
        })
    }
}

/// Which requests a rule is for.
#[derive(Clone)]
pub struct When(Arc<dyn Fn(&Asked) -> bool + Send + Sync>);

impl fmt::Debug for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("When")
    }
}

impl When {
    /// Those for which this is true.
    #[must_use]
    pub fn is(test: impl Fn(&Asked) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }

    /// All.
    #[must_use]
    pub fn always() -> Self {
        Self::is(|_| true)
    }

    /// The n-th for the path, from 0 on.
    #[must_use]
    pub fn nth(number: usize) -> Self {
        Self::is(move |asked| asked.number == number)
    }

    /// All after the first n for the path.
    #[must_use]
    pub fn after(count: usize) -> Self {
        Self::is(move |asked| asked.number >= count)
    }

    /// The first n for the path.
    #[must_use]
    pub fn first(count: usize) -> Self {
        Self::is(move |asked| asked.number < count)
    }

    /// Those for a range that does not begin at 0.
    #[must_use]
    pub fn mid_file() -> Self {
        Self::is(|asked| asked.start() > 0)
    }

    /// Those over connections that came when n were open already.
    #[must_use]
    pub fn crowded(connections: usize) -> Self {
        Self::is(move |asked| asked.open > connections)
    }

    pub(crate) fn fits(&self, asked: &Asked) -> bool {
        (self.0)(asked)
    }
}
