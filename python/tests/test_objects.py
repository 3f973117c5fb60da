"""Lists and deletions of objects."""

from __future__ import annotations

import asyncio
import pickle
from datetime import datetime, timedelta, timezone

import pytest

import haul

from conftest import Store, fill, keys


def test_a_list_has_a_folder_or_everything_below_it(store_client: haul.Client, store: Store) -> None:
    fill(store, ["a.txt", "photos/1.jpg", "photos/2/3.jpg"])
    top = {found.key: found for found in store_client.list("s3://bucket/")}
    assert set(top) == {"a.txt", "photos/"}
    assert top["photos/"].is_folder and top["photos/"].modified is None
    file = top["a.txt"]
    assert (file.url, file.size, file.is_folder) == ("s3://bucket/a.txt", 5, False)
    assert file.etag
    assert file.modified is not None
    assert abs(datetime.now(timezone.utc) - file.modified) < timedelta(hours=1)
    assert pickle.loads(pickle.dumps(file)) == file
    everything = [found.key for found in store_client.list("s3://bucket", recursive=True)]
    assert everything == ["a.txt", "photos/1.jpg", "photos/2/3.jpg"]
    chosen = store_client.list("s3://bucket/photos/", recursive=True, exclude="2/*")
    assert [found.key for found in chosen] == ["photos/1.jpg"]
    assert [found.key for found in store_client.list("s3://bucket/*3.jpg", glob=True)] == ["photos/2/3.jpg"]
    assert list(store_client.list("s3://bucket/nothing/", recursive=True)) == []


def test_a_long_list_can_be_left(store_client: haul.Client, store: Store) -> None:
    fill(store, [f"{number:05}" for number in range(2500)])
    listing = iter(store_client.list("s3://bucket/"))
    assert next(listing).key == "00000"
    listing.close()  # type: ignore[attr-defined]

    async def count() -> int:
        return len([found async for found in store_client.list("s3://bucket/", recursive=True)])

    assert asyncio.run(count()) == 2500


def test_a_list_that_fails_is_an_exception(store_client: haul.Client, store: Store) -> None:
    with pytest.raises(haul.NetworkError) as caught:
        list(store_client.list("s3://no-such-bucket/"))
    assert caught.value.status == 404
    with pytest.raises(haul.UsageError, match="s3://"):
        store_client.list("https://example.com/")
    with pytest.raises(haul.UsageError, match="recursive"):
        store_client.list("s3://bucket/", include="*.jpg")


def test_delete(store_client: haul.Client, store: Store) -> None:
    fill(store, ["a", "b", "c*", "photos/1.jpg", "photos/2.png"])
    assert store_client.delete("s3://bucket/a").deleted == 1
    planned = store_client.delete("s3://bucket/photos", recursive=True, dry_run=True)
    assert planned.deleted == 2 and planned.ok
    assert keys(store) == ["b", "c*", "photos/1.jpg", "photos/2.png"]
    store_client.delete(["s3://bucket/b", "s3://bucket/photos/"], recursive=True, include="*.png")
    assert keys(store) == ["b", "c*", "photos/1.jpg"]
    assert asyncio.run(store_client.adelete("s3://bucket/photos/", recursive=True)).deleted == 1
    # Keys are what they say, unless the caller says otherwise.
    store_client.delete("s3://bucket/*")
    assert keys(store) == ["b", "c*"]
    store_client.delete("s3://bucket/c*")
    assert keys(store) == ["b"]
    assert store_client.delete("s3://bucket/*", glob=True).deleted == 1
    assert store_client.delete("s3://bucket/", recursive=True) == haul.Summary()


def test_results_of_a_deletion_come_one_by_one(store_client: haul.Client, store: Store) -> None:
    fill(store, ["a", "b"])
    with store_client.iter_delete("s3://bucket/", recursive=True, dry_run=True) as deletion:
        rows = list(deletion)
    assert [(row.action, row.source, row.target, row.state) for row in rows] == [
        ("delete", None, "s3://bucket/a", "planned"),
        ("delete", None, "s3://bucket/b", "planned"),
    ]
    assert deletion.summary().deleted == 2


def test_a_deletion_that_is_too_large_deletes_nothing(store_client: haul.Client, store: Store) -> None:
    fill(store, ["a", "b", "c"])
    with pytest.raises(haul.UsageError, match="more than 2") as caught:
        store_client.delete("s3://bucket/", recursive=True, max_delete=2)
    assert caught.value.hint is not None
    assert len(keys(store)) == 3


def test_a_folder_or_a_bucket_is_not_deleted_by_mistake(store_client: haul.Client, store: Store) -> None:
    fill(store, ["photos/1.jpg"])
    for url in ["s3://bucket", "s3://bucket/", "s3://bucket/photos/"]:
        with pytest.raises(haul.UsageError, match="is a") as caught:
            store_client.delete(url)
        assert "recursive=True" in str(caught.value)
    assert keys(store) == ["photos/1.jpg"]
    with pytest.raises(TypeError, match="recursiv"):
        store_client.delete("s3://bucket/photos", recursiv=True)  # type: ignore[call-arg]


def test_a_deletion_without_permission_is_an_exception(store: Store) -> None:
    client = haul.Client(retries=0, s3=store.settings() | {"secret_key": "wrong"})
    with pytest.raises(haul.NetworkError) as caught:
        client.delete("s3://bucket/a")
    assert caught.value.status == 403
