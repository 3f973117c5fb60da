//! `haul serve --s3` under other people's clients: boto3, aws, rclone and s3cmd.

use super::{S3StoreTest, content, python};

/// What boto3 does and finds. The argument is the folder that is served.
const BOTO3: &str = r#"
import boto3, botocore, os, sys, threading, urllib.request
from botocore.config import Config
folder = sys.argv[1]
s3 = boto3.client("s3", config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))

def refused(code, status, call, *args, **fields):
    try:
        call(*args, **fields)
    except botocore.exceptions.ClientError as error:
        found = error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        assert found == (code, status), (found, code, status)
        assert error.response["ResponseMetadata"]["RequestId"]
        return
    raise AssertionError(f"not refused: {code}")

# Buckets.
refused("BucketAlreadyOwnedByYou", 409, s3.create_bucket, Bucket="bucket")
refused("NoSuchBucket", 404, s3.list_objects_v2, Bucket="nope")
assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["bucket"]
assert not s3.get_bucket_location(Bucket="bucket")["LocationConstraint"]
# G18: a right empty answer or 501, never a listing.
assert "Status" not in s3.get_bucket_versioning(Bucket="bucket")
assert s3.get_bucket_acl(Bucket="bucket")["Grants"]
refused("ObjectLockConfigurationNotFoundError", 404, s3.get_object_lock_configuration, Bucket="bucket")
refused("NotImplemented", 501, s3.list_object_versions, Bucket="bucket")
# An object, its fields, tags and checksums; G3: aws-chunked is the request's.
put = s3.put_object(Bucket="bucket", Key="a/b c+é%20", Body=b"hello", ContentType="text/x", Metadata={"k": "v"},
    CacheControl="no-cache", ContentEncoding="gzip", Tagging="t=1", ChecksumAlgorithm="SHA256")
assert put["ETag"] == '"5d41402abc4b2a76b9719d911017c592"' and put["ChecksumSHA256"], put
got = s3.get_object(Bucket="bucket", Key="a/b c+é%20", ChecksumMode="ENABLED")
assert got["Body"].read() == b"hello" and got["Metadata"] == {"k": "v"} and got["ContentType"] == "text/x"
assert got["CacheControl"] == "no-cache" and got["ContentEncoding"] == "gzip", got
assert got["ChecksumSHA256"] == put["ChecksumSHA256"] and got["TagCount"] == 1
assert s3.get_object(Bucket="bucket", Key="a/b c+é%20", Range="bytes=1-2")["Body"].read() == b"el"
assert open(f"{folder}/bucket/a/b c+é%20", "rb").read() == b"hello"
s3.put_object_tagging(Bucket="bucket", Key="a/b c+é%20", Tagging={"TagSet": [{"Key": "x", "Value": "y"}]})
assert s3.get_object_tagging(Bucket="bucket", Key="a/b c+é%20")["TagSet"] == [{"Key": "x", "Value": "y"}]
assert s3.head_object(Bucket="bucket", Key="a/b c+é%20")["ETag"] == put["ETag"]
# G1: a wrong digest changes nothing.
refused("BadDigest", 400, s3.put_object, Bucket="bucket", Key="a/b c+é%20", Body=b"other", ChecksumCRC32="AAAAAA==")
assert s3.get_object(Bucket="bucket", Key="a/b c+é%20")["Body"].read() == b"hello"
# An empty object has a number of last bytes, and no other range.
s3.put_object(Bucket="bucket", Key="empty", Body=b"")
for wanted in ["bytes=0-", "bytes=0-9", "bytes=5-9"]:
    refused("InvalidRange", 416, s3.get_object, Bucket="bucket", Key="empty", Range=wanted)
assert s3.get_object(Bucket="bucket", Key="empty", Range="bytes=-9")["ContentLength"] == 0
s3.delete_object(Bucket="bucket", Key="empty")
# G4: keys that are no paths.
for key in ["../x", "a/../x", "a//x", "/x", "./x"]:
    for call, fields in [(s3.put_object, {"Body": b"x"}), (s3.get_object, {}), (s3.delete_object, {})]:
        refused("InvalidArgument", 400, call, Bucket="bucket", Key=key, **fields)
assert not os.path.exists(f"{folder}/x") and not os.path.exists(f"{folder}/bucket/x")
# G5: a key is an object or a folder.
refused("InvalidBucketState", 409, s3.put_object, Bucket="bucket", Key="a", Body=b"x")
refused("InvalidBucketState", 409, s3.put_object, Bucket="bucket", Key="a/b c+é%20/x", Body=b"x")
refused("InvalidRequest", 400, s3.put_object, Bucket="bucket", Key="f/", Body=b"x")
s3.put_object(Bucket="bucket", Key="f/")
assert s3.head_object(Bucket="bucket", Key="f/")["ContentLength"] == 0
s3.put_object(Bucket="bucket", Key="f/g", Body=b"")
s3.delete_object(Bucket="bucket", Key="f/g")
keys = lambda **fields: [item["Key"] for item in s3.list_objects_v2(Bucket="bucket", **fields).get("Contents", [])]
assert keys() == ["a/b c+é%20", "f/"], keys()
s3.delete_object(Bucket="bucket", Key="f/")
# G6: of many that create, one does.
results = []
def create():
    try:
        s3.put_object(Bucket="bucket", Key="once", Body=os.urandom(10), IfNoneMatch="*")
        results.append(200)
    except botocore.exceptions.ClientError as error:
        results.append(error.response["ResponseMetadata"]["HTTPStatusCode"])
threads = [threading.Thread(target=create) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert sorted(results) == [200] + [412] * 7, results
refused("PreconditionFailed", 412, s3.put_object, Bucket="bucket", Key="once", Body=b"", IfMatch='"0"')
refused("PreconditionFailed", 412, s3.get_object, Bucket="bucket", Key="once", IfMatch='"0"')
# G10: what other programs put there or changed.
open(f"{folder}/bucket/foreign", "w").write("x")
assert "-" in s3.head_object(Bucket="bucket", Key="foreign")["ETag"]
open(f"{folder}/bucket/a/b c+é%20", "w").write("changed")
changed = s3.head_object(Bucket="bucket", Key="a/b c+é%20")
assert "-" in changed["ETag"] and not changed["Metadata"], changed
# G17: copies.
refused("InvalidRequest", 400, s3.copy_object, Bucket="bucket", Key="once", CopySource="bucket/once")
s3.put_object(Bucket="bucket", Key="from", Body=b"abc", Metadata={"k": "v"})
s3.copy_object(Bucket="bucket", Key="to", CopySource="bucket/from")
assert s3.head_object(Bucket="bucket", Key="to")["Metadata"] == {"k": "v"}
s3.copy_object(Bucket="bucket", Key="to", CopySource="bucket/from", MetadataDirective="REPLACE", Metadata={"n": "w"})
assert s3.head_object(Bucket="bucket", Key="to")["Metadata"] == {"n": "w"}
# G12: pages of lists.
for number in range(25):
    s3.put_object(Bucket="bucket", Key=f"many/{number % 3}/{number}", Body=b"")
pages = s3.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix="many/", PaginationConfig={"PageSize": 4})
found = [item["Key"] for page in pages for item in page.get("Contents", [])]
assert found == sorted(f"many/{number % 3}/{number}" for number in range(25)), found
pages = s3.get_paginator("list_objects").paginate(Bucket="bucket", Prefix="many/", Delimiter="/", PaginationConfig={"PageSize": 2})
found = [item["Prefix"] for page in pages for item in page.get("CommonPrefixes", [])]
assert found == ["many/0/", "many/1/", "many/2/"], found
assert s3.list_objects_v2(Bucket="bucket", MaxKeys=0)["KeyCount"] == 0
# G13: presigned, with response-*.
url = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "to", "ResponseContentType": "a/b"})
answer = urllib.request.urlopen(url)
assert answer.read() == b"abc" and answer.headers["Content-Type"] == "a/b"
# G16: without a signature, 403.
try:
    urllib.request.urlopen(url.split("?")[0])
    raise AssertionError("not refused")
except urllib.error.HTTPError as error:
    assert error.code == 403 and b"<Code>AccessDenied</Code>" in error.read()
# Many at once; a folder that was created for its objects goes with them.
deleted = s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": f"many/{n % 3}/{n}"} for n in range(25)] + [{"Key": "../x"}]})
assert len(deleted["Deleted"]) == 25 and deleted["Errors"][0]["Code"] == "InvalidArgument", deleted
assert not os.path.exists(f"{folder}/bucket/many")
refused("BucketNotEmpty", 409, s3.delete_bucket, Bucket="bucket")
print("done")
"#;

/// Uploads in parts by boto3. The argument is the folder that is served.
const PARTS: &str = r#"
import boto3, botocore, hashlib, os, sys
from botocore.config import Config
folder, MIB = sys.argv[1], 1 << 20
s3 = boto3.client("s3", config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))

def begin(key, **fields):
    return s3.create_multipart_upload(Bucket="bucket", Key=key, **fields)["UploadId"]

def send(key, id, number, data):
    etag = s3.upload_part(Bucket="bucket", Key=key, UploadId=id, PartNumber=number, Body=data)["ETag"]
    assert etag == f'"{hashlib.md5(data).hexdigest()}"'
    return {"PartNumber": number, "ETag": etag}

def complete(key, id, parts, **fields):
    return s3.complete_multipart_upload(Bucket="bucket", Key=key, UploadId=id, MultipartUpload={"Parts": parts}, **fields)

def refused(code, call, *args, **fields):
    try:
        call(*args, **fields)
    except botocore.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == code, (error.response, code)
        return
    raise AssertionError(f"not refused: {code}")

def is_right(key, data, parts):
    found = s3.get_object(Bucket="bucket", Key=key)
    assert found["Body"].read() == data == open(f"{folder}/bucket/{key}", "rb").read(), key
    md5 = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in parts)).hexdigest()
    assert found["ETag"] == f'"{md5}-{len(parts)}"', found["ETag"]

one, two, three = os.urandom(6 * MIB), os.urandom(6 * MIB), os.urandom(1234)
left = lambda: sorted(os.listdir(f"{folder}/.haul/multipart"))
# G8: out of order, and one again: the object is the file of the parts, not a copy.
id = begin("k", Metadata={"m": "v"}, ContentType="a/b")
rows = [send("k", id, 2, b"x" * 6 * MIB), send("k", id, 1, one), send("k", id, 3, three), send("k", id, 2, two)]
inode = os.stat(f"{folder}/.haul/multipart/{id}/data").st_ino
assert [part["Size"] for part in s3.list_parts(Bucket="bucket", Key="k", UploadId=id)["Parts"]] == [6 * MIB, 6 * MIB, 1234]
assert [upload["UploadId"] for upload in s3.list_multipart_uploads(Bucket="bucket")["Uploads"]] == [id]
refused("NoSuchKey", s3.get_object, Bucket="bucket", Key="k")
# G7: what is wrong is refused, and the upload lives on.
refused("InvalidPart", complete, "k", id, [rows[1], rows[0], rows[2]])
refused("InvalidPartOrder", complete, "k", id, [rows[3], rows[1]])
refused("InvalidPart", complete, "k", id, [rows[1], {"PartNumber": 9, "ETag": "x"}])
refused("MalformedXML", complete, "k", id, [])
# There is no such object yet.
refused("NoSuchKey", complete, "k", id, [rows[1], rows[3], rows[2]], IfMatch='"x"')
refused("BadDigest", complete, "k", id, [rows[1], rows[3], rows[2]], ChecksumCRC64NVME="AAAAAAAAAAA=")
done = complete("k", id, [rows[1], rows[3], rows[2]], IfNoneMatch="*")
is_right("k", one + two + three, [one, two, three])
assert os.stat(f"{folder}/bucket/k").st_ino == inode and left() == [], left()
head = s3.head_object(Bucket="bucket", Key="k", ChecksumMode="ENABLED")
assert head["Metadata"] == {"m": "v"} and head["ContentType"] == "a/b" and head["ChecksumCRC64NVME"]
assert complete("k", id, [rows[1], rows[3], rows[2]])["ETag"] == done["ETag"]
assert s3.get_object(Bucket="bucket", Key="k", PartNumber=2)["Body"].read() == two
wanted = ["ETag", "Checksum", "ObjectParts", "ObjectSize"]
found = s3.get_object_attributes(Bucket="bucket", Key="k", ObjectAttributes=wanted)
assert found["ObjectSize"] == 12 * MIB + 1234 and found["Checksum"]["ChecksumCRC64NVME"] == head["ChecksumCRC64NVME"], found
parts = found["ObjectParts"]
assert parts["TotalPartsCount"] == 3 and not parts["IsTruncated"], parts
assert [(part["PartNumber"], part["Size"]) for part in parts["Parts"]] == [(1, 6 * MIB), (2, 6 * MIB), (3, 1234)], parts
assert all(part["ChecksumCRC64NVME"] for part in parts["Parts"]), parts
parts = s3.get_object_attributes(Bucket="bucket", Key="k", ObjectAttributes=wanted, MaxParts=1, PartNumberMarker=1)["ObjectParts"]
assert [part["PartNumber"] for part in parts["Parts"]] == [2] and parts["IsTruncated"] and parts["NextPartNumberMarker"] == 2, parts
s3.put_object(Bucket="bucket", Key="whole", Body=b"x")
assert "ObjectParts" not in s3.get_object_attributes(Bucket="bucket", Key="whole", ObjectAttributes=wanted)
refused("NoSuchUpload", send, "k", id, 1, one)
# Parts with gaps, of other sizes, and a subset of what was sent.
id = begin("gaps")
rows = [send("gaps", id, 3, one), send("gaps", id, 7, three + one + two), send("gaps", id, 10, three)]
complete("gaps", id, rows)
is_right("gaps", one + three + one + two + three, [one, three + one + two, three])
id = begin("subset")
rows = [send("subset", id, number, data) for number, data in [(1, one), (2, two), (3, three)]]
complete("subset", id, rows[:2])
is_right("subset", one + two, [one, two])
id = begin("small")
rows = [send("small", id, 1, three), send("small", id, 2, three)]
refused("EntityTooSmall", complete, "small", id, rows)
complete("small", id, rows[1:])
is_right("small", three, [three])
# Copies as parts.
id = begin("copied")
part = s3.upload_part_copy(Bucket="bucket", Key="copied", UploadId=id, PartNumber=1, CopySource="bucket/k", CopySourceRange=f"bytes=0-{6 * MIB - 1}")
rows = [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}, send("copied", id, 2, three)]
complete("copied", id, rows)
is_right("copied", one + three, [one, three])
# G9: an abort leaves nothing.
id = begin("aborted")
send("aborted", id, 1, one)
s3.abort_multipart_upload(Bucket="bucket", Key="aborted", UploadId=id)
refused("NoSuchUpload", s3.list_parts, Bucket="bucket", Key="aborted", UploadId=id)
assert left() == [] and not s3.list_multipart_uploads(Bucket="bucket").get("Uploads")
print("done")
"#;

#[tokio::test]
async fn g7_g8_g9_uploads_in_parts_are_right_however_they_arrive() {
    let test = S3StoreTest::start_haul(&[]).await;
    let folder = test.home.path().join("store");
    let printed = test.python(PARTS, &[folder.to_str().unwrap()]).await;
    assert_eq!(printed, "done\n");
    let inside = std::fs::read_dir(folder.join(".haul")).unwrap();
    let names = inside.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names
        .filter(|name| name.starts_with(".haul-put-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn boto3_finds_s3s_semantics_on_our_server() {
    let test = S3StoreTest::start_haul(&[]).await;
    let folder = test.home.path().join("store");
    let printed = test.python(BOTO3, &[folder.to_str().unwrap()]).await;
    assert_eq!(printed, "done\n");
}

#[tokio::test]
async fn a14_an_empty_object_is_got_without_a_pause() {
    let test = S3StoreTest::start_haul(&[]).await;
    test.dir.write("empty", b"");
    test.haul(&["put", "-q", "empty", "s3://bucket/empty"])
        .await;
    let got = test
        .dir
        .run(&["get", "s3://bucket/empty", "-o", "down"])
        .await;
    assert_eq!(got.code, 0, "{got:#?}");
    assert!(!got.stderr.contains("again"), "{got:#?}");
    assert_eq!(std::fs::read(test.dir.path("down")).unwrap(), b"");
}

#[tokio::test]
async fn files_go_through_our_server_by_other_clients_and_by_haul() {
    let test = S3StoreTest::start_haul(&[]).await;
    test.shell("mkdir -p tree/a tree/a-b").await;
    test.dir.write("tree/a/plain", b"one");
    test.dir.write("tree/a-b/it's a+b%20~", b"two");
    test.dir.write("tree/empty", b"");
    // All of them but rclone send it in parts.
    test.dir.write("tree/large", content(20_000_001));
    let aws = format!(
        "{} -m awscli s3 sync --only-show-errors",
        python().display()
    );
    let rclone = "rclone copy -q --config /dev/null --s3-provider Other --s3-env-auth --s3-force-path-style \
                  --s3-endpoint $AWS_ENDPOINT_URL";
    let s3cmd = "host=${AWS_ENDPOINT_URL#http://}; s3cmd sync -q -c /dev/null --access_key key --secret_key secret \
                 --host $host --host-bucket $host --no-ssl";
    let haul = env!("CARGO_BIN_EXE_haul");
    for (name, up, down) in [
        (
            "aws",
            format!("{aws} tree s3://bucket/aws"),
            format!("{aws} s3://bucket/aws down-aws"),
        ),
        (
            "rclone",
            format!("{rclone} tree :s3:bucket/rclone"),
            format!("{rclone} :s3:bucket/rclone down-rclone"),
        ),
        (
            "s3cmd",
            format!("{s3cmd} tree/ s3://bucket/s3cmd/"),
            format!("mkdir down-s3cmd; {s3cmd} s3://bucket/s3cmd/ down-s3cmd/"),
        ),
        (
            "haul",
            format!("{haul} put -q -r tree/ s3://bucket/haul/"),
            format!("{haul} get -q -r s3://bucket/haul/ -d down-haul"),
        ),
    ] {
        test.shell(&up).await;
        test.shell(&down).await;
        let compare = format!("diff -r tree down-{name} && diff -r tree $HOME/store/bucket/{name}");
        assert_eq!(test.shell(&compare).await, "", "{name}");
    }
}

#[tokio::test]
async fn g16_what_is_open_to_everybody_is_not_open_to_pages_of_other_sites() {
    let test = S3StoreTest::start_haul(&["--anonymous", "rw"]).await;
    test.dir.write("kept", b"x");
    test.haul(&["put", "-q", "kept", "s3://bucket/k"]).await;
    // A request that a browser sends for any page, without asking first.
    let delete = "curl -s -o out -w '%{http_code} ' -H 'Content-Type: text/plain' \
        -d '<Delete><Object><Key>k</Key></Object></Delete>'";
    let there = "test -f $HOME/store/bucket/k && echo there || echo gone";
    for (fields, expected) in [
        ("-H 'Sec-Fetch-Site: cross-site'", "403 there\n"),
        ("-H 'Origin: http://elsewhere.example'", "403 there\n"),
        ("", "200 gone\n"),
    ] {
        let line = format!("{delete} {fields} \"$AWS_ENDPOINT_URL/bucket?delete\"; {there}");
        assert_eq!(test.shell(&line).await, expected, "{fields}");
    }
}
