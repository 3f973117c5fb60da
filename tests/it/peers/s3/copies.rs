//! `haul cp` inside moto and inside our own server.

use haul_lab::ObjectStore;

use super::sync::directory;
use super::{S3StoreTest, content};

/// Copies a small object and one in parts, which both keep what they are (row F14).
async fn f14_copies_keep_what_the_source_is(test: &S3StoreTest) {
    test.dir.write("small.txt", "small");
    let large = content(12_000_001);
    test.dir.write("large.bin", &large);
    for file in ["small.txt", "large.bin"] {
        let target = format!("s3://bucket/from/{file}");
        let flags = ["--metadata", "colour=red", "--tag", "team=a b"];
        let flags = [&flags[..], &["--content-type", "text/x-y"]].concat();
        let args = [&["put", file, &target][..], &flags].concat();
        test.haul(&args).await;
    }
    let copied = test
        .haul(&[
            "cp",
            "-r",
            "s3://bucket/from/",
            "s3://bucket/to",
            "--part-size",
            "5M",
            "--json",
        ])
        .await;
    assert!(copied.contains("\"parts\":3"), "{copied}");
    let heads = "import boto3\n\
        s3 = boto3.client('s3')\n\
        for key in ['to/large.bin', 'to/small.txt']:\n    \
            head = s3.head_object(Bucket='bucket', Key=key)\n    \
            tags = s3.get_object_tagging(Bucket='bucket', Key=key)['TagSet']\n    \
            print(head['ContentLength'], head['ContentType'], head['Metadata']['colour'], tags[0]['Value'])\n";
    assert_eq!(
        test.python(heads, &[]).await,
        "12000001 text/x-y red a b\n5 text/x-y red a b\n"
    );
    let large_again = ["get", "-q", "s3://bucket/to/large.bin", "-o", "again"];
    test.haul(&large_again).await;
    assert!(std::fs::read(test.dir.path("again")).unwrap() == large);
}

#[tokio::test]
async fn copies_inside_moto() {
    f14_copies_keep_what_the_source_is(&S3StoreTest::start().await).await;
}

#[tokio::test]
async fn copies_inside_our_server() {
    let test = S3StoreTest::start_haul(&[]).await;
    f14_copies_keep_what_the_source_is(&test).await;
    let cp = async |args: &[&str]| test.dir.run([&["cp"], args].concat().as_slice()).await;
    let address = "s3://bucket/from/small.txt";
    let renamed = cp(&[address, "s3://bucket/renamed"]).await;
    assert_eq!(renamed.code, 0, "{renamed:#?}");
    let by_pattern = cp(&["s3://bucket/from/*.txt", "s3://bucket/matched/"]).await;
    assert_eq!(by_pattern.code, 0, "{by_pattern:#?}");
    let shown = cp(&["-n", "-r", "s3://bucket/from/", "s3://bucket/never/"]).await;
    assert!(
        shown
            .stdout
            .contains("would copy s3://bucket/from/large.bin to s3://bucket/never/large.bin"),
        "{shown:#?}"
    );
    let listed = test.haul(&["ls", "-r", "s3://bucket/"]).await;
    assert!(
        listed.contains("renamed\n") && listed.contains("matched/small.txt\n"),
        "{listed}"
    );
    assert!(!listed.contains("never"), "{listed}");
    for (args, words) in [
        (&[address, address][..], "to itself"),
        (&["s3://bucket/from/", "s3://bucket/x/"], "is a folder"),
        (&["s3://bucket/none", "s3://bucket/x"], "404 Not Found"),
        (&["file", "s3://bucket/x"], "haul cp copies inside a store"),
        (
            &["-r", "s3://bucket/none/", "s3://bucket/x/"],
            "nothing to copy",
        ),
        (
            &[address, "s3://bucket/matched/small.txt", "s3://bucket/y/"],
            "another small.txt was",
        ),
        (
            &["-r", "s3://bucket/from/", "s3://bucket/from/copy/"],
            "copied again",
        ),
        (&["s3://bucket/fr*", "s3://bucket/from2/"], "copied again"),
    ] {
        let refused = cp(args).await;
        assert!(
            refused.code != 0 && refused.stderr.contains(words),
            "{refused:#?}"
        );
    }
}

/// s3s-fs has such lists.
#[tokio::test]
async fn f14_copies_name_the_version_of_a_source_whose_list_has_no_entity_tags() {
    let store = ObjectStore::start().await;
    store.leave_etags_out_of_lists();
    let dir = directory(&store);
    for key in ["from/a", "from/b/c"] {
        store.insert(key, key.as_bytes());
    }
    let copy = ["cp", "-r", "s3://bucket/from/", "s3://bucket/to/"];
    dir.run(&copy).await.assert_code(0);
    let sync = ["sync", "s3://bucket/from/", "s3://bucket/synced/"];
    dir.run(&sync).await.assert_code(0);
    for key in ["to/a", "to/b/c", "synced/a", "synced/b/c"] {
        let copied = store.object(key).unwrap();
        let source = key.replace("to/", "from/").replace("synced/", "from/");
        assert_eq!(copied, store.object(&source).unwrap());
        let is_conditional = store.count(|request| {
            let condition = request.headers.get("x-amz-copy-source-if-match");
            request.key == key && condition == Some(&format!("\"{}\"", copied.etag))
        });
        assert_eq!(is_conditional, 1, "{key}");
    }
}
