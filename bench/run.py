"""Runs one bench: `scripts/bench NAME [flags]` calls it with the programs that it has built."""

import sys

from batch.cases import BatchBench
from get.cases import GetBench
from lib.bench import main
from python.cases import PythonBench
from s3.cases import S3Bench
from serve.cases import ServeBench
from tunnel.cases import TunnelBench
from wan.cases import WanBench

BENCHES = {bench.name: bench for bench in (GetBench, BatchBench, ServeBench, TunnelBench, S3Bench, PythonBench, WanBench)}

if __name__ == "__main__":
    main(BENCHES[sys.argv[1]], sys.argv[2:])
