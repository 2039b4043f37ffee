# The signed header, read. See `_pure/header.py`, which says what is wrong with the others.

def decode_header(bytes data not None):
    """The fields of a header, in the order of its bytes.

    Raises `MalformedEnvelope`, naming the byte, for anything that is not canonical to the last bit.
    """
    cdef dict fields = {}
    if _read_fields(<const uint8_t *> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), fields):
        return fields
    return _pure.decode_header(data)


cdef bint _read_fields(const uint8_t *data, Py_ssize_t size, dict fields) except -1:
    """False: it is not canonical."""
    cdef Item key, value
    cdef Py_ssize_t at = 0, start, last = 0, last_size = 0
    cdef uint64_t left
    if size > MAX_HEADER or not _scan_item(data, size, &at, &key) or key.major != MAP:
        return False
    left = key.number
    while left > 0:
        left -= 1
        start = at
        if not _scan_item(data, size, &at, &key) or key.major != TEXT or key.number > MAX_KEY:
            return False
        # Both have their sizes in front: of different ones, that decides.
        if last_size and memcmp(data + last, data + start, min(last_size, at - start)) >= 0:
            return False
        last, last_size = start, at - start
        if not _scan_item(data, size, &at, &value) or not _put_field(fields, &key, &value):
            return False
    return at == size


cdef bint _put_field(dict fields, const Item *key, const Item *value) except -1:
    name = _text(key.data, <Py_ssize_t> key.number)
    if name is None:
        return False
    if value.major == UINT:
        fields[name] = value.number
    elif value.major == TEXT:
        text = _text(value.data, <Py_ssize_t> value.number)
        if text is None:
            return False
        fields[name] = text
    elif value.major == BYTES:
        fields[name] = PyBytes_FromStringAndSize(<const char *> value.data, <Py_ssize_t> value.number)
    elif value.major == BOOL:
        fields[name] = value.number == 1
    elif value.major == NEGATIVE:
        fields[name] = PyNumber_Invert(value.number)
    else:
        return False
    return True
