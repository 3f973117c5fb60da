"""Fetches small files into tar shards. The bench reads the shards."""

import pathlib

from measured import Clock, main, urls

#: Files of a shard, of both clients.
SHARD_FILES = 10_000


def fetch_haul(args):
    import haul
    import pyarrow

    batch = pyarrow.RecordBatch.from_pydict({"url": urls(args.base, args.count)})
    # An entry of a tar is a block for its name, and whole blocks.
    entry = 512 + -(-(len(args.filler.read_bytes()) + 100) // 512) * 512
    with Clock() as clock:
        rows = haul.Client().fetch_arrow(batch, into="tar", path=args.output / "shard.tar", shard_size=SHARD_FILES * entry)
    return clock.figures(right=rows.column("state").to_pylist().count("done"))


def fetch_img2dataset(args):
    from img2dataset import download

    names = args.output.with_name("urls.txt")
    names.write_text("\n".join(urls(args.base, args.count)))
    with Clock() as clock:
        download(
            url_list=str(names), input_format="txt", output_folder=str(args.output), output_format="webdataset",
            # Bytes as they came: nothing is decoded.
            resize_mode="no", disable_all_reencoding=True, extract_exif=False, compute_hash=None,
            processes_count=args.processes, thread_count=args.at_once // args.processes, number_sample_per_shard=SHARD_FILES)
    return clock.figures(right=args.count)


if __name__ == "__main__":
    main({"haul": fetch_haul, "img2dataset": fetch_img2dataset})
