//! The objects of `--json` have the same keys for all commands: what was done, and where to find it again.

use haul_lab::ObjectStore;
use serde_json::Value;

use super::harness::HaulDirectory;
use super::s3::directory;

const KEY: &str = "in/a b+c%20d&é#?.txt";

/// The objects that a command prints.
async fn objects(dir: &HaulDirectory, args: &[&str]) -> Vec<Value> {
    let output = dir.run(&[args, &["--json"]].concat()).await;
    assert_eq!(output.code, 0, "{args:?} {output:#?}");
    let objects: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!objects.is_empty(), "{args:?}");
    objects
}

/// The object's URL leads to the object again when it stands in a list.
async fn assert_url_can_be_listed(dir: &HaulDirectory, object: &Value) {
    let url = object["url"].as_str().unwrap_or_else(|| panic!("{object}"));
    dir.write("list", url);
    let got = dir
        .run(&["get", "-i", "list", "-d", "again", "--overwrite"])
        .await;
    assert_eq!(got.code, 0, "{url}: {got:#?}");
}

#[tokio::test]
async fn all_objects_say_what_was_done_and_their_urls_can_be_listed() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    std::fs::create_dir_all(dir.path("tree/in")).unwrap();
    dir.write(&format!("tree/{KEY}"), "content");
    let source = format!("s3://bucket/{KEY}");
    let file = format!("tree/{KEY}");
    let cases: [(&[&str], &str); 10] = [
        (&["put", &file, "s3://bucket/plain"], "upload"),
        (&["put", &file, &source], "upload"),
        (&["put", "-r", "tree", "s3://bucket/put", "-n"], "upload"),
        (&["cp", "s3://bucket/plain", "s3://bucket/copy.txt"], "copy"),
        (
            &["cp", "s3://bucket/plain", "s3://bucket/copy2.txt", "-n"],
            "copy",
        ),
        (&["get", "-r", "s3://bucket/in/", "-d", "down"], "download"),
        (&["get", "-g", &source, "-o", "one"], "download"),
        (&["get", "-g", &source, "-o", "one"], "skip"),
        (&["sync", "s3://bucket/in", "synced", "-n"], "download"),
        (&["sync", "s3://bucket/in", "synced"], "download"),
    ];
    for (args, action) in cases {
        for object in objects(&dir, args).await {
            assert_eq!(object["action"], action, "{args:?} {object}");
            assert!(object["url"].is_string(), "{args:?} {object}");
            let is_dry = args.contains(&"-n");
            assert_eq!(
                object["dry_run"].as_bool().unwrap_or(false),
                is_dry,
                "{args:?}"
            );
            if !is_dry {
                assert_url_can_be_listed(&dir, &object).await;
            }
            if let Some(etag) = object["etag"].as_str() {
                assert!(
                    etag.starts_with('"') && etag.ends_with('"'),
                    "{args:?} {etag}"
                );
            }
        }
    }
}

#[tokio::test]
async fn lists_and_deletions_name_objects_as_other_commands_do() {
    let store = ObjectStore::start().await;
    let dir = directory(&store);
    std::fs::create_dir_all(dir.path("tree/in")).unwrap();
    dir.write(&format!("tree/{KEY}"), "content");
    let (source, file) = (format!("s3://bucket/{KEY}"), format!("tree/{KEY}"));
    objects(&dir, &["put", &file, &source]).await;
    for args in [
        &["ls", "-r", "s3://bucket/in/"][..],
        &["ls", "s3://bucket/in/"],
    ] {
        for object in objects(&dir, args).await {
            assert_url_can_be_listed(&dir, &object).await;
            assert!(
                object["etag"].as_str().unwrap().starts_with('"'),
                "{object}"
            );
        }
    }
    for object in objects(&dir, &["sync", "tree", "s3://bucket/up"]).await {
        assert_eq!(object["action"], "upload", "{object}");
        assert_url_can_be_listed(&dir, &object).await;
    }
    std::fs::remove_dir_all(dir.path("tree/in")).unwrap();
    dir.write("tree/other", "");
    let deleted = objects(&dir, &["sync", "tree", "s3://bucket/up", "--delete"]).await;
    let deletes = |object: &&Value| object["action"] == "delete" && object["url"].is_string();
    assert_eq!(deleted.iter().filter(deletes).count(), 1, "{deleted:?}");
    for object in objects(&dir, &["rm", "-g", &source]).await {
        assert_eq!(
            (&object["action"], &object["url"]),
            (&"delete".into(), &source.as_str().into())
        );
    }
}
