"""Arrays kept in memory for the next call that asks for the same, as many as fit into a bound."""

import collections
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class BoundedCache(Generic[Kept]):
    """What was made last, by a key; those that were not asked for the longest time go first.

    The bound is on the bytes of all, as their makers count them. What is kept is shared: nobody may
    write to it.
    """

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self._kept: collections.OrderedDict[Hashable, tuple[Kept, int]] = collections.OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Callable[[], Hashable], num_bytes: int, make: Callable[[], Kept]) -> Kept:
        """What was made for an equal key, or make(); what is larger than the bound has no key."""
        if num_bytes > self.max_bytes:
            return make()
        own = key()
        with self._lock:
            if own in self._kept:
                self._kept.move_to_end(own)
                return self._kept[own][0]
        made = make()
        with self._lock:
            if own not in self._kept:
                self._kept[own] = made, num_bytes
                self._num_bytes += num_bytes
            while self._num_bytes > self.max_bytes:
                _, (_, oldest) = self._kept.popitem(last=False)
                self._num_bytes -= oldest
        return made
