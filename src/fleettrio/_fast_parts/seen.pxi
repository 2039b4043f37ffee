# What was seen. See `_pure/seen.py`.
#
# A ring has the ids in order of age; a table with open addressing and linear probing has their places in it, beside 32
# bits of their hashes. Both are as large from the start as they will ever be, and the system gives the memory when it
# is touched: nothing is ever moved or grown, and to forget one costs as much as to remember one. 28 to 40 bytes an id.

cdef extern from "sys/mman.h" nogil:
    void *mmap(void *where, size_t size, int protection, int flags, int file, long offset)
    int munmap(void *where, size_t size)
    int madvise(void *where, size_t size, int advice)
    int PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS
    void *MAP_FAILED

cdef extern from *:
    """
    #ifdef MADV_HUGEPAGE
    #define FLEETTRIO_HUGE(where, size) ((void) madvise(where, size, MADV_HUGEPAGE))
    #else
    #define FLEETTRIO_HUGE(where, size) ((void) 0)
    #endif
    #ifdef __GNUC__
    #define FLEETTRIO_SOON(where) __builtin_prefetch(where, 1)
    #else
    #define FLEETTRIO_SOON(where) ((void) 0)
    #endif
    """
    void FLEETTRIO_HUGE(void *where, size_t size) noexcept nogil
    void FLEETTRIO_SOON(const void *where) noexcept nogil

cdef enum:
    ID_SIZE = 16
    AHEAD = 32         # ids that are looked up together
    HUGE = 2097152     # bytes from which a table is worth large pages: each id is in another one


cdef class SeenSet:
    """Bounded set of ids of 16 bytes: it remembers the last `capacity` that were new, and forgets the oldest first."""

    cdef readonly Py_ssize_t capacity
    cdef Py_ssize_t count
    cdef Py_ssize_t oldest
    cdef uint64_t mask
    cdef uint64_t secret[2]
    cdef uint8_t *ring
    cdef uint64_t *table  # hash, then 1 + place in the ring; 0: empty

    def __cinit__(self, Py_ssize_t capacity):
        cdef uint64_t slots = 4
        cdef bytes secret = os.urandom(16)
        if not 1 <= capacity <= 1 << 28:
            raise ValueError("a SeenSet holds at least one id, and at most 2**28")
        while slots < <uint64_t> capacity + <uint64_t> capacity // 2:
            slots *= 2
        self.capacity = capacity
        self.mask = slots - 1
        # Ids come from peers: without a secret they could be chosen to collide.
        memcpy(self.secret, PyBytes_AS_STRING(secret), 16)
        self.ring = <uint8_t *> _map(capacity * ID_SIZE)
        self.table = <uint64_t *> _map(slots * sizeof(uint64_t))

    def __init__(self, capacity):
        pass

    def __dealloc__(self):
        _unmap(self.ring, self.capacity * ID_SIZE)
        _unmap(self.table, (self.mask + 1) * sizeof(uint64_t))

    def add(self, bytes key not None):
        """Remember `key`; False when it was known (it does not become younger by that)."""
        if PyBytes_GET_SIZE(key) != ID_SIZE:
            raise ValueError("an id has 16 bytes")
        return _add(self, <const uint8_t *> PyBytes_AS_STRING(key), _hash_id(self, PyBytes_AS_STRING(key)))

    def add_many(self, keys):
        """`add` each, in order."""
        cdef tuple held = tuple(keys)
        cdef Py_ssize_t at = 0, count = len(held)
        cdef list news = []
        while at < count:
            _look_ahead(self, held, at, min(count - at, <Py_ssize_t> AHEAD), news)
            at += AHEAD
        return news

    def __contains__(self, key):
        if not PyBytes_Check(key) or PyBytes_GET_SIZE(key) != ID_SIZE:
            return False
        cdef const uint8_t *data = <const uint8_t *> PyBytes_AS_STRING(key)
        return self.table[_find_slot(self, data, _hash_id(self, data))] != 0

    def __len__(self):
        return self.count


cdef void *_map(size_t size) except NULL:
    """Memory that is all zeros, and that is none, where it is much, before it is touched."""
    cdef void *where
    if size < HUGE:
        where = calloc(size, 1)
    else:
        where = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        where = NULL if where == MAP_FAILED else where
    if where == NULL:
        raise MemoryError
    if size >= HUGE:
        FLEETTRIO_HUGE(where, size)
    return where


cdef void _unmap(void *where, size_t size) noexcept:
    if where != NULL and size >= HUGE:
        munmap(where, size)
    else:
        free(where)


cdef int _look_ahead(SeenSet self, tuple keys, Py_ssize_t first, Py_ssize_t count, list news) except -1:
    """Add some, whose slots are fetched from memory all at once."""
    cdef const uint8_t *data[AHEAD]
    cdef uint32_t hashes[AHEAD]
    cdef Py_ssize_t at
    for at in range(count):
        if not _take_id(keys, first + at, &data[at]):
            count = at  # those before it are added, as by `add`
            break
        hashes[at] = _hash_id(self, data[at])
        FLEETTRIO_SOON(&self.table[hashes[at] & self.mask])
    for at in range(count):
        _put_news(news, _add(self, data[at], hashes[at]))
    if first + count < len(keys) and count < AHEAD:
        raise ValueError("an id has 16 bytes")
    return 0


cdef inline int _put_news(list news, bint is_new) except -1:
    news.append(is_new)
    return 0


cdef inline bint _take_id(tuple keys, Py_ssize_t at, const uint8_t **data) except -1:
    cdef bytes key = <bytes?> keys[at]
    data[0] = <const uint8_t *> PyBytes_AS_STRING(key)
    return PyBytes_GET_SIZE(key) == ID_SIZE


cdef inline uint32_t _hash_id(SeenSet self, const void *key) noexcept nogil:
    cdef uint64_t parts[2]
    memcpy(parts, key, ID_SIZE)
    parts[0] = (parts[0] ^ self.secret[0]) * <uint64_t> 0x9E3779B97F4A7C15
    parts[0] ^= parts[0] >> 32
    parts[0] = (parts[0] ^ parts[1] ^ self.secret[1]) * <uint64_t> 0xD6E8FEB86659FD93
    parts[0] ^= parts[0] >> 32
    return <uint32_t> (parts[0] * <uint64_t> 0x9E3779B97F4A7C15 >> 32)


cdef inline const uint8_t *_id_of(SeenSet self, uint64_t entry) noexcept nogil:
    return self.ring + ID_SIZE * (<Py_ssize_t> <uint32_t> entry - 1)


cdef inline uint64_t _find_slot(SeenSet self, const uint8_t *key, uint32_t hashed) noexcept nogil:
    """Where it is in the table, or the empty slot where it would be."""
    cdef uint64_t slot = hashed & self.mask
    while self.table[slot]:
        if self.table[slot] >> 32 == hashed and memcmp(_id_of(self, self.table[slot]), key, ID_SIZE) == 0:
            break
        slot = (slot + 1) & self.mask
    return slot


cdef bint _add(SeenSet self, const uint8_t *key, uint32_t hashed) noexcept nogil:
    cdef uint64_t slot = _find_slot(self, key, hashed)
    cdef Py_ssize_t place
    if self.table[slot]:
        return False
    if self.count < self.capacity:
        place = self.count
        self.count += 1
    else:
        place = self.oldest
        self.oldest = place + 1 if place + 1 < self.capacity else 0
        _forget(self, self.ring + ID_SIZE * place)
        slot = _find_slot(self, key, hashed)
    memcpy(self.ring + ID_SIZE * place, key, ID_SIZE)
    self.table[slot] = <uint64_t> hashed << 32 | <uint64_t> (place + 1)
    return True


cdef void _forget(SeenSet self, const uint8_t *key) noexcept nogil:
    """Empty its slot, and move those behind it up that would not be found any more (Knuth, 6.4, algorithm R)."""
    cdef uint64_t hole = _find_slot(self, key, _hash_id(self, key)), slot = hole, home
    while True:
        slot = (slot + 1) & self.mask
        if self.table[slot] == 0:
            break
        home = self.table[slot] >> 32 & self.mask
        if ((slot - home) & self.mask) >= ((slot - hole) & self.mask):
            self.table[hole] = self.table[slot]
            hole = slot
    self.table[hole] = 0
