//! `haul serve --s3` under the crate object_store, which obstore brings to Python.

use super::{S3StoreTest, has_python_package};

/// What object_store does and finds. The argument is the folder that is served.
const OBJECT_STORE: &str = r#"
import io, obstore, os, sys, urllib.request
from datetime import timedelta
from obstore.exceptions import AlreadyExistsError, NotModifiedError, PreconditionError
from obstore.store import S3Store
folder, MIB = sys.argv[1], 1 << 20

def store(**options):
    return S3Store("bucket", client_options={"allow_http": True}, **options)

def refused(error, call, *args, **fields):
    try:
        call(*args, **fields)
    except error:
        return
    raise AssertionError(f"not refused: {call} {args}")

def keys(prefix, **fields):
    return [item["path"] for page in obstore.list(s3, prefix, **fields) for item in page]

def is_stored(key, data):
    assert obstore.get(s3, key).bytes() == data == open(f"{folder}/bucket/{key}", "rb").read(), key

s3 = store()
# An object with all that it can have.
FIELDS = {"Content-Type": "text/x", "Cache-Control": "no-cache", "Content-Disposition": "attachment", "Content-Language": "de", "k": "v"}
key = "a b+c é%20"
put = obstore.put(s3, key, b"hello", attributes=FIELDS, tags={"t": "1 2"})
assert put["e_tag"] == '"5d41402abc4b2a76b9719d911017c592"', put
is_stored(key, b"hello")
head = obstore.head(s3, key)
assert (head["size"], head["e_tag"], head["path"]) == (5, put["e_tag"], key), head
assert obstore.get(s3, key).attributes == FIELDS
refused(FileNotFoundError, obstore.head, s3, "none")
obstore.put(s3, "empty", b"")
is_stored("empty", b"")
# In parts, and with the checksums and signatures that it offers.
large = os.urandom(12 * MIB + 3)
for name, options in [
    ("plain", {}), ("sha256", {"checksum_algorithm": "sha256"}), ("crc64nvme", {"checksum_algorithm": "crc64nvme"}),
    ("unsigned", {"unsigned_payload": True}),
]:
    put = obstore.put(store(**options), f"{name}/large", io.BytesIO(large), attributes=FIELDS)
    assert put["e_tag"].endswith('-3"'), put
    is_stored(f"{name}/large", large)
    assert obstore.get(s3, f"{name}/large").attributes == FIELDS
    obstore.put(store(**options), f"{name}/small", large[:MIB])
    is_stored(f"{name}/small", large[:MIB])
with obstore.open_writer(s3, "written") as file:
    for start in range(0, len(large), MIB):
        file.write(large[start : start + MIB])
is_stored("written", large)
# Ranges.
key = "plain/large"
starts, ends = [0, 5, 7 * MIB, len(large) - 1], [3, 6, 8 * MIB, len(large)]
for coalesce in [0, MIB, 1 << 30]:
    ranges = obstore.get_ranges(s3, key, starts=starts, ends=ends, coalesce=coalesce)
    assert ranges == [large[start:end] for start, end in zip(starts, ends)]
assert obstore.get_range(s3, key, start=len(large) - 2, end=len(large) + 9) == large[-2:]
assert obstore.get(s3, key, options={"range": {"suffix": 7}}).bytes() == large[-7:]
part = obstore.get(s3, key, options={"range": {"offset": 9 * MIB}})
assert part.range == (9 * MIB, len(large)) and part.meta["size"] == len(large) and part.bytes() == large[9 * MIB:]
refused(Exception, obstore.get_range, s3, key, start=len(large), length=5)
file = obstore.open_reader(s3, key)
file.seek(-5, os.SEEK_END)
assert file.read() == large[-5:]
# Conditions.
etag = obstore.head(s3, key)["e_tag"]
refused(NotModifiedError, obstore.get, s3, key, options={"if_none_match": etag})
refused(PreconditionError, obstore.get, s3, key, options={"if_match": '"0"'})
first = obstore.put(s3, "once", b"1", mode="create")
refused(AlreadyExistsError, obstore.put, s3, "once", b"2", mode="create")
second = obstore.put(s3, "once", b"2", mode={"e_tag": first["e_tag"]})
refused(PreconditionError, obstore.put, s3, "once", b"3", mode={"e_tag": first["e_tag"]})
is_stored("once", b"2")
refused((FileNotFoundError, PreconditionError), obstore.put, s3, "none", b"3", mode={"e_tag": second["e_tag"]})
refused(FileNotFoundError, obstore.head, s3, "none")
# Lists, of two pages.
for number in range(1100):
    os.makedirs(f"{folder}/bucket/many/{number % 4}", exist_ok=True)
    open(f"{folder}/bucket/many/{number % 4}/{number}", "w").close()
obstore.put(s3, "many/leaf é", b"")
many = sorted([f"many/{number % 4}/{number}" for number in range(1100)] + ["many/leaf é"])
assert keys("many") == keys("many/") == many
assert keys("many", offset="many/1/") == [key for key in many if key > "many/1/"]
assert keys("man") == []
level = obstore.list_with_delimiter(s3, "many")
assert level["common_prefixes"] == [f"many/{number}" for number in range(4)], level
assert [item["path"] for item in level["objects"]] == ["many/leaf é"], level
# Copies and renames.
obstore.copy(s3, "a b+c é%20", "copied ü")
assert obstore.get(s3, "copied ü").attributes == FIELDS
obstore.copy(s3, key, "copied")
obstore.rename(s3, "copied", "moved/é+1")
is_stored("moved/é+1", large)
refused(FileNotFoundError, obstore.head, s3, "copied")
refused(FileNotFoundError, obstore.copy, s3, "none", "copied")
once = store(copy_if_not_exists="multipart")
obstore.copy(once, key, "copied", overwrite=False)
is_stored("copied", large)
refused(AlreadyExistsError, obstore.copy, once, "once", "copied", overwrite=False)
is_stored("copied", large)
# Deletions, of more keys than one request has.
obstore.delete(s3, "copied")
refused(FileNotFoundError, obstore.get, s3, "copied")
obstore.delete(s3, many + ["none"])
assert keys("many") == [] and not os.path.exists(f"{folder}/bucket/many/0/0")
# Signed URLs.
url = obstore.sign(s3, "GET", "a b+c é%20", timedelta(minutes=1))
assert urllib.request.urlopen(url).read() == b"hello"
url = obstore.sign(s3, "PUT", "signed é", timedelta(minutes=1))
urllib.request.urlopen(urllib.request.Request(url, b"signed", method="PUT"))
is_stored("signed é", b"signed")
print("done")
"#;

#[tokio::test]
async fn object_store_finds_s3s_semantics_on_our_server() {
    if !has_python_package("obstore") {
        return;
    }
    let test = S3StoreTest::start_haul(&[]).await;
    let folder = test.home.path().join("store");
    let printed = test.python(OBJECT_STORE, &[folder.to_str().unwrap()]).await;
    assert_eq!(printed, "done\n");
}
