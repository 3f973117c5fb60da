//! `haul` beside boto3 on moto: what one stores the other reads, fields of objects and long lists with it.

use super::S3StoreTest;

/// What boto3 does and finds. The argument says which half of the test it is.
const BOTO3: &str = r#"
import boto3, sys
s3 = boto3.client("s3")
if sys.argv[1] == "store":
    s3.put_object(Bucket="bucket", Key="theirs/a b+c%20", Body=b"x" * 12_000_000, ContentType="image/png")
    for number in range(1234):
        s3.put_object(Bucket="bucket", Key=f"theirs/many/{number % 5}/{number}", Body=str(number).encode())
else:
    found = s3.get_object(Bucket="bucket", Key="ours/large")
    assert found["Body"].read() == open("large", "rb").read()
    assert found["ContentType"] == "text/html", found
    assert found["Metadata"]["owner"] == "me" and "mtime" in found["Metadata"], found
    assert found["CacheControl"] == "no-cache"
    keys = [item["Key"] for item in s3.list_objects_v2(Bucket="bucket", Prefix="ours/tree/")["Contents"]]
    assert keys == ["ours/tree/a/1", "ours/tree/b"], keys
    assert not s3.list_multipart_uploads(Bucket="bucket").get("Uploads")
    assert s3.list_objects_v2(Bucket="bucket", Prefix="theirs/many/")["KeyCount"] == 0
print("done")
"#;

async fn boto3(test: &S3StoreTest, half: &str) {
    assert_eq!(test.python(BOTO3, &[half]).await, "done\n");
}

#[tokio::test]
async fn what_boto3_stores_haul_reads_and_the_other_way_round() {
    let test = S3StoreTest::start().await;
    boto3(&test, "store").await;
    test.haul(&["get", "s3://bucket/theirs/a b+c%20", "-o", "down"])
        .await;
    assert_eq!(
        std::fs::read(test.dir.path("down")).unwrap(),
        vec![b'x'; 12_000_000]
    );
    test.haul(&["get", "-r", "s3://bucket/theirs/many/", "-d", "many"])
        .await;
    for number in 0..1234 {
        let path = test.dir.path(&format!("many/{}/{number}", number % 5));
        assert_eq!(std::fs::read_to_string(path).unwrap(), number.to_string());
    }
    let listed = test.haul(&["ls", "-r", "s3://bucket/theirs/many/"]).await;
    assert_eq!(listed.lines().count(), 1234);
    test.haul(&["rm", "-q", "-r", "s3://bucket/theirs/many/"])
        .await;
    let large: Vec<u8> = (0..23_000_001_u32)
        .map(|at| at.to_le_bytes()[(at % 3) as usize])
        .collect();
    test.dir.write("large", &large);
    let fields = [
        "--content-type",
        "text/html",
        "--metadata",
        "Owner=me",
        "--cache-control",
        "no-cache",
    ];
    test.haul(&[&["put", "large", "s3://bucket/ours/large"], &fields[..]].concat())
        .await;
    std::fs::create_dir_all(test.dir.path("tree/a")).unwrap();
    test.dir.write("tree/a/1", "1");
    test.dir.write("tree/b", "");
    test.haul(&["put", "-r", "tree", "s3://bucket/ours/tree/"])
        .await;
    boto3(&test, "check").await;
    let url = test.haul(&["presign", "s3://bucket/ours/tree/a/1"]).await;
    test.haul(&["get", url.trim(), "-o", "presigned"]).await;
    assert_eq!(std::fs::read(test.dir.path("presigned")).unwrap(), b"1");
}
