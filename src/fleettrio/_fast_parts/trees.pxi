# Leaves, trees and proofs. See `_pure/trees.py`.

cdef enum:
    MAX_BATCH = 256
    MAX_LEVELS = 8
    PROOF_SIZE = 4 + 32 * MAX_LEVELS

cdef struct Message:
    const uint8_t *header
    Py_ssize_t header_size
    const uint8_t *body
    Py_ssize_t body_size
    const uint8_t *proof
    Py_ssize_t proof_size
    uint8_t leaf[32]
    uint8_t root[32]
    Py_ssize_t count  # messages under the signature; 0: the proof has not the shape of one


cdef struct Way:
    # From a leaf up to a root, by a proof that was one.
    Py_ssize_t index
    Py_ssize_t count  # 0: no way was gone yet
    uint8_t nodes[32 * (MAX_LEVELS + 1)]
    Py_ssize_t at[MAX_LEVELS + 1]  # where in the proof the siblings above each level begin
    const uint8_t *proof
    Py_ssize_t size


cdef void _measure_each(Message *messages, Py_ssize_t count) noexcept nogil:
    """Their leaves, and where their proofs lead from there. Neighbours in a batch meet soon, and go on together."""
    cdef Py_ssize_t at
    cdef Way way
    way.count = 0
    for at in range(count):
        _hash_leaf(&messages[at])
        memcpy(messages[at].root, messages[at].leaf, 32)
        messages[at].count = _climb(messages[at].root, messages[at].proof, messages[at].proof_size, &way)


cdef void _hash_leaf(Message *message) noexcept nogil:
    cdef uint8_t space[HASH_STATE + 64]
    cdef void *state = <void *> ((<uintptr_t> &space[0] + 63) & ~<uintptr_t> 63)
    cdef uint8_t head[5]
    cdef int at
    head[0] = 0
    for at in range(4):
        head[1 + at] = <uint8_t> (<uint64_t> message.header_size >> 8 * (3 - at))
    sodium_hash_init(state, NULL, 0, 32)
    sodium_hash_update(state, head, 5)
    sodium_hash_update(state, message.header, message.header_size)
    sodium_hash_update(state, message.body, message.body_size)
    sodium_hash_final(state, message.leaf, 32)


cdef int _take_parts(Message *message, bytes header, bytes body) except -1:
    if header is None or body is None:
        raise TypeError("header and body must be bytes")
    message.header = <const uint8_t *> PyBytes_AS_STRING(header)
    message.header_size = PyBytes_GET_SIZE(header)
    message.body = <const uint8_t *> PyBytes_AS_STRING(body)
    message.body_size = PyBytes_GET_SIZE(body)
    message.proof = message.header
    message.proof_size = 0
    if <uint64_t> message.header_size >> 32 != 0:
        raise OverflowError("int too big to convert")
    return 0


def leaf_of(bytes header not None, bytes body not None):
    """BLAKE2b-256 over the exact bytes of header and body (32 bytes)."""
    cdef Message message
    _take_parts(&message, header, body)
    if message.header_size + message.body_size > KEPT_GIL:
        with nogil:
            _hash_leaf(&message)
    else:
        _hash_leaf(&message)
    return PyBytes_FromStringAndSize(<const char *> message.leaf, 32)


def leaves_of(messages):
    """`leaf_of` each `(header, body)`."""
    cdef list leaves = []
    _measure_all(tuple(messages), leaves, 2)
    return leaves


def roots_of(messages):
    """For each `(header, body, proof)` its leaf, the root and the size of its batch; or its leaf and what is wrong.

    As `leaf_of` and `root_of` say it.
    """
    cdef list found = []
    _measure_all(tuple(messages), found, 3)
    return found


cdef int _measure_all(tuple held, list found, Py_ssize_t parts) except -1:
    cdef Py_ssize_t count = len(held), at, size = 0
    cdef Message *messages = <Message *> PyMem_Malloc((count + 1) * sizeof(Message))
    if messages == NULL:
        raise MemoryError
    try:
        for at in range(count):
            _take_message(&messages[at], held, at, parts)
            size += messages[at].header_size + messages[at].body_size + messages[at].proof_size
        if size > KEPT_GIL:
            with nogil:
                _measure_each(messages, count)
        else:
            _measure_each(messages, count)
        for at in range(count):
            _put_measured(&messages[at], held, at, parts, found)
    finally:
        PyMem_Free(messages)
    return 0


cdef int _take_message(Message *message, tuple held, Py_ssize_t at, Py_ssize_t parts) except -1:
    """A tuple of bytes and nothing else: only those stay as they are while the GIL is given away."""
    cdef tuple item = <tuple?> held[at]
    cdef bytes proof
    if len(item) != parts:
        raise ValueError(f"a message has {parts} parts here, not {len(item)}")
    _take_parts(message, <bytes?> item[0], <bytes?> item[1])
    if parts == 3:
        proof = <bytes?> item[2]
        message.proof = <const uint8_t *> PyBytes_AS_STRING(proof)
        message.proof_size = PyBytes_GET_SIZE(proof)
    return 0


cdef int _put_measured(Message *message, tuple held, Py_ssize_t at, Py_ssize_t parts, list found) except -1:
    leaf = PyBytes_FromStringAndSize(<const char *> message.leaf, 32)
    if parts == 2:
        found.append(leaf)
    elif message.count == 0:
        found.extend(_pure.roots_of((held[at],)))
    elif message.count == 1:
        found.append((leaf, leaf, 1))
    else:
        found.append((leaf, PyBytes_FromStringAndSize(<const char *> message.root, 32), message.count))
    return 0


cdef void _node(uint8_t *out, const uint8_t *left, const uint8_t *right) noexcept nogil:
    cdef uint8_t data[65]
    data[0] = 1
    memcpy(data + 1, left, 32)
    memcpy(data + 33, right, 32)
    sodium_hash(out, 32, data, 65, NULL, 0)


cdef struct Tree:
    uint8_t level[32 * MAX_BATCH]
    uint8_t proofs[PROOF_SIZE * MAX_BATCH]
    Py_ssize_t sizes[MAX_BATCH]


def merkle(leaves):
    """Root over 1 to 256 leaves and a proof for each; the proof of a lone leaf is empty.

    An odd node is promoted unchanged. Raises `ValueError` for another number of leaves, or another length of one.
    """
    cdef tuple held = tuple(leaves)
    cdef Py_ssize_t count = len(held), at
    cdef list proofs = []
    cdef Tree *tree
    if not 1 <= count <= MAX_BATCH:
        raise ValueError(f"a batch has 1 to 256 leaves, not {count}")
    tree = <Tree *> PyMem_Malloc(sizeof(Tree))
    if tree == NULL:
        raise MemoryError
    try:
        for at in range(count):
            _take_leaf(tree, held, at)
        if count == 1:
            return held[0], [b""]
        _grow(tree, count)
        for at in range(count):
            _put_proof(tree, proofs, at)
        return PyBytes_FromStringAndSize(<const char *> tree.level, 32), proofs
    finally:
        PyMem_Free(tree)


cdef int _take_leaf(Tree *tree, tuple held, Py_ssize_t at) except -1:
    cdef bytes leaf = held[at]
    if leaf is None or PyBytes_GET_SIZE(leaf) != 32:
        raise ValueError("a leaf has 32 bytes")
    memcpy(tree.level + 32 * at, PyBytes_AS_STRING(leaf), 32)
    return 0


cdef int _put_proof(Tree *tree, list proofs, Py_ssize_t at) except -1:
    proofs.append(PyBytes_FromStringAndSize(<const char *> tree.proofs + PROOF_SIZE * at, tree.sizes[at]))
    return 0


cdef void _grow(Tree *tree, Py_ssize_t count) noexcept nogil:
    """From the leaves in `level` to the root in its first 32 bytes; the proofs take their siblings on the way up."""
    cdef Py_ssize_t at, sibling, width = count
    cdef int depth = 0
    cdef uint8_t *proof
    for at in range(count):
        proof = tree.proofs + PROOF_SIZE * at
        proof[0] = <uint8_t> (at >> 8)
        proof[1] = <uint8_t> at
        proof[2] = <uint8_t> (count >> 8)
        proof[3] = <uint8_t> count
        tree.sizes[at] = 4
    while width > 1:
        for at in range(count):
            sibling = (at >> depth) ^ 1
            if sibling < width:
                memcpy(tree.proofs + PROOF_SIZE * at + tree.sizes[at], tree.level + 32 * sibling, 32)
                tree.sizes[at] += 32
        for at in range(width >> 1):
            _node(tree.level + 32 * at, tree.level + 64 * at, tree.level + 64 * at + 32)
        if width & 1:
            memcpy(tree.level + 32 * (width >> 1), tree.level + 32 * (width - 1), 32)
        width = (width + 1) >> 1
        depth += 1


def root_of(bytes leaf not None, bytes proof not None):
    """Root that `proof` leads to from `leaf`, and the number of messages in its batch.

    Raises `MalformedEnvelope` when the proof has another shape than a tree of that size gives.
    """
    cdef uint8_t node[32]
    cdef Py_ssize_t count
    cdef Way way
    way.count = 0
    if PyBytes_GET_SIZE(leaf) == 32:
        memcpy(node, PyBytes_AS_STRING(leaf), 32)
        count = _climb(node, <const uint8_t *> PyBytes_AS_STRING(proof), PyBytes_GET_SIZE(proof), &way)
        if count:
            return PyBytes_FromStringAndSize(<const char *> node, 32), count
    return _pure.root_of(leaf, proof)


cdef Py_ssize_t _climb(uint8_t *node, const uint8_t *proof, Py_ssize_t size, Way *way) noexcept nogil:
    """From a leaf to its root, both in `node`; the size of its batch, or 0 for a proof that is none.

    Where it comes to a node that was passed on the way gone before, with the same siblings above, the rest is known.
    """
    cdef Py_ssize_t index, place, count, width, at = 4
    cdef int level = 0, top
    if size == 0:
        return 1
    if size < 4:
        return 0
    index, count = <Py_ssize_t> proof[0] << 8 | proof[1], <Py_ssize_t> proof[2] << 8 | proof[3]
    if count < 2 or count > MAX_BATCH or index >= count:
        return 0
    if way.count != count:
        way.count = 0
    width, place = count, index
    while width > 1:
        if way.count and way.index >> level == place and _meets(way, level, node, proof + at, size - at):
            break
        memcpy(way.nodes + 32 * level, node, 32)
        way.at[level] = at
        if (place ^ 1) < width:
            if size - at < 32:
                way.count = 0
                return 0
            if place & 1:
                _node(node, proof + at, node)
            else:
                _node(node, node, proof + at)
            at += 32
        place >>= 1
        width = (width + 1) >> 1
        level += 1
    top = _levels(count)
    if width == 1:
        if at != size:
            way.count = 0
            return 0
        memcpy(way.nodes + 32 * top, node, 32)
    else:
        _follow(way, level, top, at)
        memcpy(node, way.nodes + 32 * top, 32)
    way.index, way.count, way.proof, way.size = index, count, proof, size
    return count


cdef inline int _levels(Py_ssize_t width) noexcept nogil:
    cdef int levels = 0
    while width > 1:
        width = (width + 1) >> 1
        levels += 1
    return levels


cdef inline bint _meets(
    const Way *way, int level, const uint8_t *node, const uint8_t *rest, Py_ssize_t size
) noexcept nogil:
    return (
        way.size - way.at[level] == size
        and memcmp(way.nodes + 32 * level, node, 32) == 0
        and memcmp(way.proof + way.at[level], rest, size) == 0
    )


cdef inline void _follow(Way *way, int level, int top, Py_ssize_t at) noexcept nogil:
    """What is above was gone with another proof, in which it began elsewhere."""
    cdef Py_ssize_t moved = at - way.at[level]
    while level < top:
        way.at[level] += moved
        level += 1
