"""Downloads one large file by haul.get."""

from measured import Clock, main

import haul


def get(args):
    path = args.output / "result"
    with Clock() as clock:
        file = haul.get(args.base, path)
    return clock.figures(bytes=file.bytes)


if __name__ == "__main__":
    main({"haul": get})
