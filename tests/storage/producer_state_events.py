"""Random events for a producer state: plausible enough to get deep, wrong often enough to be refused."""

from __future__ import annotations

import random

SEQUENCES = (0, 0, 1, 7, 2**31 - 1, 2**31 - 3)


def random_events(seed: int, count: int) -> list[str]:
    """Give a run of `count` events, the same for the same seed."""
    chance = random.Random(seed)
    next_sequence: dict[int, int] = {}
    epochs: dict[int, int] = {}
    now = 1000
    end = 0
    recent: list[str] = []
    events = [f"begin {chance.choice((500, 5000, 10**9))}"]
    while len(events) < count:
        now += chance.randrange(100)
        producer = chance.randrange(4)
        kind = chance.random()
        if kind < 0.6:
            if recent and chance.random() < 0.15:
                events.append(chance.choice(recent[-8:]))
                continue
            epoch = epochs.get(producer, 0)
            if chance.random() < 0.08:
                epoch = max(0, epoch + chance.choice((-1, 1, 1)))
                next_sequence[producer] = 0
            records = chance.randint(1, 4)
            sequence = next_sequence.get(producer, chance.choice(SEQUENCES))
            if chance.random() < 0.08:
                sequence = chance.choice((*SEQUENCES, sequence + 1, max(sequence - 1, 0))) & (2**31 - 1)
            origin = chance.choices(("client", "replication", "coordinator"), (20, 2, 1))[0]
            transactional = "yes" if chance.random() < (0.9 if producer % 2 else 0.05) else "no"
            event = (
                f"batch origin={origin} producer={producer} epoch={epoch} sequence={sequence} count={records} "
                f"time={now} transactional={transactional}"
            )
            epochs[producer] = max(epoch, epochs.get(producer, 0))
            next_sequence[producer] = (sequence + records) & (2**31 - 1)
            recent.append(event)
            events.append(event)
            end += records
        elif kind < 0.8:
            epoch = max(0, epochs.get(producer, 0) + chance.choice((0, 0, 0, 0, 1, -1)))
            if epoch > epochs.get(producer, 0):
                epochs[producer] = epoch
                next_sequence[producer] = 0
            origin = chance.choices(("coordinator", "replication"), (5, 1))[0]
            events.append(
                f"marker origin={origin} producer={producer} epoch={epoch} coordinator={chance.choice((0, 0, 0, 1))} "
                f"type={chance.choice(('abort', 'commit'))} time={now}"
            )
            end += 1
        else:
            events.append(_other(chance, end, now))
    return events


def _other(chance: random.Random, end: int, now: int) -> str:
    return chance.choices(
        (
            f"high-watermark offset={chance.randint(0, end + 1)}",
            f"log-start offset={chance.randint(0, end // 4 + 1)}",
            f"expire now={now}",
            "snapshot",
            f"reload start={chance.randint(0, end // 4 + 1)} end={chance.randint(end // 2, end + 1)} now={now}",
            f"start-anew offset={chance.randint(0, end + 1)}",
        ),
        (10, 3, 4, 8, 3, 0.3),
    )[0]
