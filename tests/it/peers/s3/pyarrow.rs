//! `haul serve --s3` under pyarrow, whose file system is AWS's SDK for C++.

use super::{S3StoreTest, has_python_package};

/// What pyarrow does and finds. The argument is the folder that is served.
const PYARROW: &str = r#"
import os, pyarrow, pyarrow.dataset, pyarrow.fs, pyarrow.parquet, sys
from pyarrow.fs import FileSelector, FileType
folder, MIB = sys.argv[1], 1 << 20
host = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
s3 = pyarrow.fs.S3FileSystem(endpoint_override=host, scheme="http", region="us-east-1", allow_bucket_creation=True, allow_bucket_deletion=True)

def write(path, data, piece=MIB + 7, **fields):
    with s3.open_output_stream(path, **fields) as stream:
        for start in range(0, len(data), piece):
            stream.write(data[start : start + piece])

def is_stored(path, data):
    with s3.open_input_stream(path) as stream:
        assert stream.read() == data == open(f"{folder}/{path}", "rb").read(), path

def refused(error, call, *args):
    try:
        call(*args)
    except error:
        return
    raise AssertionError(f"not refused: {call} {args}")

def kind(path):
    return s3.get_file_info(path).type

def below(path, recursive=True):
    found = s3.get_file_info(FileSelector(path, recursive=recursive))
    return sorted((entry.path, entry.type.name) for entry in found)

# Files of one part and of many, with fields.
large = os.urandom(17 * MIB + 3)
for path, data, piece in [("large", large, MIB + 7), ("at once", large, 20 * MIB), ("empty", b"", 1)]:
    write(f"bucket/{path}", data, piece)
    is_stored(f"bucket/{path}", data)
write("bucket/a b+c é%20", b"hello", metadata={"Content-Type": "text/x", "Cache-Control": "no-cache"})
is_stored("bucket/a b+c é%20", b"hello")
fields = s3.open_input_stream("bucket/a b+c é%20").metadata()
assert fields["Content-Type"] == b"text/x" and fields["Cache-Control"] == b"no-cache", fields
with s3.open_input_file("bucket/large") as file:
    assert file.size() == len(large)
    for at in [0, 5 * MIB - 3, 17 * MIB, 12]:
        assert file.read_at(1000, at) == large[at : at + 1000], at
    file.seek(len(large) - 5)
    assert file.read() == large[-5:]
# Folders.
for number in range(10):
    write(f"bucket/many/{number % 2}/{number}", b"x")
s3.create_dir("bucket/made/by/us", recursive=True)
assert below("bucket/made") == [("bucket/made/by", "Directory"), ("bucket/made/by/us", "Directory")], below("bucket/made")
folders, files = ["bucket/many/0", "bucket/many/1"], [f"bucket/many/{number % 2}/{number}" for number in range(10)]
assert below("bucket/many") == sorted([(path, "Directory") for path in folders] + [(path, "File") for path in files])
assert below("bucket/many", recursive=False) == [(path, "Directory") for path in folders]
kinds = [entry.type for entry in s3.get_file_info(["bucket/large", "bucket/many", "bucket", "bucket/none", "none"])]
assert kinds == [FileType.File, FileType.Directory, FileType.Directory, FileType.NotFound, FileType.NotFound], kinds
s3.delete_dir_contents("bucket/many/0")
assert kind("bucket/many/0") == FileType.Directory and below("bucket/many/0") == []
s3.delete_dir("bucket/many")
assert kind("bucket/many") == FileType.NotFound and not os.path.exists(f"{folder}/bucket/many")
# Copies and errors.
s3.copy_file("bucket/large", "bucket/copied ü+")
s3.move("bucket/copied ü+", "bucket/moved")
is_stored("bucket/moved", large)
assert kind("bucket/copied ü+") == FileType.NotFound
s3.delete_file("bucket/moved")
for call in [s3.delete_file, s3.open_input_file, s3.delete_dir]:
    refused(FileNotFoundError, call, "bucket/moved")
refused(OSError, s3.open_output_stream, "none/x")
refused(OSError, s3.copy_file, "bucket/none", "bucket/x")
# Tables, in one file and in files of a folder for each value.
count = 100_000
table = pyarrow.table({"n": list(range(count)), "text": [str(n * 7) for n in range(count)], "part": [n % 3 for n in range(count)]})
pyarrow.parquet.write_table(table, "bucket/table.parquet", filesystem=s3, row_group_size=30_000)
assert pyarrow.parquet.read_table("bucket/table.parquet", filesystem=s3).equals(table)
last = pyarrow.parquet.read_table("bucket/table.parquet", filesystem=s3, columns=["n"], filters=[("n", ">=", count - 9)])
assert last["n"].to_pylist() == list(range(count - 9, count))
pyarrow.dataset.write_dataset(table, "bucket/set", filesystem=s3, format="parquet", partitioning=["part"], partitioning_flavor="hive")
dataset = pyarrow.dataset.dataset("bucket/set", filesystem=s3, format="parquet", partitioning="hive")
assert len(dataset.files) == 3 and dataset.count_rows() == count
assert dataset.to_table(filter=pyarrow.dataset.field("part") == 1)["n"].to_pylist() == list(range(1, count, 3))
# Buckets.
s3.create_dir("other")
s3.delete_dir("other")
assert kind("other") == FileType.NotFound and os.listdir(folder).count("other") == 0
print("done")
"#;

#[tokio::test]
async fn pyarrow_finds_s3s_semantics_on_our_server() {
    if !has_python_package("pyarrow.fs") {
        return;
    }
    let test = S3StoreTest::start_haul(&[]).await;
    let folder = test.home.path().join("store");
    let printed = test.python(PYARROW, &[folder.to_str().unwrap()]).await;
    assert_eq!(printed, "done\n");
}
