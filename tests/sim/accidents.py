"""What befalls a host as a whole, at a moment of its own: a restart, no network, a freeze, a clock that jumps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.sim.process import BROKER_TIMEOUT_S

if TYPE_CHECKING:
    from tests.sim.host import Host
    from tests.sim.world import World

__all__ = ("plan",)


def plan(world: World, hosts: list[Host], from_s: float, to_s: float) -> None:
    """Each accident of this run once or twice, to somebody."""
    for kind, befalls in _ACCIDENTS.items():
        for _ in range(world.rng.randint(1, 2)):
            host = world.rng.choice(hosts)
            world.after(world.rng.uniform(from_s, to_s), lambda kind=kind, b=befalls, host=host: _strike(kind, b, host))  # type: ignore[misc]


async def _strike(kind: str, befalls: Callable[[Host], Awaitable[None]], host: Host) -> None:
    if host.world.faults.happens(kind):
        await befalls(host)


async def _restart(host: Host) -> None:
    """A polite end, as by SIGTERM, and a new process at once."""
    process = host.process
    if process is not None:
        await process.enter(process.leave)
        process.die()


async def _partition(host: Host) -> None:
    """The cable is out: nobody is told, each end finds out by itself."""
    rng, process = host.world.rng, host.process
    host.is_cut_off = True
    if process is not None:
        process.lose("heartbeat missed", rng.uniform(1.0, BROKER_TIMEOUT_S), rng.uniform(1.0, BROKER_TIMEOUT_S))

    async def over() -> None:
        host.is_cut_off = False

    host.world.after(rng.uniform(3.0, 30.0), over)


async def _freeze(host: Host) -> None:
    """As SIGSTOP, or a laptop's lid: it holds what it has in hand, does nothing, and goes on as if nothing had been."""
    process, seconds = host.process, host.world.rng.uniform(2.0, 35.0)
    if process is not None:
        process.freeze(seconds)
        if seconds > BROKER_TIMEOUT_S:
            process.lose("closed by the broker", BROKER_TIMEOUT_S, seconds)


async def _skew(host: Host) -> None:
    """From now on it is a little off, sometimes by far too much."""
    rng = host.world.rng
    host.clock.turn_to(rng.randint(-12_000, 12_000) if rng.random() < 0.8 else rng.randint(-90_000, 90_000))


async def _step(host: Host) -> None:
    """Somebody sets it; somebody else sets it right again, or not."""
    rng = host.world.rng
    host.clock.turn_to(rng.choice((-1, 1)) * rng.randint(1_000, 20_000 if rng.random() < 0.8 else 60_000))

    async def back() -> None:
        host.clock.turn_to(0)

    if rng.random() < 0.5:
        host.world.after(rng.uniform(1.0, 20.0), back)


async def _stale_beat(host: Host) -> None:
    """It is started anew and switched off; when it has been silent for long, somebody plays what it said before."""
    world, others = host.world, [other for other in host.world.hosts if other is not host]
    await _restart(host)
    started_at = world.now

    async def off() -> None:
        if host.process is not None:
            host.is_off = True
            epoch = host.process.performer.gateway.epochs.epoch
            host.process.die()
            heard = [viewer for viewer in others if viewer.knows_epoch(host.name, epoch)]
            world.after(19.0, lambda: play(heard))

    async def play(viewers: list[Host]) -> None:
        silent = [(viewer, viewer.clock.skew_ms) for viewer in viewers if viewer.sees_silent(host.name)]
        for at, beat in list(world.broker.beats):
            if at < started_at and beat.routing_key == f"roster.{host.name}._gateway":
                world.broker.put(beat)
        world.after(0.5, lambda: look(silent))

    async def look(viewers: list[tuple[Host, int]]) -> None:
        if not host.is_off:
            return
        for viewer, skew_ms in viewers if not world.copies else ():  # a copy speaks for it
            if viewer.process and viewer.clock.skew_ms == skew_ms and not viewer.sees_silent(host.name):
                world.history.risen.append(f"{host.name} was switched off, and {viewer.name} shows it alive")
        host.is_off = False
        await host.start()

    world.after(8.0, off)


async def _copy(host: Host) -> None:
    """Its disk is copied to another machine, which is switched on: two hosts with one key."""
    world = host.world
    if not world.copies:
        world.copies.append(host.copied())
        world.history.is_a_host_copied = True
        await world.copies[0].start()


_ACCIDENTS: dict[str, Callable[[Host], Awaitable[None]]] = {
    "restart": _restart,
    "partition": _partition,
    "frozen-holder": _freeze,
    "clock-skew": _skew,
    "clock-step": _step,
    "stale-beat": _stale_beat,
    "cloned-state": _copy,
}
