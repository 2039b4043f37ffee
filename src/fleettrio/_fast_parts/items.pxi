# Single items of canonical CBOR (RFC 8949, section 4.2.1): heads in their shortest form, values that are not nested.

cdef enum:
    MAX_HEADER = 4096
    MAX_KEY = 23

cdef enum:
    UINT = 0
    NEGATIVE = 1
    BYTES = 2
    TEXT = 3
    MAP = 5
    BOOL = 7
    FALSE = 0xF4
    TRUE = 0xF5

cdef struct Item:
    const uint8_t *data  # of text and bytes
    uint64_t number      # its size, or the number itself
    uint8_t major


cdef bint _item_of(object value, Item *item) except -1:
    """Point `item` at what the object holds; False: a header holds nothing such."""
    cdef Py_ssize_t size = 0
    cdef int overflow = 0
    cdef long long small
    item.data = NULL
    if PyUnicode_Check(value):
        if not _utf8_of(value, &item.data, &size):
            return False
        item.major, item.number = TEXT, <uint64_t> size
        return True
    if PyBytes_Check(value):
        item.data = <const uint8_t *> PyBytes_AS_STRING(value)
        item.major, item.number = BYTES, <uint64_t> PyBytes_GET_SIZE(value)
        return True
    if value is True or value is False:
        item.major, item.number = BOOL, value is True
        return True
    if not PyLong_Check(value):
        return False
    small = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow == 0:
        item.major = UINT if small >= 0 else NEGATIVE
        item.number = <uint64_t> small if small >= 0 else <uint64_t> (-1 - small)
        return True
    item.major = UINT if overflow > 0 else NEGATIVE
    return _large(value if overflow > 0 else PyNumber_Invert(value), item)


cdef bint _large(object value, Item *item) except -1:
    try:
        item.number = PyLong_AsUnsignedLongLong(value)
    except OverflowError:
        return False
    return True


cdef inline bint _scan_item(const uint8_t *data, Py_ssize_t size, Py_ssize_t *position, Item *item) noexcept nogil:
    """One item in its shortest form; of a map the head alone."""
    cdef Py_ssize_t at = position[0], width, end
    cdef uint64_t number
    if at >= size:
        return False
    item.major = data[at] >> 5
    number = data[at] & 0x1F
    at += 1
    item.data = NULL
    if item.major == BOOL:
        item.number = number == 21
        position[0] = at
        return number == 20 or number == 21
    if number > 23:
        if number > 27:
            return False
        width = <Py_ssize_t> 1 << (number - 24)
        if width > size - at:
            return False
        number = 0
        end = at + width
        while at < end:
            number = number << 8 | data[at]
            at += 1
        if _head_size(number) != width + 1:
            return False
    item.number = number
    if item.major == TEXT or item.major == BYTES:
        if number > <uint64_t> (size - at):
            return False
        item.data = data + at
        at += <Py_ssize_t> number
    position[0] = at
    return True


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


cdef inline Py_ssize_t _item_size(const Item *item) noexcept nogil:
    if item.major == BOOL:
        return 1
    if item.data == NULL:
        return _head_size(item.number)
    return _head_size(item.number) + <Py_ssize_t> item.number


cdef inline uint8_t *_write_item(uint8_t *out, const Item *item) noexcept nogil:
    if item.major == BOOL:
        out[0] = TRUE if item.number else FALSE
        return out + 1
    out = _write_head(out, item.major, item.number)
    if item.data != NULL:
        memcpy(out, item.data, item.number)
        out += item.number
    return out


cdef inline uint8_t *_write_head(uint8_t *out, uint8_t major, uint64_t number) noexcept nogil:
    cdef Py_ssize_t size = _head_size(number) - 1, at
    if size == 0:
        out[0] = <uint8_t> (major << 5 | number)
        return out + 1
    out[0] = <uint8_t> (major << 5 | (24 if size == 1 else 25 if size == 2 else 26 if size == 4 else 27))
    for at in range(size):
        out[size - at] = <uint8_t> (number >> 8 * at)
    return out + 1 + size
