//! One load as text: what `ab` and `wrk` print, with the failures by their cause.

use super::quantity::{TimeUnit, mebibytes, show_duration, show_rate, three_digits};
use super::report_table::TextTone;
use super::terminal::TextPage;
use crate::Measurement;

/// A load with so many requests at a time, as text for a terminal of `width` columns.
#[must_use]
pub fn load_text(found: &Measurement, concurrency: u32, width: usize, has_color: bool) -> String {
    let mut page = TextPage::new(width, has_color);
    page.paragraph(&headline(found, concurrency), TextTone::Headline);
    page.blank();
    let took = show_duration(found.wall_s);
    let mut lines = vec![format!("requests: {} in {took}", found.successes)];
    if found.successes > 0 {
        let all = three_digits(mebibytes(found.bytes));
        let rate = three_digits(mebibytes(found.bytes) / found.wall_s);
        lines.push(format!(
            "transfer: {rate} MiB/s of bodies, {all} MiB in all"
        ));
    }
    lines.extend(latency_text(found));
    let connections = found.connections.unwrap_or_default();
    lines.push(format!("connections made: {connections}"));
    for line in lines {
        page.paragraph(&line, TextTone::Plain);
    }
    match found.failures() {
        0 => page.paragraph("failures: none", TextTone::Plain),
        failures => page.paragraph(&failures_text(found, failures), TextTone::Warning),
    }
    page.text
}

fn headline(found: &Measurement, concurrency: u32) -> String {
    let Some(latency) = found.latency.filter(|_| found.successes > 0) else {
        return "No request had a success.".to_owned();
    };
    let rate_per_second = show_rate(found.successes as f64, 0.0, found.wall_s);
    let rate = rate_per_second.trim_end_matches("/s");
    let unit = TimeUnit::for_times([latency.p50_s, latency.p99_s]);
    let [half, most] = [latency.p50_s, latency.p99_s].map(|time| unit.show(time));
    let symbol = unit.symbol;
    format!(
        "{rate} requests a second, {concurrency} at a time: half take at most {half} {symbol}, 99 % at most {most} {symbol}."
    )
}

fn latency_text(found: &Measurement) -> Option<String> {
    let latency = found.latency.filter(|_| found.successes > 0)?;
    let quantiles = [
        ("50 %", latency.p50_s),
        ("90 %", latency.p90_s),
        ("99 %", latency.p99_s),
        ("99.9 %", latency.p999_s),
        ("longest", latency.max_s),
    ];
    let unit = TimeUnit::for_times(quantiles.map(|(_, time)| time));
    let texts = quantiles.map(|(name, time)| format!("{name} {}", unit.show(time)));
    Some(format!("latency in {}: {}", unit.symbol, texts.join(", ")))
}

fn failures_text(found: &Measurement, failures: u64) -> String {
    let all = found.successes + failures;
    let part = 100.0 * failures as f64 / all as f64;
    let mut kinds: Vec<_> = found.errors.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{count} x {kind}"))
        .collect();
    format!(
        "failures: {failures} of {all} ({} %): {}",
        three_digits(part),
        kinds.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::LatencyQuantiles;

    fn measurement() -> Measurement {
        let mut found = Measurement {
            wall_s: 10.02,
            successes: 123_450,
            bytes: 1_234_500_000,
            connections: Some(50),
            latency: Some(LatencyQuantiles {
                p50_s: 0.00121,
                p90_s: 0.002,
                p99_s: 0.0034,
                p999_s: 0.0101,
                max_s: 0.0402,
            }),
            ..Measurement::default()
        };
        found.add_errors("timeout", 2);
        found.add_errors("status 503", 10);
        found
    }

    #[test]
    fn a_load_as_text() {
        let all = load_text(&measurement(), 50, 100, false);
        let narrow = load_text(&measurement(), 50, 40, false);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 40),
            "{narrow}"
        );
        let none = Measurement {
            successes: 0,
            latency: None,
            ..measurement()
        };
        insta::assert_snapshot!(format!(
            "{all}\n{narrow}\n{}",
            load_text(&none, 50, 100, false)
        ));
    }
}
