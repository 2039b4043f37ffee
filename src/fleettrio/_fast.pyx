# cython: language_level=3, embedsignature=True, binding=True, boundscheck=True
"""Compiled twin of `_pure.py`: same names, results, errors and texts. No policy here; the rules stand there.

Rules of its own:

1. No loop over fields, leaves or signatures calls into Python: what touches objects is one C function per item, beside
   the loop.
2. Wire bytes are read through `Reader`, which never moves past its end.
3. Cryptography is libsodium's, out of the library file that PyNaCl ships. Signatures and large leaves are worked on
   without the GIL, over objects that a tuple of ours keeps alive and that nobody can change.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next, PyDict_Size
from cpython.exc cimport PyErr_Clear
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong, PyLong_Check
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.number cimport PyNumber_Invert
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

import os

import nacl._sodium
# The bindings initialise the library: it picks its fastest code for this processor.
import nacl.bindings

from fleettrio.errors import MalformedEnvelope

__all__ = (
    "SeenSet",
    "decode_header",
    "encode_header",
    "leaf_of",
    "merkle",
    "root_of",
    "verify_many",
)

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    # By hand: guarding each text by `try` costs more than decoding it.
    PyObject *PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)

cdef enum:
    MAX_HEADER = 4096
    MAX_BATCH = 256
    MAX_KEY = 23
    MAX_LEVELS = 8
    PROOF_SIZE = 4 + 32 * MAX_LEVELS
    KEPT_GIL = 16384  # bytes of a leaf that are hashed sooner than another thread could make use of the GIL

cdef enum:
    UINT = 0
    NEGATIVE = 1
    BYTES = 2
    TEXT = 3
    MAP = 5
    BOOL = 7
    FALSE = 0xF4
    TRUE = 0xF5


# --- libsodium ----------------------------------------------------------------------------------

cdef extern from "dlfcn.h" nogil:
    void *dlopen(const char *path, int flags)
    void *dlsym(void *library, const char *name)
    int RTLD_NOW

ctypedef int (*verify_function)(
    const uint8_t *signature, const uint8_t *message, unsigned long long size, const uint8_t *key
) noexcept nogil
ctypedef int (*hash_function)(
    uint8_t *out, size_t out_size, const uint8_t *data, unsigned long long size, const uint8_t *key, size_t key_size
) noexcept nogil

cdef verify_function sodium_verify = NULL
cdef hash_function sodium_hash = NULL


cdef void *_find(void *library, const char *name) except NULL:
    cdef void *found = dlsym(library, name)
    if found == NULL:
        raise ImportError(f"the library of PyNaCl has no {name.decode()}")
    return found


cdef int _open_sodium() except -1:
    global sodium_verify, sodium_hash
    cdef bytes path = os.fsencode(nacl._sodium.__file__)
    cdef void *library = dlopen(path, RTLD_NOW)
    if library == NULL:
        raise ImportError(f"the library of PyNaCl cannot be opened: {nacl._sodium.__file__}")
    sodium_verify = <verify_function> _find(library, b"crypto_sign_ed25519_verify_detached")
    sodium_hash = <hash_function> _find(library, b"crypto_generichash_blake2b")
    return 0


_open_sodium()


# --- header: encode -----------------------------------------------------------------------------

cdef struct Field:
    const uint8_t *key
    Py_ssize_t key_size
    const uint8_t *data  # of text and bytes
    uint64_t number      # its size, or the number itself
    uint8_t major


def encode_header(fields):
    """The canonical bytes of `fields`.

    Raises `MalformedEnvelope`, naming the field, for anything that a header cannot hold, and for over 4 KiB.
    """
    # The entries point into keys and values; no Python code runs between here and the last copy that could free one.
    cdef dict held = fields if type(fields) is dict else dict(fields)
    cdef Py_ssize_t count = PyDict_Size(held), position = 0, at = 0, size
    cdef PyObject *key = NULL
    cdef PyObject *value = NULL
    cdef bytes header
    cdef Field *entries = <Field *> PyMem_Malloc((count + 1) * sizeof(Field))
    if entries == NULL:
        raise MemoryError
    try:
        size = _head_size(count)
        while at < count and _next(held, &position, &key, &value):
            _take_field(key, value, &entries[at])
            size += _field_size(&entries[at])
            at += 1
        if size > MAX_HEADER:
            raise MalformedEnvelope(f"header: {size} bytes, the most is 4096")
        header = PyBytes_FromStringAndSize(NULL, size)
        _sort(entries, at)
        _write(<uint8_t *> PyBytes_AS_STRING(header), entries, at)
        return header
    finally:
        PyMem_Free(entries)


cdef inline bint _next(dict held, Py_ssize_t *position, PyObject **key, PyObject **value) noexcept:
    return PyDict_Next(held, position, key, value)


cdef int _take_field(PyObject *borrowed_key, PyObject *borrowed_value, Field *field) except -1:
    """Point `field` at what the two objects hold."""
    cdef object key = <object> borrowed_key
    cdef object value = <object> borrowed_value
    if not PyUnicode_Check(key):
        raise MalformedEnvelope("header: a field name is not text")
    field.key = _utf8(key, key, &field.key_size)
    if field.key_size > MAX_KEY:
        raise MalformedEnvelope(f"header: field {key!a} has a name over 23 bytes")
    cdef Py_ssize_t size = 0
    field.data = NULL
    if value is True or value is False:
        field.major = BOOL
        field.number = 1 if value is True else 0
    elif PyLong_Check(value):
        _take_number(key, value, field)
    elif PyUnicode_Check(value):
        field.major = TEXT
        field.data = _utf8(key, value, &size)
        field.number = <uint64_t> size
    elif PyBytes_Check(value):
        field.major = BYTES
        field.data = <const uint8_t *> PyBytes_AS_STRING(value)
        field.number = <uint64_t> PyBytes_GET_SIZE(value)
    else:
        raise MalformedEnvelope(f"header: field {key!a} is not int, text, bytes or bool")
    return 0


cdef int _take_number(object key, object value, Field *field) except -1:
    cdef int overflow = 0
    cdef long long small = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow == 0:
        field.major = UINT if small >= 0 else NEGATIVE
        field.number = <uint64_t> small if small >= 0 else <uint64_t> (-1 - small)
        return 0
    field.major = UINT if overflow > 0 else NEGATIVE
    try:
        field.number = PyLong_AsUnsignedLongLong(value if overflow > 0 else PyNumber_Invert(value))
    except OverflowError:
        raise MalformedEnvelope(f"header: field {key!a} is a number over 64 bits") from None
    return 0


cdef const uint8_t *_utf8(object key, object text, Py_ssize_t *size) except NULL:
    try:
        return <const uint8_t *> PyUnicode_AsUTF8AndSize(text, size)
    except UnicodeEncodeError:
        raise MalformedEnvelope(f"header: field {key!a} is not valid text") from None


cdef inline Py_ssize_t _head_size(uint64_t number) noexcept nogil:
    if number < 24:
        return 1
    if number >> 8 == 0:
        return 2
    if number >> 16 == 0:
        return 3
    if number >> 32 == 0:
        return 5
    return 9


cdef inline Py_ssize_t _field_size(const Field *field) noexcept nogil:
    cdef Py_ssize_t size = 1 + field.key_size
    if field.major == BOOL:
        return size + 1
    size += _head_size(field.number)
    return size + <Py_ssize_t> field.number if field.data != NULL else size


cdef inline bint _before(const Field *one, const Field *other) noexcept nogil:
    if one.key_size != other.key_size:
        return one.key_size < other.key_size
    return memcmp(one.key, other.key, one.key_size) < 0


cdef void _sort(Field *entries, Py_ssize_t count) noexcept nogil:
    """By insertion: a header has some fifteen fields, and callers give them in much the same order."""
    cdef Py_ssize_t at, hole
    cdef Field moving
    for at in range(1, count):
        moving = entries[at]
        hole = at
        while hole > 0 and _before(&moving, &entries[hole - 1]):
            entries[hole] = entries[hole - 1]
            hole -= 1
        entries[hole] = moving


cdef void _write(uint8_t *out, const Field *entries, Py_ssize_t count) noexcept nogil:
    """Into a buffer of exactly the size that `_head_size` and `_field_size` gave."""
    cdef Py_ssize_t at
    cdef const Field *field
    out = _write_head(out, MAP, <uint64_t> count)
    for at in range(count):
        field = &entries[at]
        out[0] = <uint8_t> (TEXT << 5 | field.key_size)
        memcpy(out + 1, field.key, field.key_size)
        out += 1 + field.key_size
        if field.major == BOOL:
            out[0] = TRUE if field.number else FALSE
            out += 1
            continue
        out = _write_head(out, field.major, field.number)
        if field.data != NULL:
            memcpy(out, field.data, field.number)
            out += field.number


cdef uint8_t *_write_head(uint8_t *out, uint8_t major, uint64_t number) noexcept nogil:
    cdef Py_ssize_t size = _head_size(number) - 1, at
    if size == 0:
        out[0] = <uint8_t> (major << 5 | number)
        return out + 1
    out[0] = <uint8_t> (major << 5 | (24 if size == 1 else 25 if size == 2 else 26 if size == 4 else 27))
    for at in range(size):
        out[size - at] = <uint8_t> (number >> 8 * at)
    return out + 1 + size


# --- header: decode -----------------------------------------------------------------------------

cdef struct Reader:
    const uint8_t *data
    Py_ssize_t size
    Py_ssize_t at
    Py_ssize_t last_key      # where the encoded key before this one begins
    Py_ssize_t last_key_end  # 0 before the first


def decode_header(bytes data not None):
    """The fields of a header, in the order of its bytes.

    Raises `MalformedEnvelope`, naming the byte, for anything that is not canonical to the last bit.
    """
    cdef Reader reader
    cdef uint64_t count = 0, done = 0
    cdef dict fields = {}
    reader.data = <const uint8_t *> PyBytes_AS_STRING(data)
    reader.size = PyBytes_GET_SIZE(data)
    reader.at = reader.last_key = reader.last_key_end = 0
    if reader.size > MAX_HEADER:
        raise MalformedEnvelope(f"header: {reader.size} bytes, the most is 4096")
    if reader.size == 0 or reader.data[0] >> 5 != MAP:
        _bad("not a map", 0)
    _read_head(&reader, &count)
    while done < count:
        _read_field(&reader, fields)
        done += 1
    if reader.at != reader.size:
        _bad("bytes are left over", reader.at)
    return fields


cdef int _read_field(Reader *reader, dict fields) except -1:
    cdef Py_ssize_t start = reader.at
    cdef uint64_t size = 0
    if start < reader.size and reader.data[start] >> 5 != TEXT:
        _bad("a field name is not text", start)
    _read_head(reader, &size)
    if size > MAX_KEY:
        _bad("a field name is over 23 bytes", start)
    key = _read_name(reader, start, size)
    _check_order(reader, start)
    reader.last_key = start
    reader.last_key_end = reader.at
    fields[key] = _read_value(reader)
    return 0


cdef enum:
    NAME_SLOTS = 128

cdef struct Name:
    PyObject *name  # NULL while the slot is empty
    uint64_t size
    uint8_t text[MAX_KEY]

cdef Name names[NAME_SLOTS]


cdef object _read_name(Reader *reader, Py_ssize_t start, uint64_t size):
    """As `_read_text`, for at most 23 bytes; headers share a few names, so the last one met in each slot is kept."""
    cdef const uint8_t *text = reader.data + reader.at
    cdef Name *kept
    if size == 0 or size > MAX_KEY or size > <uint64_t> (reader.size - reader.at):
        return _read_text(reader, start, size)
    kept = &names[(text[0] * 7 + text[size - 1] * 3 + text[size >> 1] + size) % NAME_SLOTS]
    if kept.name != NULL and kept.size == size and memcmp(kept.text, text, size) == 0:
        reader.at += <Py_ssize_t> size
        return <object> kept.name
    name = _read_text(reader, start, size)
    Py_INCREF(name)
    Py_XDECREF(kept.name)
    kept.name = <PyObject *> name
    kept.size = size
    memcpy(kept.text, text, size)
    return name


cdef int _check_order(Reader *reader, Py_ssize_t start) except -1:
    """The key from `start` to where the reader is must sort after the last one; both are at most 24 bytes, encoded."""
    cdef Py_ssize_t last_size = reader.last_key_end - reader.last_key, size = reader.at - start
    cdef int order
    if reader.last_key_end == 0:
        return 0
    # The head holds the size, so different sizes differ in the first byte.
    order = memcmp(reader.data + start, reader.data + reader.last_key, min(size, last_size))
    if order == 0:
        _bad("a field appears twice", start)
    if order < 0:
        _bad("fields are not in order", start)
    return 0


cdef object _read_value(Reader *reader):
    cdef Py_ssize_t start = reader.at
    cdef uint64_t number = 0
    cdef uint8_t first, major
    if start == reader.size:
        _bad("ends early", start)
    first = reader.data[start]
    if first == FALSE or first == TRUE:
        reader.at += 1
        return first == TRUE
    major = first >> 5
    if major > TEXT:
        _bad("a value is not int, text, bytes or bool", start)
    _read_head(reader, &number)
    if major == UINT:
        return number
    if major == NEGATIVE:
        return PyNumber_Invert(number)
    if major == TEXT:
        return _read_text(reader, start, number)
    if number > <uint64_t> (reader.size - reader.at):
        _bad("ends early", start)
    reader.at += <Py_ssize_t> number
    return PyBytes_FromStringAndSize(<const char *> reader.data + reader.at - number, <Py_ssize_t> number)


cdef int _read_head(Reader *reader, uint64_t *number) except -1:
    """Read the head of the item where the reader is, and move to its content."""
    cdef Py_ssize_t start = reader.at, size, at
    if start == reader.size:
        _bad("ends early", start)
    number[0] = reader.data[start] & 0x1F
    if number[0] < 24:
        reader.at = start + 1
        return 0
    if number[0] > 27:
        _bad("an indefinite or reserved length", start)
    size = <Py_ssize_t> 1 << (number[0] - 24)
    if size > reader.size - start - 1:
        _bad("ends early", start)
    number[0] = 0
    for at in range(start + 1, start + 1 + size):
        number[0] = number[0] << 8 | reader.data[at]
    if _head_size(number[0]) != size + 1:
        _bad("not the shortest form", start)
    reader.at = start + 1 + size
    return 0


cdef object _read_text(Reader *reader, Py_ssize_t start, uint64_t size):
    """The text of `size` bytes where the reader is; its item begins at `start`."""
    if size > <uint64_t> (reader.size - reader.at):
        _bad("ends early", start)
    cdef PyObject *text = PyUnicode_DecodeUTF8(
        <const char *> reader.data + reader.at, <Py_ssize_t> size, NULL
    )
    if text == NULL:
        PyErr_Clear()
        _bad("text is not UTF-8", start)
    reader.at += <Py_ssize_t> size
    return _owned(text)


cdef inline object _owned(PyObject *new):
    """The object of a new reference."""
    cdef object owned = <object> new
    Py_DECREF(owned)
    return owned


cdef int _bad(str what, Py_ssize_t at) except -1:
    raise MalformedEnvelope(f"header: {what} at byte {at}")


# --- leaves and trees ---------------------------------------------------------------------------

def leaf_of(bytes header not None, bytes body not None):
    """BLAKE2b-256 over the exact bytes of header and body (32 bytes)."""
    cdef Py_ssize_t header_size = PyBytes_GET_SIZE(header), body_size = PyBytes_GET_SIZE(body)
    cdef Py_ssize_t size = 5 + header_size + body_size, at
    cdef uint8_t leaf[32]
    cdef uint8_t *data
    if <uint64_t> header_size >> 32 != 0:
        raise OverflowError("int too big to convert")
    data = <uint8_t *> PyMem_Malloc(size)
    if data == NULL:
        raise MemoryError
    data[0] = 0
    for at in range(4):
        data[1 + at] = <uint8_t> (<uint64_t> header_size >> 8 * (3 - at))
    memcpy(data + 5, PyBytes_AS_STRING(header), header_size)
    memcpy(data + 5 + header_size, PyBytes_AS_STRING(body), body_size)
    if size > KEPT_GIL:
        with nogil:
            sodium_hash(leaf, 32, data, size, NULL, 0)
    else:
        sodium_hash(leaf, 32, data, size, NULL, 0)
    PyMem_Free(data)
    return PyBytes_FromStringAndSize(<const char *> leaf, 32)


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
    cdef Py_ssize_t size = PyBytes_GET_SIZE(proof), index, count
    cdef const uint8_t *data = <const uint8_t *> PyBytes_AS_STRING(proof)
    cdef uint8_t node[32]
    if PyBytes_GET_SIZE(leaf) != 32:
        raise ValueError("a leaf has 32 bytes")
    if size == 0:
        return leaf, 1
    if size < 4:
        raise MalformedEnvelope("proof: too short")
    index, count = <Py_ssize_t> data[0] << 8 | data[1], <Py_ssize_t> data[2] << 8 | data[3]
    if not 2 <= count <= MAX_BATCH:
        raise MalformedEnvelope(f"proof: for a batch of {count}, not 2 to 256")
    if index >= count:
        raise MalformedEnvelope(f"proof: index {index} in a batch of {count}")
    memcpy(node, PyBytes_AS_STRING(leaf), 32)
    if not _climb(node, data + 4, size - 4, index, count):
        raise MalformedEnvelope("proof: wrong number of siblings")
    return PyBytes_FromStringAndSize(<const char *> node, 32), count


cdef bint _climb(
    uint8_t *node, const uint8_t *siblings, Py_ssize_t size, Py_ssize_t index, Py_ssize_t width
) noexcept nogil:
    """From a leaf to its root, both in `node`; False when the siblings do not come out even."""
    cdef Py_ssize_t at = 0
    while width > 1:
        if (index ^ 1) < width:
            if size - at < 32:
                return False
            if index & 1:
                _node(node, siblings + at, node)
            else:
                _node(node, node, siblings + at)
            at += 32
        index >>= 1
        width = (width + 1) >> 1
    return at == size


# --- signatures ---------------------------------------------------------------------------------

cdef struct Check:
    const uint8_t *key
    const uint8_t *signature
    const uint8_t *message
    unsigned long long size
    bint whole  # key and signature have their lengths
    bint good


def verify_many(items):
    """Whether each `(public key, signature, message)` holds, by libsodium; a wrong length is False, not an error."""
    cdef tuple held = tuple(items)
    cdef Py_ssize_t count = len(held), at
    cdef list verdicts = []
    cdef Check *checks = <Check *> PyMem_Malloc((count + 1) * sizeof(Check))
    if checks == NULL:
        raise MemoryError
    try:
        for at in range(count):
            _take_check(&checks[at], held, at)
        with nogil:
            for at in range(count):
                if checks[at].whole:
                    checks[at].good = sodium_verify(
                        checks[at].signature, checks[at].message, checks[at].size, checks[at].key
                    ) == 0
        for at in range(count):
            _put_verdict(&checks[at], verdicts)
        return verdicts
    finally:
        PyMem_Free(checks)


cdef int _take_check(Check *check, tuple held, Py_ssize_t at) except -1:
    """A tuple of bytes and nothing else: only those stay as they are while the GIL is given away."""
    cdef tuple item = <tuple?> held[at]
    key, signature, message = item
    if not (PyBytes_Check(key) and PyBytes_Check(signature) and PyBytes_Check(message)):
        raise TypeError("key, signature and message must be bytes")
    check.key = <const uint8_t *> PyBytes_AS_STRING(key)
    check.signature = <const uint8_t *> PyBytes_AS_STRING(signature)
    check.message = <const uint8_t *> PyBytes_AS_STRING(message)
    check.size = <unsigned long long> PyBytes_GET_SIZE(message)
    check.whole = PyBytes_GET_SIZE(key) == 32 and PyBytes_GET_SIZE(signature) == 64
    check.good = False
    return 0


cdef int _put_verdict(const Check *check, list verdicts) except -1:
    verdicts.append(check.good)
    return 0


# --- what was seen ------------------------------------------------------------------------------

cdef class SeenSet:
    """Bounded set of ids: it remembers the last `capacity` that were new, and forgets the oldest first."""

    cdef readonly Py_ssize_t capacity
    cdef set _ids
    cdef list _ring
    cdef Py_ssize_t _next

    def __init__(self, Py_ssize_t capacity):
        if capacity < 1:
            raise ValueError("a SeenSet holds at least one id")
        self.capacity = capacity
        self._ids = set()
        # A ring beside the set: a dict would scan over its deleted entries to find the oldest.
        self._ring = []
        self._next = 0

    def add(self, bytes key not None):
        """Remember `key`; False when it was known (it does not become younger by that)."""
        if key in self._ids:
            return False
        self._ids.add(key)
        if len(self._ring) < self.capacity:
            self._ring.append(key)
            return True
        self._ids.remove(self._ring[self._next])
        self._ring[self._next] = key
        self._next = (self._next + 1) % self.capacity
        return True

    def __contains__(self, key):
        return key in self._ids

    def __len__(self):
        return len(self._ids)
