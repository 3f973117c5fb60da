//! `haul serve --s3` under the client of mountpoint-s3, AWS's common runtime, which s3torchconnectorclient brings to Python.

use super::{S3StoreTest, has_python_package};

/// What the client does and finds. The argument is the folder that is served. It writes everything in parts, requests the first part of an
/// object before it knows the length, and fails by itself to copy from a key that needs escapes.
const MOUNTPOINT: &str = r#"
import os, sys
from s3torchconnectorclient._mountpoint_s3_client import MountpointS3Client, S3Exception
folder, MIB = sys.argv[1], 1 << 20
options = {"endpoint": os.environ["AWS_ENDPOINT_URL"], "force_path_style": True, "part_size": 5 * MIB, "throughput_target_gbps": 1.0, "max_attempts": 1}
client = MountpointS3Client("us-east-1", **options)

def put(key, data):
    stream = client.put_object("bucket", key)
    for start in range(0, len(data), MIB + 7):
        stream.write(data[start : start + MIB + 7])
    stream.close()

def get(key, *range):
    return b"".join(client.get_object("bucket", key, *range))

def refused(words, call, *args):
    try:
        call(*args)
    except S3Exception as error:
        assert words in str(error), (words, error)
        return
    raise AssertionError(f"not refused: {words}")

large = os.urandom(17 * MIB + 3)
for key, data in [("empty", b""), ("a b+c é%20", b"hello"), ("part", large[: 5 * MIB]), ("large", large)]:
    put(key, data)
    assert get(key) == data == open(f"{folder}/bucket/{key}", "rb").read(), key
    assert client.head_object("bucket", key).size == len(data), key
for start, end in [(0, 1), (5 * MIB - 1, 5 * MIB + 1), (3, 16 * MIB), (17 * MIB, None), (17 * MIB, 17 * MIB + 3)]:
    assert get("large", start, end) == large[start:end], (start, end)
# Lists, in pages.
for number in range(25):
    put(f"many/{number % 3}/{number}", b"")

def listed(prefix, delimiter, page_size):
    pages = list(client.list_objects("bucket", prefix, delimiter, page_size))
    keys = [entry.key for page in pages for entry in page.object_info]
    return len(pages), keys, [prefix for page in pages for prefix in page.common_prefixes]

assert listed("many/", "", 4) == (7, sorted(f"many/{number % 3}/{number}" for number in range(25)), [])
assert listed("", "/", 2) == (3, ["a b+c é%20", "empty", "large", "part"], ["many/"])
entry = next(client.list_objects("bucket", "large")).object_info[0]
head = client.head_object("bucket", "large")
assert (entry.size, entry.etag, entry.last_modified) == (head.size, head.etag, head.last_modified)
# Copies and deletions.
for source in ["empty", "part", "large"]:
    client.copy_object("bucket", source, "bucket", "copied ü+")
    assert get("copied ü+") == get(source), source
for _ in range(2):
    client.delete_object("bucket", "copied ü+")
refused("not found", client.head_object, "bucket", "copied ü+")
refused("key does not exist", get, "copied ü+")
refused("not found", client.copy_object, "bucket", "none", "bucket", "x")
refused("bucket does not exist", client.list_objects("none").__next__)
refused("InvalidRange", get, "part", 5 * MIB, 5 * MIB + 1)
refused("InvalidBucketState", put, "part/x", b"x")
# An upload that is given up leaves nothing.
stream = client.put_object("bucket", "unfinished")
stream.write(large)
del stream
refused("Forbidden", MountpointS3Client("us-east-1", unsigned=True, **options).head_object, "bucket", "large")
refused("AuthorizationHeaderMalformed", MountpointS3Client("eu-west-1", **options).list_objects("bucket").__next__)
print("done")
"#;

#[tokio::test]
async fn mountpoint_finds_s3s_semantics_on_our_server() {
    if !has_python_package("s3torchconnectorclient._mountpoint_s3_client") {
        return;
    }
    let test = S3StoreTest::start_haul(&[]).await;
    let folder = test.home.path().join("store");
    let printed = test.python(MOUNTPOINT, &[folder.to_str().unwrap()]).await;
    assert_eq!(printed, "done\n");
}
