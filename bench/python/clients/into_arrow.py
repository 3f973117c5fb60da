"""Fetches small files into a column of Arrow, in one process. What a client is given is there before the clock starts."""

import asyncio
import concurrent.futures
import os
import urllib.request

import pyarrow
from measured import Clock, file_content, main, urls


def fetch_haul(args):
    import haul

    batch = pyarrow.RecordBatch.from_pydict({"url": urls(args.base, args.count)})
    with Clock() as clock:
        bodies = haul.Client().fetch_arrow(batch).column("body")
    return checked(clock, bodies, args)


def fetch_daft(args):
    os.environ["DO_NOT_TRACK"] = "true"
    import daft
    from daft.functions import download

    frame = daft.from_arrow(pyarrow.table({"url": urls(args.base, args.count)}))
    with Clock() as clock:
        body = download(daft.col("url"), max_connections=args.at_once, on_error="raise")
        bodies = frame.select(body.alias("body")).to_arrow().column("body")
    return checked(clock, bodies, args)


def fetch_obstore(args):
    import obstore.store

    host, folder = args.base.rsplit("/", 1)
    paths = [url.removeprefix(host + "/") for url in urls(args.base, args.count)]

    async def fetch_all():
        store = obstore.store.HTTPStore.from_url(host, client_options={"allow_http": True})

        async def fetch(path):
            response = await store.get_async(path)
            return (await response.bytes_async()).to_bytes()

        return await at_once(args.at_once, fetch, paths)

    with Clock() as clock:
        bodies = arrow_of(asyncio.run(fetch_all()))
    return checked(clock, bodies, args)


def fetch_aiohttp(args):
    import aiohttp

    async def fetch_all(names):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=args.at_once)) as session:

            async def fetch(url):
                async with session.get(url, raise_for_status=True) as response:
                    return await response.read()

            return await at_once(args.at_once, fetch, names)

    names = urls(args.base, args.count)
    with Clock() as clock:
        bodies = arrow_of(asyncio.run(fetch_all(names)))
    return checked(clock, bodies, args)


def fetch_urllib(args):
    def fetch(url):
        with urllib.request.urlopen(url) as response:
            return response.read()

    names = urls(args.base, args.count)
    with Clock() as clock:
        with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
            bodies = arrow_of(list(pool.map(fetch, names)))
    return checked(clock, bodies, args)


async def at_once(count, fetch, inputs):
    """The results of a coroutine function for all inputs, so many at once."""
    results = [None] * len(inputs)
    rest = iter(enumerate(inputs))

    async def work():
        for index, value in rest:
            results[index] = await fetch(value)

    await asyncio.gather(*(work() for _ in range(count)))
    return results


def arrow_of(bodies):
    return pyarrow.array(bodies, pyarrow.large_binary())


def checked(clock, bodies, args):
    """The figures of a run. Each body is compared."""
    filler = args.filler.read_bytes()
    found = [body.as_py() for body in bodies]
    right = sum(body == file_content(url, filler) for body, url in zip(found, urls(args.base, args.count), strict=True))
    return clock.figures(right=right, bytes=sum(map(len, filter(None, found))))


if __name__ == "__main__":
    main({
        "haul": fetch_haul, "daft": fetch_daft, "obstore": fetch_obstore, "aiohttp": fetch_aiohttp, "urllib": fetch_urllib})
