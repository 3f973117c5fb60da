//! The files of a report. Each appears whole under its name or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{ReportError, html_report, markdown_report};
use crate::results::{BenchResults, RESULTS_FORMAT};

/// The largest `results.json` that is read: a full run's is below 1 MiB.
const MAX_RESULTS_BYTES: u64 = 64 << 20;

/// The only field that all versions have in common.
#[derive(Deserialize)]
struct ResultsHeader {
    format: String,
}

/// Writes `results.json`, `report.md` and `report.html` into a directory, which is made if it is missing.
///
/// # Errors
/// The directory or a file cannot be written; files written before that stay.
pub fn write_reports(directory: &Path, results: &BenchResults) -> Result<(), ReportError> {
    fs::create_dir_all(directory).map_err(|source| ReportError::Write {
        path: directory.to_owned(),
        source,
    })?;
    let json = serde_json::to_string_pretty(results).map_err(io::Error::from);
    replace_file(
        &directory.join("results.json"),
        json.map(|json| json + "\n"),
    )?;
    replace_file(&directory.join("report.md"), Ok(markdown_report(results)))?;
    replace_file(&directory.join("report.html"), Ok(html_report(results)?))
}

/// Reads a `results.json` that [`write_reports`] wrote.
///
/// # Errors
/// The file cannot be read, is too large, is damaged or has another format.
pub fn read_results(path: &Path) -> Result<BenchResults, ReportError> {
    let path = path.to_owned();
    let mut json = Vec::new();
    let read = File::open(&path).and_then(|file| {
        // One byte more shows that the file is too large, even if it is a pipe.
        file.take(MAX_RESULTS_BYTES + 1).read_to_end(&mut json)
    });
    match read {
        Ok(length) if length as u64 > MAX_RESULTS_BYTES => Err(ReportError::TooLarge { path }),
        Ok(_) => parse_results(path, &json),
        Err(source) => Err(ReportError::Read { path, source }),
    }
}

fn parse_results(path: PathBuf, json: &[u8]) -> Result<BenchResults, ReportError> {
    match serde_json::from_slice(json) {
        Ok(ResultsHeader { format }) if format != RESULTS_FORMAT => Err(ReportError::Format {
            path,
            found: format,
        }),
        _ => serde_json::from_slice(json).map_err(|source| ReportError::Parse { path, source }),
    }
}

/// Writes a file beside its name and gives it the name once all of it is on the disk.
fn replace_file(path: &Path, content: io::Result<String>) -> Result<(), ReportError> {
    let write = || {
        let directory = path.parent().filter(|parent| *parent != Path::new(""));
        let mut file = tempfile::Builder::new()
            .prefix(".haul-bench-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory.unwrap_or_else(|| Path::new(".")))?;
        file.write_all(content?.as_bytes())?;
        // A full disk may be noticed only here.
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|source| ReportError::Write {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn reports_are_written_and_results_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let report = directory.path().join("out/report");
        let results = fixture::bench_results();
        write_reports(&report, &results).unwrap();
        write_reports(&report, &results).unwrap();
        // Numbers are read to the last digit but one, so that only their text is the same.
        let read = read_results(&report.join("results.json")).unwrap();
        let shown = |results| super::super::text_report(results, 200, false);
        assert_eq!(shown(&read), shown(&results));
        let mut names: Vec<_> = fs::read_dir(&report)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["report.html", "report.md", "results.json"]);
    }

    #[test]
    fn errors_name_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let blocked = directory.path().join("file");
        fs::write(&blocked, "").unwrap();
        let error = write_reports(&blocked.join("out"), &fixture::bench_results()).unwrap_err();
        assert!(error.to_string().contains("file/out"), "{error}");
        fs::create_dir_all(directory.path().join("out/report.md/x")).unwrap();
        let error =
            write_reports(&directory.path().join("out"), &fixture::bench_results()).unwrap_err();
        assert!(error.to_string().contains("out/report.md"), "{error}");
        // What was to become the file is gone.
        assert_eq!(
            fs::read_dir(directory.path().join("out")).unwrap().count(),
            2
        );
    }

    #[test]
    fn other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.json");
        let refusal = |content: &str| {
            fs::write(&path, content).unwrap();
            read_results(&path).unwrap_err()
        };
        assert!(matches!(refusal("<html>"), ReportError::Parse { .. }));
        assert!(matches!(refusal("{}"), ReportError::Parse { .. }));
        let partly = r#"{"format": "haul-bench-1", "experiments": []}"#;
        assert!(matches!(refusal(partly), ReportError::Parse { .. }));
        let error = refusal(r#"{"format": "haul-bench-7"}"#).to_string();
        assert!(
            error.contains("results.json has the format \"haul-bench-7\""),
            "{error}"
        );
        File::create(&path)
            .unwrap()
            .set_len(MAX_RESULTS_BYTES + 1)
            .unwrap();
        assert!(matches!(
            read_results(&path),
            Err(ReportError::TooLarge { .. })
        ));
        fs::remove_file(&path).unwrap();
        assert!(matches!(read_results(&path), Err(ReportError::Read { .. })));
    }
}
