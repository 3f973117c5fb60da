//! The text that Prometheus reads (exposition format 0.0.4), and who has something to tell in it.

use std::fmt::{Display, Write};
use std::sync::Arc;

/// Something that has numbers to tell.
pub trait MetricSource: Send + Sync {
    /// Writes its families. It may read a file or two of `/proc`, so it is not called on a reactor.
    fn write_metrics(&self, out: &mut MetricsText);
}

/// All that some sources tell, as one text.
#[must_use]
pub fn render(sources: &[Arc<dyn MetricSource>]) -> String {
    let mut out = MetricsText::default();
    for source in sources {
        source.write_metrics(&mut out);
    }
    out.into_text()
}

/// The text while it is being written.
#[derive(Debug, Default)]
pub struct MetricsText {
    /// Whole lines.
    text: String,
}

/// What the numbers of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only ever rises; its name ends in `_total`.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Buckets, a sum and a count.
    Histogram,
}

/// Samples of one name.
#[derive(Debug)]
pub struct MetricFamily<'a> {
    /// Where they are written.
    text: &'a mut String,
    /// What they have in common; a histogram's have a suffix.
    name: &'a str,
}

impl MetricsText {
    /// Begins a family. Its name has its unit in it and is told by nobody else.
    pub fn family<'a>(
        &'a mut self,
        name: &'a str,
        kind: MetricKind,
        help: &str,
    ) -> MetricFamily<'a> {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        // A `String` takes all that is written to it: here and below there is no error to see.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        MetricFamily {
            text: &mut self.text,
            name,
        }
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// What has been written so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The whole.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

impl MetricFamily<'_> {
    /// One sample.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.suffixed("", labels, value);
    }

    /// One sample whose name goes on: `_bucket`, `_sum`, `_count`.
    pub fn suffixed(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }
}

/// A label's value as it stands between quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_its_help_its_type_and_its_samples() {
        let mut out = MetricsText::default();
        let mut family = out.family("haul_things_total", MetricKind::Counter, "Things\\\nseen.");
        family.sample(&[], 1);
        family.sample(&[("kind", "a\"b\\c\nd"), ("code", "2xx")], 2.5);
        out.single("haul_now", MetricKind::Gauge, "Now.", 0.000_05);
        let expected = concat!(
            "# HELP haul_things_total Things\\\\\\nseen.\n",
            "# TYPE haul_things_total counter\n",
            "haul_things_total 1\n",
            "haul_things_total{kind=\"a\\\"b\\\\c\\nd\",code=\"2xx\"} 2.5\n",
            "# HELP haul_now Now.\n",
            "# TYPE haul_now gauge\n",
            "haul_now 0.00005\n",
        );
        assert_eq!(out.text(), expected);
    }

    #[test]
    fn sources_are_told_one_after_the_other() {
        struct Named(&'static str);
        impl MetricSource for Named {
            fn write_metrics(&self, out: &mut MetricsText) {
                out.single(self.0, MetricKind::Gauge, "One.", 1);
            }
        }
        let text = render(&[Arc::new(Named("a")), Arc::new(Named("b"))]);
        assert_eq!(
            text,
            "# HELP a One.\n# TYPE a gauge\na 1\n# HELP b One.\n# TYPE b gauge\nb 1\n"
        );
    }
}
