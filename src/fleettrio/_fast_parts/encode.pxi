# The signed header, written. See `_pure/header.py`, which says what is wrong with the others, and writes long ones.

cdef enum:
    MOST_NAMED = 64

cdef struct Named:
    Item key
    Item value


def encode_header(fields):
    """The canonical bytes of `fields`.

    Raises `MalformedEnvelope`, naming the field, for anything that a header cannot hold, and for over 4 KiB.
    """
    cdef dict held = fields if type(fields) is dict else dict(fields)
    header = _encode(held)
    return _pure.encode_header(held) if header is None else header


cdef object _encode(dict held):
    """None: it cannot be, or is over the bounds here."""
    # The entries point into keys and values; no Python code runs between here and the last copy that could free one.
    cdef Named entries[MOST_NAMED]
    cdef Py_ssize_t count = PyDict_Size(held), position = 0, at = 0, size
    cdef PyObject *key = NULL
    cdef PyObject *value = NULL
    cdef uint8_t *out
    if count > MOST_NAMED:
        return None
    size = _head_size(count)
    while at < count and _next(held, &position, &key, &value):
        if not _take_named(key, value, &entries[at]):
            size = MAX_HEADER + 1
            break
        size += _item_size(&entries[at].key) + _item_size(&entries[at].value)
        _sift_named(entries, at)
        at += 1
    if size > MAX_HEADER:
        return None
    header = PyBytes_FromStringAndSize(NULL, size)
    out = _write_head(<uint8_t *> PyBytes_AS_STRING(header), MAP, <uint64_t> count)
    for at in range(count):
        out = _write_item(_write_item(out, &entries[at].key), &entries[at].value)
    return header


cdef inline bint _next(dict held, Py_ssize_t *position, PyObject **key, PyObject **value) noexcept:
    return PyDict_Next(held, position, key, value)


cdef bint _take_named(PyObject *key, PyObject *value, Named *entry) except -1:
    return (
        _item_of(<object> key, &entry.key)
        and entry.key.major == TEXT
        and entry.key.number <= MAX_KEY
        and _item_of(<object> value, &entry.value)
    )


cdef void _sift_named(Named *entries, Py_ssize_t at) noexcept nogil:
    """Put the last one where it belongs: callers give the fields in much the same order."""
    cdef Named moving = entries[at]
    while at > 0 and _key_before(&moving.key, &entries[at - 1].key):
        entries[at] = entries[at - 1]
        at -= 1
    entries[at] = moving


cdef inline bint _key_before(const Item *one, const Item *other) noexcept nogil:
    if one.number != other.number:
        return one.number < other.number
    return memcmp(one.data, other.data, one.number) < 0
