"""Where and how a file is read in steps, with seeks between them."""

import random
import zlib

STEP = 64 << 10
#: Steps between two seeks.
STEPS = 128


def positions(size, count):
    """Where reading goes on after each seek: so many places of a file, in no order."""
    return [random.Random(16 + number).randrange(0, size - STEP * STEPS) for number in range(count)]


def checksum(data, begin):
    """A checksum of the beginnings of all steps, which costs no time."""
    return zlib.crc32(data[:16], begin)
