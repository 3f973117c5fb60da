"""The same on Spark, whose `mapInArrow` hands record batches to a function: as docs show it."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from conftest import Answer, Origin, content
from test_ray_places import entry

pyspark = pytest.importorskip("pyspark")
