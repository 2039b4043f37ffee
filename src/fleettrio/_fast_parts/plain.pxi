# Whether bytes are plain canonical CBOR. See `_pure/plain.py`.

cdef enum:
    LIST = 4


def is_plain(bytes data not None, int depth):
    """Whether `data` is one such map, and nothing in it lies more than `depth` containers deep."""
    cdef const uint8_t *start = <const uint8_t *> PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    return size > 0 and start[0] >> 5 == MAP and _end_of(start, size, 0, depth) == size


cdef Py_ssize_t _end_of(const uint8_t *data, Py_ssize_t size, Py_ssize_t at, int depth) noexcept nogil:
    """Where the item at `at` ends; -1 when it is none."""
    cdef uint64_t number = 0
    cdef uint8_t major
    if at >= size:
        return -1
    if data[at] == FALSE or data[at] == TRUE:
        return at + 1
    major = data[at] >> 5
    at = _head_of(data, size, at, &number)
    if at < 0 or major > MAP:
        return -1
    if major == UINT or major == NEGATIVE:
        return at
    if number > <uint64_t> (size - at):
        return -1
    if major == BYTES or major == TEXT:
        return at + <Py_ssize_t> number
    if depth <= 0:
        return -1
    return _end_of_all(data, size, at, depth - 1, number, major == MAP)


cdef Py_ssize_t _end_of_all(
    const uint8_t *data, Py_ssize_t size, Py_ssize_t at, int depth, uint64_t count, bint is_map
) noexcept nogil:
    """Where the `count` items or entries from `at` end; -1 when they are none, or their keys are not in order."""
    cdef Py_ssize_t key = at, key_size = 0, start
    cdef uint64_t done = 0
    while done < count:
        if is_map:
            start = at
            if at >= size or data[at] >> 5 != TEXT:
                return -1
            at = _end_of(data, size, at, 0)
            if at < 0 or at - start < key_size:
                return -1
            if at - start == key_size and memcmp(data + start, data + key, key_size) <= 0:
                return -1
            key = start
            key_size = at - start
        at = _end_of(data, size, at, depth)
        if at < 0:
            return -1
        done += 1
    return at


cdef Py_ssize_t _head_of(const uint8_t *data, Py_ssize_t size, Py_ssize_t at, uint64_t *number) noexcept nogil:
    """The number of the item at `at`; where its content begins, or -1 when that is not its shortest form."""
    cdef Py_ssize_t width, end
    number[0] = data[at] & 0x1F
    if number[0] < 24:
        return at + 1
    if number[0] > 27:
        return -1
    width = <Py_ssize_t> 1 << (number[0] - 24)
    end = at + 1 + width
    if end > size:
        return -1
    number[0] = _number(data + at + 1, width)
    return end if _head_size(number[0]) == width + 1 else -1
