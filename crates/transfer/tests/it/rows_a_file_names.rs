//! Row A25: file names from `Content-Disposition` and URLs cannot leave the output directory.

use haul_lab::{Origin, OriginResource};
use haul_transfer::JobOutput;

use crate::harness::{JobCase, content};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a25_names_from_content_disposition_stay_in_the_directory() {
    for (disposition, name) in [
        (
            "attachment; filename=\"../../hostile_mirror.sh\"",
            "hostile_mirror.sh",
        ),
        ("attachment; filename=\"/etc/passwd\"", "passwd"),
        ("attachment; filename*=UTF-8''na%C3%AFve.txt", "naïve.txt"),
        ("attachment; filename=\"..\"", "f.bin"),
        ("inline", "f.bin"),
    ] {
        let mut case = JobCase::new();
        let inner = case.dir.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        case.output = Some(JobOutput::Directory(inner.clone()));
        let resource = OriginResource::new(content()).header("Content-Disposition", disposition);
        let (run, _origin) = case.run(resource).await;
        assert_eq!(
            run.outcome().path.as_deref(),
            Some(inner.join(name).as_path())
        );
        assert_eq!(case.listing(), ["inner"]);
        assert!(std::fs::read(inner.join(name)).unwrap() == content().to_vec());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a25_without_content_disposition_the_url_names_the_file() {
    let origin = Origin::builder()
        .resource("/a/b%20c.txt", OriginResource::new(content()))
        .start()
        .await;
    let mut case = JobCase::new();
    case.output = Some(JobOutput::Directory(case.dir.path().to_owned()));
    let run = case.get(&origin.url("/a/b%20c.txt?x=y/z")).await;
    run.outcome();
    assert_eq!(case.listing(), ["b c.txt"]);
}
