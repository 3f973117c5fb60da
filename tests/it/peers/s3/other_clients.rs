//! A folder of names that clients write differently goes up by one client and comes down by another, whole.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use super::{S3StoreTest, content, python};

/// Names that signatures, URLs, lists and shells each write in their own way.
const NAMES: [&str; 7] = [
    "plain",
    "it's a+b%20~é",
    "q?x#y&z=1",
    "a/\"quoted\" <x>",
    "a/b/日本 (1).txt",
    "a-b/!$*,;:@",
    "empty",
];

/// When each file was written: in the past, with a fraction of a second.
const WRITTEN: Duration = Duration::new(1_000_000_000, 750_000_000);

/// A client, and its commands that copy the folder `$FROM` to `$TO`, up and down.
struct OtherClient {
    name: &'static str,
    up: String,
    down: String,
    /// What of a file it restores from the metadata that haul writes: a format of find.
    restores: &'static str,
}

fn others() -> [OtherClient; 3] {
    let aws = format!(
        "{} -m awscli s3 sync --only-show-errors",
        python().display()
    );
    let rclone = "rclone copy -q --config /dev/null --s3-provider Other --s3-env-auth --s3-force-path-style \
                  --s3-endpoint $AWS_ENDPOINT_URL --s3-upload-cutoff 5M --s3-chunk-size 5M";
    let s3cmd = "host=${AWS_ENDPOINT_URL#http://}; s3cmd sync -q -c /dev/null --access_key key --secret_key secret \
                 --host $host --host-bucket $host --no-ssl --preserve --multipart-chunk-size-mb 5";
    [
        OtherClient {
            name: "aws",
            up: format!("{aws} tree s3://bucket/$TO"),
            down: format!("{aws} s3://bucket/$FROM $TO"),
            restores: "",
        },
        OtherClient {
            name: "rclone",
            up: format!("{rclone} tree :s3:bucket/$TO"),
            down: format!("{rclone} :s3:bucket/$FROM $TO"),
            restores: "%T@",
        },
        OtherClient {
            name: "s3cmd",
            up: format!("{s3cmd} tree/ s3://bucket/$TO/"),
            down: format!("mkdir $TO; {s3cmd} s3://bucket/$FROM/ $TO/"),
            restores: "%m %Ts",
        },
    ]
}

/// The folder `tree` with a file of each name and one of an odd size in several parts.
fn make_tree(test: &S3StoreTest) {
    let files = NAMES.map(|name| (name, name.as_bytes().to_vec()));
    for (name, bytes) in files.into_iter().chain([("large", content(17_000_003))]) {
        let path = test.dir.path("tree").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let bytes = if name == "empty" { Vec::new() } else { bytes };
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + WRITTEN).unwrap();
    }
}

/// The lines that `haul ls -r` prints for the folder under a prefix.
fn keys_below(prefix: &str) -> String {
    let mut names: Vec<_> = [&NAMES[..], &["large"]].concat();
    names.sort_unstable();
    names
        .iter()
        .map(|name| format!("{prefix}/{name}\n"))
        .collect()
}

#[tokio::test]
async fn other_clients_read_the_folder_that_haul_puts() {
    let test = S3StoreTest::start().await;
    make_tree(&test);
    test.haul(&["put", "-q", "-r", "tree", "s3://bucket/ours"])
        .await;
    for client in others() {
        let (name, down) = (client.name, client.down);
        test.shell(&format!("FROM=ours TO={name}; {down}")).await;
        test.shell(&format!("diff -r tree {name}")).await;
        let find =
            |folder: &str| format!("find {folder} -type f -printf '%P {}\\n'", client.restores);
        let listed = test.shell(&format!("{} | sort", find(name))).await;
        assert_eq!(
            listed,
            test.shell(&format!("{} | sort", find("tree"))).await,
            "{name}"
        );
    }
}

#[tokio::test]
async fn haul_reads_lists_and_removes_the_folders_that_other_clients_put() {
    let test = S3StoreTest::start().await;
    make_tree(&test);
    for client in others() {
        let (name, up) = (client.name, client.up);
        test.shell(&format!("TO={name}; {up}")).await;
        let prefix = format!("s3://bucket/{name}/");
        assert_eq!(test.haul(&["ls", "-r", &prefix]).await, keys_below(name));
        test.haul(&["get", "-q", "-r", &prefix, "-d", name]).await;
        test.shell(&format!("diff -r tree {name}")).await;
        test.haul(&["rm", "-q", "-r", &prefix]).await;
        assert_eq!(test.dir.run(&["ls", "-r", &prefix]).await.stdout, "");
    }
}
