//! The text format of Prometheus (exposition format 0.0.4), and the sources that write it.

use std::fmt::{Display, Write};
use std::sync::Arc;

pub trait MetricSource: Send + Sync {
    /// Writes its families. It may read files of `/proc`, so it is called on a blocking thread.
    fn write_metrics(&self, out: &mut MetricsText);
}

/// The metrics of some sources as one text.
#[must_use]
pub fn render(sources: &[Arc<dyn MetricSource>]) -> String {
    let mut out = MetricsText::default();
    for source in sources {
        source.write_metrics(&mut out);
    }
    out.into_text()
}

/// A text of metrics that is being written.
#[derive(Debug, Default)]
pub struct MetricsText {
    text: String,
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Never falls; its name ends in `_total`.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Buckets, a sum and a count.
    Histogram,
}

/// The samples of one name.
#[derive(Debug)]
pub struct MetricFamily<'a> {
    text: &'a mut String,
    /// The common name; samples of a histogram add a suffix.
    name: &'a str,
}

impl MetricsText {
    /// Begins a family. Its name contains the unit, and no other source uses it.
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
        // Writing to a `String` never fails, here and below.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        MetricFamily {
            text: &mut self.text,
            name,
        }
    }

    /// Writes a family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

impl MetricFamily<'_> {
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.suffixed("", labels, value);
    }

    /// Writes a sample with a suffix to its name: `_bucket`, `_sum`, `_count`.
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

/// The value of a label, escaped.
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
        assert_eq!(out.into_text(), expected);
    }

    #[test]
    fn sources_are_written_in_their_order() {
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
