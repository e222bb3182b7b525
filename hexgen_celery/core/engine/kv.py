"""KV memory in blocks, shared between equal prompt beginnings and kept after use (prefix cache).

The cache is a tree of prompt parts. A part owns the blocks that end inside it, so a block across
two parts belongs to the later one. Blocks of one part are always taken and given back together and
evicted from their end, hence "how many of its leading blocks are cached" describes a part exactly,
and one LRU entry per part equals an LRU of single blocks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hexgen_celery.core.prefix import Prefix

PartKey = tuple[str, int]


@dataclass(slots=True, eq=False)
class CacheNode:
    """One part of a prompt behind one particular beginning.

    `first_block` counts from the start of the prompt; `cached` of the `blocks` hold computed
    tokens; `users` running sequences need all of them.
    """

    key: PartKey
    parent: CacheNode | None
    end_tokens: int
    first_block: int
    blocks: int
    cached: int = 0
    users: int = 0
    children: dict[PartKey, CacheNode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lease:
    """What one running sequence holds of the cache: shared parts, and `hit_tokens` found ready."""

    nodes: tuple[CacheNode, ...]
    shared_blocks: int
    hit_tokens: int


class KvPool:
    """All KV blocks of a server: used by running sequences, cached and evictable, or blank."""

    def __init__(self, total_blocks: int, block_tokens: int, *, sharing: bool = True) -> None:
        self.total_blocks = total_blocks
        self.block_tokens = block_tokens
        self.used_blocks = 0
        self.evictable_blocks = 0
        self.sharing = sharing
        self._root = CacheNode(("", 0), None, 0, 0, 0)
        self._lru: OrderedDict[CacheNode, None] = OrderedDict()

    @property
    def free_blocks(self) -> int:
        """Blocks that can be had at once: blank ones and evictable ones."""
        return self.total_blocks - self.used_blocks

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_tokens)

    def cached_tokens(self, prefix: Prefix, input_tokens: int) -> int:
        """Leading tokens of a prompt that would be found in the cache now (whole blocks)."""
        # The walk of `_existing`, spelled out: routers take it for every instance of a decision.
        room = input_tokens - 1 if self.sharing else 0
        children, hit_blocks = self._root.children, 0
        for part in prefix:
            tokens = part.tokens if part.tokens < room else room
            node = children.get((part.key, tokens)) if tokens > 0 else None
            if node is None:
                break
            hit_blocks += node.cached
            if node.cached < node.blocks:
                break
            room -= tokens
            children = node.children
        return hit_blocks * self.block_tokens

    def acquire(
        self, prefix: Prefix, input_tokens: int, target_tokens: int, reserved_blocks: int
    ) -> Lease | None:
        """Take blocks for a prompt of `target_tokens`, reusing cached ones.

        Returns None, changing nothing, when they would leave fewer than `reserved_blocks` free.
        """
        shared_in_use = sum(n.blocks for n in self._existing(prefix, input_tokens) if n.users)
        extra = self.blocks_for(target_tokens) - shared_in_use
        if self.used_blocks + extra + reserved_blocks > self.total_blocks:
            return None
        hit_tokens = self.cached_tokens(prefix, input_tokens)
        nodes = tuple(self._chain(prefix, input_tokens))
        for node in nodes:
            self._pin(node)
        self.used_blocks += extra
        self._evict_overflow()
        return Lease(nodes, sum(node.blocks for node in nodes), hit_tokens)

    def record(self, lease: Lease, computed_tokens: int) -> None:
        """Note that the first `computed_tokens` of the prompt are (being) computed: reusable."""
        computed_blocks = computed_tokens // self.block_tokens
        for node in lease.nodes:
            node.cached = max(node.cached, min(node.blocks, computed_blocks - node.first_block))

    def grow(self, blocks: int) -> None:
        """Take `blocks` more for generated tokens; the caller has checked `free_blocks`."""
        self.used_blocks += blocks
        self._evict_overflow()

    def release(self, lease: Lease, held_tokens: int) -> None:
        """Give back the blocks of a sequence that held `held_tokens`; their content stays cached.

        Like vLLM's free queue, later blocks are queued for eviction before earlier ones, and the
        blocks nobody else can reuse age in the same queue.
        """
        private = self.blocks_for(held_tokens) - lease.shared_blocks
        self.used_blocks -= private
        if self.sharing and private > 0:
            self._keep(CacheNode(("", 0), None, 0, 0, private, cached=private))
        for node in reversed(lease.nodes):
            self._unpin(node)

    def _parts(self, prefix: Prefix, input_tokens: int) -> Iterator[PartKey]:
        """The parts that may be shared: at least one prompt token is always computed anew."""
        room = input_tokens - 1 if self.sharing else 0
        for part in prefix:
            tokens = min(part.tokens, room)
            if tokens <= 0:
                return
            room -= tokens
            yield part.key, tokens

    def _existing(self, prefix: Prefix, input_tokens: int) -> Iterator[CacheNode]:
        node = self._root
        for key in self._parts(prefix, input_tokens):
            child = node.children.get(key)
            if child is None:
                return
            node = child
            yield node

    def _chain(self, prefix: Prefix, input_tokens: int) -> Iterator[CacheNode]:
        node = self._root
        for key in self._parts(prefix, input_tokens):
            node = node.children.get(key) or self._add_child(node, key)
            yield node

    def _add_child(self, parent: CacheNode, key: PartKey) -> CacheNode:
        end = parent.end_tokens + key[1]
        first = parent.end_tokens // self.block_tokens
        child = CacheNode(key, parent, end, first, end // self.block_tokens - first)
        parent.children[key] = child
        return child

    def _pin(self, node: CacheNode) -> None:
        if node.users == 0 and node.cached:
            del self._lru[node]
            self.evictable_blocks -= node.cached
        node.users += 1

    def _unpin(self, node: CacheNode) -> None:
        node.users -= 1
        if node.users:
            return
        self.used_blocks -= node.blocks
        if node.cached:
            self._keep(node)
        else:
            self._prune(node)

    def _keep(self, node: CacheNode) -> None:
        self._lru[node] = None
        self.evictable_blocks += node.cached

    def _evict_overflow(self) -> None:
        excess = self.used_blocks + self.evictable_blocks - self.total_blocks
        while excess > 0:
            node = next(iter(self._lru))
            taken = min(excess, node.cached)
            node.cached -= taken
            excess -= taken
            self.evictable_blocks -= taken
            if node.cached == 0:
                del self._lru[node]
                self._prune(node)

    def _prune(self, node: CacheNode) -> None:
        """Forget parts of which nothing is left."""
        while node.parent and not (node.users or node.cached or node.children):
            del node.parent.children[node.key]
            node = node.parent
