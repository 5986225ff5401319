"""Run llama.cpp's server on a GGUF file: `python -m trailforge.small_model.embedded_server PORT SLOTS WEIGHTS`.

It is a process of its own and ends when its standard input does, so it never outlives the process that started it,
however that one died.
"""

from __future__ import annotations

import os
import sys

from trailforge.inference.packaged import EMBEDDED_CONTEXT

_THREADS = 2


def main(port: int, slots: int, weights: str) -> None:
    """Serve the GGUF file `weights`, at most `slots` requests at a time, until standard input ends."""
    import xllamacpp

    params = xllamacpp.CommonParams()  # pyright: ignore[reportAttributeAccessIssue]
    params.model.path = weights
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = slots
    params.cache_ram_mib = 0  # by default it keeps up to 8 GiB of old prompts
    params.n_ctx = slots * EMBEDDED_CONTEXT
    threads = min(_THREADS, os.cpu_count() or 1)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)  # pyright: ignore[reportAttributeAccessIssue]  # serves while it lives
    sys.stdin.buffer.read()
    del server
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
