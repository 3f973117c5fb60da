"""Reads a file at a URL in steps, with seeks between them."""

from measured import Clock, main
from steps import STEP, STEPS, checksum, positions


def read_haul(args):
    import haul

    return measure(lambda: haul.Client().open(args.base), args)


def read_fsspec(args):
    import fsspec

    return measure(lambda: fsspec.filesystem("http").open(args.base), args)


def measure(open_file, args):
    total = found = 0
    with Clock() as clock, open_file() as file:
        for position in positions(file.size, args.count):
            file.seek(position)
            for _ in range(STEPS):
                data = file.read(STEP)
                total += len(data)
                found = checksum(data, found)
    return clock.figures(bytes=total, checksum=found)


if __name__ == "__main__":
    main({"haul": read_haul, "fsspec": read_fsspec})
