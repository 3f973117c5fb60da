//! Uploads that were killed, on moto and our server: continued and removed; what it counts as sent is what haul sends no second time.

use super::{S3StoreTest, content};

/// Waits until an upload has some parts, for ten seconds at most.
const WAIT_FOR_PARTS: &str = r#"
import boto3, sys, time
s3 = boto3.client("s3")
end = time.monotonic() + 10
while time.monotonic() < end:
    for upload in s3.list_multipart_uploads(Bucket="bucket").get("Uploads", []):
        parts = s3.list_parts(Bucket="bucket", Key=upload["Key"], UploadId=upload["UploadId"]).get("Parts", [])
        if len(parts) >= 2:
            sys.exit()
    time.sleep(0.05)
sys.exit("no parts")
"#;

const PUT: [&str; 8] = [
    "put",
    "large",
    "s3://bucket/large",
    "--part-size",
    "5M",
    "-x",
    "2",
    "--json",
];

/// An upload of ten parts, killed when the store has two of them.
async fn killed() -> (S3StoreTest, Vec<u8>) {
    killed_with(S3StoreTest::start().await, &[]).await
}

async fn killed_with(test: S3StoreTest, flags: &[&str]) -> (S3StoreTest, Vec<u8>) {
    let large = content(48_000_001);
    test.dir.write("large", &large);
    let slow = [&PUT[..], &["--limit-rate", "6M"], flags].concat();
    let mut haul = test.dir.command(&slow).spawn().unwrap();
    test.python(WAIT_FOR_PARTS, &[]).await;
    haul.kill().await.unwrap();
    let uploads = test.haul(&["ls", "--uploads", "s3://bucket/"]).await;
    assert_eq!(uploads.lines().count(), 1, "{uploads}");
    (test, large)
}

async fn assert_no_uploads(test: &S3StoreTest) {
    let uploads = test.dir.run(&["ls", "--uploads", "s3://bucket/"]).await;
    assert_eq!(uploads.stdout, "", "{uploads:#?}");
}

#[tokio::test]
async fn a_killed_upload_goes_on_with_the_parts_that_moto_has() {
    let (test, large) = killed().await;
    let result = test.haul(&PUT).await;
    let (_, resumed) = result.split_once("\"resumed\":").unwrap();
    let digits: String = resumed.chars().take_while(char::is_ascii_digit).collect();
    assert!(digits.parse::<u64>().unwrap() >= 10 << 20, "{result}");
    test.haul(&["get", "s3://bucket/large", "-o", "down"]).await;
    assert!(std::fs::read(test.dir.path("down")).unwrap() == large);
    assert_no_uploads(&test).await;
}

/// S3 wants the checksum of each part again at the end; the parts of the killed run have theirs from the journal.
#[tokio::test]
async fn a_killed_upload_with_a_checksum_of_the_users_choice_goes_on() {
    let wanted = ["--checksum", "sha256"];
    let (test, large) = killed_with(S3StoreTest::start_haul(&[]).await, &wanted).await;
    let result = test.haul(&[&PUT[..], &wanted].concat()).await;
    assert!(!result.contains("\"resumed\":0"), "{result}");
    test.haul(&["get", "s3://bucket/large", "-o", "down"]).await;
    assert!(std::fs::read(test.dir.path("down")).unwrap() == large);
    assert_no_uploads(&test).await;
}

/// A change that keeps size and modification time must not end in an object of both versions.
#[tokio::test]
async fn f12_a_file_that_was_changed_and_dated_back_begins_anew() {
    let (test, mut large) = killed().await;
    let path = test.dir.path("large");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    large[100] ^= 1;
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &large[100..101], 100).unwrap();
    file.set_modified(modified).unwrap();
    let result = test.haul(&PUT).await;
    assert!(result.contains("\"resumed\":0"), "{result}");
    test.haul(&["get", "s3://bucket/large", "-o", "down"]).await;
    assert!(std::fs::read(test.dir.path("down")).unwrap() == large);
    assert_no_uploads(&test).await;
}

#[tokio::test]
async fn a_killed_upload_is_aborted_by_its_command_and_by_its_prefix() {
    let (test, _) = killed().await;
    test.haul(&[&PUT[..], &["--abort"]].concat()).await;
    assert_no_uploads(&test).await;
    let begin =
        "import boto3\nboto3.client('s3').create_multipart_upload(Bucket='bucket', Key='theirs')";
    test.python(begin, &[]).await;
    test.haul(&["put", "--abort", "s3://bucket/the"]).await;
    assert_no_uploads(&test).await;
}
