# The syntax of names and ids. See `_pure/forms.py`; all of it is ASCII, so bytes of UTF-8 are looked at.

cdef inline bint _is_hex(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at
    cdef bint good = True
    for at in range(size):
        good = good and (48 <= data[at] <= 57 or 97 <= data[at] <= 102)
    return good


cdef bint _is_uuid(const uint8_t *data, Py_ssize_t size, uint8_t version) noexcept nogil:
    if size != 36 or data[8] != 45 or data[13] != 45 or data[18] != 45 or data[23] != 45 or data[14] != version:
        return False
    if not (data[19] == 56 or data[19] == 57 or data[19] == 97 or data[19] == 98):
        return False
    return (
        _is_hex(data, 8) and _is_hex(data + 9, 4) and _is_hex(data + 15, 3)
        and _is_hex(data + 20, 3) and _is_hex(data + 24, 12)
    )


cdef bint _is_name(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at
    if size == 0 or size > 32 or data[0] == 45:
        return False
    for at in range(size):
        if not (97 <= data[at] <= 122 or 48 <= data[at] <= 57 or data[at] == 45):
            return False
    return not (
        _is(data, size, b"human", 5) or _is(data, size, b"user", 4) or _is(data, size, b"operator", 8)
        or _is(data, size, b"system", 6) or _is(data, size, b"gateway", 7) or _is(data, size, b"all", 3)
        or _is(data, size, b"last", 4)
    )


cdef bint _is_word(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at
    if size == 0 or size > 24 or data[0] == 95:
        return False
    for at in range(size):
        if not (65 <= data[at] <= 90 or data[at] == 95):
            return False
    return True


cdef Py_ssize_t _dot(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    """Where the first dot is; -1: there is none."""
    cdef Py_ssize_t at
    for at in range(size):
        if data[at] == 46:
            return at
    return -1


cdef bint _is_key(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t dot = _dot(data, size), second
    cdef const uint8_t *rest = data + dot + 1
    cdef Py_ssize_t rest_size = size - dot - 1
    if dot < 0:
        return _is_uuid(data, size, 56) or _is_name(data, size)
    if _is(data, dot, b"roster", 6):
        second = _dot(rest, rest_size)
        return second >= 0 and _is_name(rest, second) and (
            _is(rest + second + 1, rest_size - second - 1, b"_gateway", 8)
            or _is_uuid(rest + second + 1, rest_size - second - 1, 56)
        )
    if _is(data, dot, b"broadcast", 9):
        return _is(rest, rest_size, b"all", 3) or _is_name(rest, rest_size)
    return _is(data, dot, b"lead", 4) and _is_name(rest, rest_size)


cdef int _form_bytes(object text, const uint8_t **data, Py_ssize_t *size) except -1:
    """What is no Unicode has no form."""
    if not PyUnicode_Check(text):
        raise TypeError(f"text is needed, not {type(text).__name__}")
    _utf8_of(text, data, size)
    return 0


def is_name(value):
    """Whether `value` may name an agent, a group, a profile or a host: the syntax holds and it is not reserved."""
    cdef const uint8_t *data = NULL
    cdef Py_ssize_t size = 0
    _form_bytes(value, &data, &size)
    return _is_name(data, size)


def is_gid(value):
    """Whether it is a UUID version 8 in lower case."""
    cdef const uint8_t *data = NULL
    cdef Py_ssize_t size = 0
    _form_bytes(value, &data, &size)
    return _is_uuid(data, size, 56)


def is_msg_id(value):
    """Whether it is a UUID version 7 in lower case."""
    cdef const uint8_t *data = NULL
    cdef Py_ssize_t size = 0
    _form_bytes(value, &data, &size)
    return _is_uuid(data, size, 55)


def is_trace_id(value):
    """Whether it is 32 hex digits in lower case."""
    cdef const uint8_t *data = NULL
    cdef Py_ssize_t size = 0
    _form_bytes(value, &data, &size)
    return size == 32 and _is_hex(data, size)


def is_word(value):
    """Whether it is a kind's name: 1 to 24 capitals and underscores."""
    cdef const uint8_t *data = NULL
    cdef Py_ssize_t size = 0
    _form_bytes(value, &data, &size)
    return _is_word(data, size)


def is_key(value):
    """Whether it has the form of a routing key."""
    cdef const uint8_t *data = NULL
    cdef Py_ssize_t size = 0
    _form_bytes(value, &data, &size)
    return _is_key(data, size)
