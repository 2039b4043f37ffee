"""`fleettrio bench`: what messages cost and how fast they are, measured on this machine beside other clients."""

from __future__ import annotations

import pathlib

import click

from fleettrio.bench import BENCHMARKS

__all__ = ("bench",)

_PLOT = "plot"


@click.command(
    epilog="\b\nExamples:\n  fleettrio bench hop\n  fleettrio bench all --json out.json\n"
    "  fleettrio bench micro --compare out.json    # exit 3 when a ratio fell\n"
    "  fleettrio bench hop --profile flames        # two flame graphs\n"
    "  fleettrio bench plot --out pictures",
)
@click.argument("kind", metavar="[KIND]", type=click.Choice([*BENCHMARKS, "all", _PLOT]), default="all")
@click.argument("files", metavar="[CSV]...", nargs=-1, type=click.Path(path_type=pathlib.Path))
@click.option("--json", "json_file", type=click.Path(path_type=pathlib.Path), help="Write the results to this file.")
@click.option(
    "--compare",
    type=click.Path(path_type=pathlib.Path),
    help="The JSON of an earlier run: exit 3 when a ratio is a fifth lower than there.",
)
@click.option("--rounds", type=click.IntRange(1, 99), default=7, show_default=True, help="How often each is measured.")
@click.option("--record", is_flag=True, help="Add the results to benchmarks/results/*.csv of this checkout.")
@click.option(
    "--out", type=click.Path(path_type=pathlib.Path), help="plot: the folder for the pictures; without it, this one."
)
@click.option(
    "--profile",
    type=click.Path(path_type=pathlib.Path),
    help="hop: draw into this folder where both daemons spend their time (SVG), instead of measuring them.",
)
def bench(
    kind: str,
    files: tuple[pathlib.Path, ...],
    json_file: pathlib.Path | None,
    compare: pathlib.Path | None,
    rounds: int,
    record: bool,
    out: pathlib.Path | None,
    profile: pathlib.Path | None,
) -> int:
    """What messages cost and how fast they are, beside peers that do the same work in the same run.

    \b
    micro    header, frames, signatures and envelopes, each by itself
    wire     bytes and frames of a message between host and broker
    hop      messages from a host to another one through the broker
    latency  one message at a time, until its answer
    local    messages between agents of one host, no broker
    scale    a thousand agents, many hosts, a broker that comes back
    curve    the hop with more in flight, longer bodies, more inboxes
    all      all of them: what it does without a KIND, and takes long
    plot     measures nothing: pictures (PNG) of what was recorded, in
             the CSV files or in benchmarks/results of this checkout

    It starts a private broker and daemons of its own, and ends them. What runs now is told on standard error. Only
    ratios within one run say much: a busy machine slows all of it down.
    """
    if kind == _PLOT:
        if json_file or compare or record or profile:
            raise click.UsageError("plot measures nothing: it takes CSV files and --out, and no other option")
        return _plot(files, out or pathlib.Path())
    if files or out:
        raise click.UsageError(f"CSV files and --out are for plot, not for {kind}")
    if profile and kind != "hop":
        raise click.UsageError(f"--profile is for hop, not for {kind}")
    from fleettrio.bench.main import run_bench

    names = list(BENCHMARKS) if kind == "all" else [kind]
    return run_bench(names, rounds=rounds, json=json_file, compare=compare, is_recorded=record, profile=profile)


def _plot(files: tuple[pathlib.Path, ...], out: pathlib.Path) -> int:
    from fleettrio.bench.plot import plot

    for picture in plot(files, out):
        print(picture)
    return 0
