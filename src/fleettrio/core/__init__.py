"""What a gateway decides: facts in, actions out. No I/O, no clock, no task.

Begin with `gateway` (one object, one call a fact), `parts` (what it is made of, and every hook between parts) and
`forward` (a state machine, as all of them are written). The files, by what they are about:

- The frame: `rules` `timers` `events` `requests` `harness` (facts); `actions` `records` (what is to be done); `rows`
  `entity` `peer` `spawned` `calls` (what is remembered); `beginning` `storefault` `lookups` `wallmark`.
- The broker: `link` `publishes` `topology` `permissions`.
- What comes: `arrivals` `intake` `refusals` `supersedes` `tombstones` `recalled` `deadletters`.
- What waits for the agents here, and how it lands: `inbox` `ledger` `recent` `lane` `forward` `offers` `handouts`
  `picks`; whether it may: `gate` `guard` `depth` `rates` `pauses` `claimgate`; what moved meanwhile: `looks` `drift`.
- What is sent from here: `sends` `fork` `recipients` `bodies` `compose` `keys` `broadcasts` `dues`; what became of it:
  `outbox` `openrows` `said` `words` `fates` `failures`.
- Who is told what became of theirs: other hosts by `notices` `briefs` `lastwords`; agents here by `neighbours`.
- Questions, and calls that wait: `asks` `questions` `turns` `asked` `owed` `live` `waiting` `waits`.
- Who is where: `roster` `directory` `named` `presence` `hearing` `epochs` `pings` `trust`.
- What hosts and fleets do for each other: `controls` `orders` `orderwords` `rpc` `claims` `traces`; `coordination`
  `leads` `mailbox`.
- The agents and the people of this host: `agents` `spawns` `admission` `spawn_orders` `stops` `nudges`; `news`
  `beside`.
"""
