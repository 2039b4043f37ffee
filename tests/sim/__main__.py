"""`make sim SEEDS=…`: many runs, those first that once failed. Failing seeds are kept in `seeds.txt`."""

from __future__ import annotations

import multiprocessing
import sys
import time

from tests.sim.run import run_seed
from tests.sim.seeds import Tally, add_failed, once_failed

TELL_EVERY = 100


def main(seeds: int) -> int:
    began = time.monotonic()
    tally, chosen = Tally(), [*once_failed(), *range(seeds)]
    with multiprocessing.Pool() as pool:
        for run in pool.imap_unordered(run_seed, chosen, chunksize=8):
            tally.add(run)
            if run.broken:
                print(f"\nseed {run.seed}: {run.broken[0]}")
            if tally.runs % TELL_EVERY == 0 or tally.runs == len(chosen):
                spent = time.monotonic() - began
                print(f"\r{tally.runs} of {len(chosen)} seeds, {len(tally.failed)} failed, {spent:.0f} s", end="")
    print()
    print("\n".join(tally.told()))
    add_failed(tally.failed)
    return 1 if tally.failed or tally.rare else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
