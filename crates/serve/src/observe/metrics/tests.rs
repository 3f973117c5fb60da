//! Metrics are exported under stable names.

use super::*;

fn value(text: &str, sample: &str) -> Option<String> {
    let line = text.lines().find(|line| {
        line.rsplit_once(' ')
            .is_some_and(|(name, _)| name == sample)
    })?;
    line.rsplit_once(' ').map(|(_, value)| value.to_owned())
}

fn text(metrics: &ServeMetrics) -> String {
    let mut out = MetricsText::default();
    metrics.write_metrics(&mut out);
    out.into_text()
}

fn count(metrics: &Arc<ServeMetrics>, sample: &str) -> u64 {
    let text = text(metrics);
    value(&text, sample)
        .unwrap_or_else(|| panic!("{sample} in {text}"))
        .parse()
        .unwrap()
}

#[test]
fn requests_are_counted_by_method_and_class() {
    let metrics = Arc::new(ServeMetrics::default());
    let duration = Duration::from_millis(3);
    for (method, status, times) in [
        (Method::GET, 200, 3),
        (Method::GET, 206, 2),
        (Method::GET, 304, 1),
        (Method::PUT, 507, 1),
        (Method::from_bytes(b"BREW").unwrap(), 418, 1),
        (Method::TRACE, 999, 1),
    ] {
        for _ in 0..times {
            metrics.count_request(&method, StatusCode::from_u16(status).unwrap(), duration);
        }
    }
    metrics.count_sent(1000);
    metrics.count_sent(24);
    metrics.count_received(7);
    for (sample, expected) in [
        ("haul_http_requests_total{method=\"GET\",code=\"2xx\"}", 5),
        ("haul_http_requests_total{method=\"GET\",code=\"3xx\"}", 1),
        ("haul_http_requests_total{method=\"PUT\",code=\"5xx\"}", 1),
        ("haul_http_requests_total{method=\"other\",code=\"4xx\"}", 1),
        (
            "haul_http_requests_total{method=\"other\",code=\"other\"}",
            1,
        ),
        (
            "haul_http_request_duration_seconds_bucket{le=\"0.0025\"}",
            0,
        ),
        ("haul_http_request_duration_seconds_bucket{le=\"0.005\"}", 9),
        ("haul_http_request_duration_seconds_count", 9),
        ("haul_http_response_body_bytes_total", 1024),
        ("haul_http_request_body_bytes_total", 7),
    ] {
        assert_eq!(count(&metrics, sample), expected, "{sample}");
    }
    let text = text(&metrics);
    let absent = "haul_http_requests_total{method=\"PUT\",code=\"2xx\"}";
    assert_eq!(value(&text, absent), None);
}

#[test]
fn gauges_count_until_the_guard_is_dropped_on_any_thread() {
    let metrics = Arc::new(ServeMetrics::default());
    let first = metrics.track_connection();
    let second = metrics.track_connection();
    let upload = metrics.track_upload();
    assert_eq!(count(&metrics, "haul_connections_open"), 2);
    assert_eq!(count(&metrics, "haul_uploads_in_flight"), 1);
    // On another thread, and so in another shard.
    std::thread::spawn(move || drop((first, upload)))
        .join()
        .unwrap();
    assert_eq!(count(&metrics, "haul_connections_open"), 1);
    assert_eq!(count(&metrics, "haul_uploads_in_flight"), 0);
    drop(second);
    assert_eq!(count(&metrics, "haul_connections_open"), 0);
    assert_eq!(count(&metrics, "haul_connections_accepted_total"), 2);
    assert_eq!(count(&metrics, "haul_uploads_total"), 1);
}

#[test]
fn faults_and_refusals_are_counted_by_kind() {
    let metrics = Arc::new(ServeMetrics::default());
    metrics.count_fault(ConnectionFault::ShortFile);
    metrics.count_fault(ConnectionFault::ShortFile);
    metrics.count_refused_body(BodyRefusal::Quota);
    metrics.count_refused_connection();
    assert_eq!(count(&metrics, "haul_errors_total{kind=\"short_file\"}"), 2);
    assert_eq!(count(&metrics, "haul_errors_total{kind=\"io\"}"), 0);
    assert_eq!(
        count(&metrics, "haul_bodies_refused_total{reason=\"quota\"}"),
        1
    );
    assert_eq!(count(&metrics, "haul_connections_refused_total"), 1);
}

#[test]
fn every_family_has_help_and_a_type_once_and_counters_end_in_total() {
    let text = text(&ServeMetrics::default());
    let mut families = std::collections::HashSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(families.insert(name), "{name} twice");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        assert!(families.contains(family), "{line}");
    }
}
