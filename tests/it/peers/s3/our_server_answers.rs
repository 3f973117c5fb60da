//! What `haul serve --s3` answers to boto3 in less common cases: lists by pages, copies, checksums, and refusals.

use super::{S3StoreTest, content};

/// How the scripts begin.
const START: &str = r#"
import boto3, botocore, datetime, os, sys
from botocore.config import Config
s3 = boto3.client("s3", config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))

def refused(code, status, call, *args, **fields):
    try:
        call(*args, **fields)
    except botocore.exceptions.ClientError as error:
        found = error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        assert found == (code, status), (found, code, status, fields)
        return
    raise AssertionError(f"not refused: {code} {fields}")

put = lambda key, body=b"", **fields: s3.put_object(Bucket="bucket", Key=key, Body=body, **fields)
head = lambda key, **fields: s3.head_object(Bucket="bucket", Key=key, **fields)
keys = lambda: [item["Key"] for item in s3.list_objects_v2(Bucket="bucket").get("Contents", [])]
"#;

const COPIES: &str = r#"
def copy(key, source, **fields):
    return s3.copy_object(Bucket="bucket", Key=key, CopySource=f"bucket/{source}", **fields)["CopyObjectResult"]

sum = put("from", b"abc", ChecksumAlgorithm="SHA256")["ChecksumSHA256"]
# The checksum is the source's, or another one that the request names.
assert copy("to", "from")["ChecksumSHA256"] == sum == head("to", ChecksumMode="ENABLED")["ChecksumSHA256"]
assert copy("to", "from", ChecksumAlgorithm="CRC32")["ChecksumCRC32"]
assert "ChecksumSHA256" not in head("to", ChecksumMode="ENABLED")
# Dates are conditions, too.
etag, time_of = head("from")["ETag"], datetime.datetime(2001, 1, 1)
refused("PreconditionFailed", 412, copy, "to", "from", CopySourceIfModifiedSince=head("from")["LastModified"])
refused("PreconditionFailed", 412, copy, "to", "from", CopySourceIfUnmodifiedSince=time_of)
copy("to", "from", CopySourceIfMatch=etag, CopySourceIfUnmodifiedSince=time_of)
# What is not there, and what is no directive.
refused("NoSuchBucket", 404, s3.copy_object, Bucket="none", Key="k", CopySource="bucket/from")
refused("NoSuchBucket", 404, s3.copy_object, Bucket="bucket", Key="k", CopySource="none/from")
refused("NoSuchKey", 404, copy, "k", "none")
refused("InvalidArgument", 400, copy, "k", "from", MetadataDirective="MOVE")
refused("InvalidRequest", 400, copy, "from", "from")
copy("from", "from", StorageClass="STANDARD")
# Folders are copied to folders; nothing is stored under another name than the client's.
put("folder/")
copy("other/", "folder/")
refused("InvalidRequest", 400, copy, "third/", "from")
refused("InvalidRequest", 400, copy, "third", "folder/")
refused("NoSuchKey", 404, copy, "third/", "none/")
assert keys() == ["folder/", "from", "other/", "to"], keys()
print("done")
"#;

const OBJECTS: &str = r#"
put("k", b"0123456789")
get = lambda key, **fields: s3.get_object(Bucket="bucket", Key=key, **fields)
# G6: a version of an object that is not there.
refused("NoSuchKey", 404, put, "none", IfMatch='"0"')
refused("PreconditionFailed", 412, put, "k", IfMatch='"0"')
# Ranges and parts.
put("empty")
refused("InvalidRange", 416, get, "empty", Range="bytes=0-")
assert get("empty", Range="lines=0-")["ContentLength"] == 0
refused("InvalidRequest", 400, get, "k", Range="bytes=0-1", PartNumber=1)
refused("InvalidArgument", 400, get, "none", PartNumber=0)
refused("InvalidPartNumber", 416, get, "k", PartNumber=2)
# What this server does not have is refused, not ignored.
refused("NotImplemented", 501, put, "secret", ServerSideEncryption="aws:kms")
refused("InvalidRequest", 400, put, "locked", ObjectLockLegalHoldStatus="ON")
refused("NotImplemented", 501, s3.create_bucket, Bucket="locked", ObjectLockEnabledForBucket=True)
refused("InvalidArgument", 400, s3.get_object_attributes, Bucket="bucket", Key="k", ObjectAttributes=["Colour"])
refused("InvalidArgument", 400, put, "tagged", Tagging="a=1&a=2")
refused("InvalidTag", 400, put, "tagged", Tagging="a=%00")
refused("KeyTooLongError", 400, put, "k" * 256)
assert keys() == ["empty", "k"], keys()
# Buckets by pages.
for name in ["page-1", "page-2", "page-3"]:
    s3.create_bucket(Bucket=name)
first = s3.list_buckets(Prefix="page-", MaxBuckets=2)
assert [bucket["Name"] for bucket in first["Buckets"]] == ["page-1", "page-2"] and first["Prefix"] == "page-", first
rest = s3.list_buckets(Prefix="page-", ContinuationToken=first["ContinuationToken"])
assert [bucket["Name"] for bucket in rest["Buckets"]] == ["page-3"] and "ContinuationToken" not in rest, rest
refused("InvalidArgument", 400, s3.list_buckets, MaxBuckets=20000)
refused("InvalidBucketName", 400, s3.create_bucket, Bucket="xn--page")
print("done")
"#;

const PARTS: &str = r#"
MIB = 1 << 20
fields = lambda key, id: {"Bucket": "bucket", "Key": key, "UploadId": id}
begin = lambda key, **more: s3.create_multipart_upload(Bucket="bucket", Key=key, **more)
complete = lambda key, id, parts, **more: s3.complete_multipart_upload(**fields(key, id), MultipartUpload={"Parts": parts}, **more)

for wrong in [{"ChecksumAlgorithm": "CRC16"}, {"ChecksumType": "FULL_OBJECT"}, {"ChecksumAlgorithm": "SHA1", "ChecksumType": "FULL_OBJECT"}]:
    refused("InvalidRequest", 400, begin, "k", **wrong)
begun = begin("k", ChecksumAlgorithm="SHA256")
id = begun["UploadId"]
assert (begun["ChecksumAlgorithm"], begun["ChecksumType"]) == ("SHA256", "COMPOSITE"), begun
refused("InvalidRequest", 400, s3.upload_part, **fields("k", id), PartNumber=1, Body=b"x", ChecksumAlgorithm="CRC32")
rows = []
for number, data in [(1, b"a" * 5 * MIB), (2, b"b")]:
    part = s3.upload_part(**fields("k", id), PartNumber=number, Body=data, ChecksumAlgorithm="SHA256")
    rows.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]})
# G7: what the client says of the object is compared, and the upload lives on.
bare = [{"PartNumber": row["PartNumber"], "ETag": row["ETag"]} for row in rows]
refused("InvalidRequest", 400, complete, "k", id, bare)
refused("InvalidRequest", 400, complete, "k", id, rows, ChecksumType="FULL_OBJECT")
refused("InvalidRequest", 400, complete, "k", id, rows, MpuObjectSize=7)
refused("InvalidRequest", 400, s3.complete_multipart_upload, **fields("k", id))
refused("NoSuchKey", 404, complete, "k", id, rows, IfMatch='"0"')
listed = s3.list_parts(**fields("k", id))
assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == ("SHA256", "COMPOSITE"), listed
assert s3.list_multipart_uploads(Bucket="bucket")["Uploads"][0]["ChecksumType"] == "COMPOSITE"
assert complete("k", id, rows, MpuObjectSize=5 * MIB + 1)["ChecksumSHA256"].endswith("-2")
# An upload that was begun without an algorithm takes parts with any.
id = begin("free")["UploadId"]
assert "ChecksumAlgorithm" not in s3.list_parts(**fields("free", id))
part = s3.upload_part(**fields("free", id), PartNumber=1, Body=b"x", ChecksumAlgorithm="CRC32")
complete("free", id, [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}])
# Copies as parts have the checksum of the upload.
id = begin("copied", ChecksumAlgorithm="CRC32")["UploadId"]
copied = s3.upload_part_copy(**fields("copied", id), PartNumber=1, CopySource="bucket/free")["CopyPartResult"]
assert copied["ChecksumCRC32"] == part["ChecksumCRC32"], copied
refused("NoSuchBucket", 404, s3.upload_part_copy, **fields("copied", id), PartNumber=1, CopySource="none/free")
for call, more in [(s3.list_parts, {"MaxParts": -1}), (s3.list_parts, {"PartNumberMarker": -1})]:
    refused("InvalidArgument", 400, call, **fields("copied", id), **more)
refused("InvalidArgument", 400, s3.list_multipart_uploads, Bucket="bucket", MaxUploads=-1)
# A missing bucket comes before a missing upload.
gone = {"Bucket": "none", "Key": "k", "UploadId": id}
refused("NoSuchBucket", 404, s3.abort_multipart_upload, **gone)
refused("NoSuchBucket", 404, s3.upload_part, **gone, PartNumber=1, Body=b"")
refused("NoSuchBucket", 404, s3.list_parts, **gone)
refused("NoSuchBucket", 404, s3.complete_multipart_upload, **gone, MultipartUpload={"Parts": bare})
# A bucket takes its uploads with it.
s3.create_bucket(Bucket="again")
s3.create_multipart_upload(Bucket="again", Key="k")
s3.delete_bucket(Bucket="again")
s3.create_bucket(Bucket="again")
assert not s3.list_multipart_uploads(Bucket="again").get("Uploads")
print("done")
"#;

async fn run(script: &str) {
    let test = S3StoreTest::start_haul(&[]).await;
    assert_eq!(
        test.python(&format!("{START}{script}"), &[]).await,
        "done\n"
    );
}

#[tokio::test]
async fn g17_copies_are_those_of_s3() {
    run(COPIES).await;
}

#[tokio::test]
async fn what_s3_refuses_is_refused_and_lists_have_pages() {
    run(OBJECTS).await;
}

#[tokio::test]
async fn g7_checksums_of_uploads_in_parts_are_what_the_client_said() {
    run(PARTS).await;
}

#[tokio::test]
async fn max_body_holds_for_all_parts_together() {
    let test = S3StoreTest::start_haul(&["--max-body", "6M"]).await;
    test.dir.write("large", content(11 << 20));
    let put = ["put", "large", "s3://bucket/large", "--part-size", "5M"];
    let refused = test.dir.run(&put).await;
    assert_eq!(refused.code, 5, "{refused:#?}");
    assert!(refused.stderr.contains("EntityTooLarge"), "{refused:#?}");
}
