# Many publishes into one piece of bytes. See `_pure/publishes.py`, which says what is wrong with the others.

cdef enum:
    MOST_HEADERS = 32
    SHORT = 255

cdef struct Out:
    uint8_t *data
    Py_ssize_t size
    Py_ssize_t room

cdef struct Entry:
    Span key
    Span value
    uint8_t kind

cdef struct Publish:
    Span exchange
    Span routing_key
    Span content_type
    Span body
    bint mandatory
    bint persistent
    uint64_t expiration_ms
    uint64_t id
    Entry entries[MOST_HEADERS]
    Py_ssize_t count
    Py_ssize_t table_size


def encode_publishes(channel, frame_max, max_table, messages):
    """The frames of all `messages` on AMQP channel `channel`, in order, and why some are left out, by their index.

    `frame_max` is what was negotiated, in bytes, 0 for no limit. Left out is what AMQP cannot carry, or what would have
    the broker close the connection: a name over 255 bytes, a header table over `max_table` bytes or over the frame
    size, which cannot be split, and text that is no Unicode.
    """
    cdef tuple held = tuple(messages)
    cdef Py_ssize_t at, count = len(held), most_frame = frame_max, most_table = max_table
    cdef dict left_out = {}
    cdef Out out
    if not 0 <= channel < 65536:
        raise ValueError(f"there is no AMQP channel {channel}")
    cdef uint64_t number = channel
    out.data, out.size, out.room = NULL, 0, 0
    try:
        for at in range(count):
            _put_publish(&out, number, most_frame, most_table, held, at, left_out)
        return PyBytes_FromStringAndSize(<const char *> out.data, out.size), left_out
    finally:
        PyMem_Free(out.data)


cdef int _put_publish(
    Out *out, uint64_t channel, Py_ssize_t frame_max, Py_ssize_t max_table, tuple held, Py_ssize_t at, dict left_out
) except -1:
    cdef Publish publish
    cdef object message = held[at]
    # What the spans of `publish` point into lives as long as these.
    exchange, routing_key, content_type = message.exchange, message.routing_key, message.content_type
    headers, body = message.headers, message.body
    cdef Py_ssize_t header_size, whole
    if (
        PyUnicode_Check(exchange) and PyUnicode_Check(routing_key) and PyUnicode_Check(content_type)
        and PyBytes_CheckExact(body) and PyDict_CheckExact(headers)
        and _take_short(exchange, &publish.exchange) and _take_short(routing_key, &publish.routing_key)
        and _take_short(content_type, &publish.content_type) and _take_table(<dict> headers, &publish)
        and publish.table_size <= max_table and _take_decimal(message.id, &publish.id)
        and _take_decimal(message.expiration_ms, &publish.expiration_ms)
    ):
        publish.body.data, publish.body.size = <const uint8_t *> PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body)
        publish.mandatory, publish.persistent = bool(message.mandatory), bool(message.persistent)
        header_size = _content_size(&publish)
        if frame_max == 0 or header_size + OVERHEAD <= frame_max:
            whole = _publish_size(&publish, header_size, frame_max)
            _reserve(out, whole)
            _write_publish(out.data + out.size, &publish, channel, header_size, frame_max)
            out.size += whole
            return 0
    frames, why = _pure.encode_publishes(channel, frame_max, max_table, (message,))
    if why:
        left_out[at] = why[0]
    _append(out, frames)
    return 0


cdef inline bint _take_short(object text, Span *span) noexcept:
    return _utf8_of(text, &span.data, &span.size) and span.size <= SHORT


cdef bint _take_decimal(object value, uint64_t *number) except -1:
    """What is over 63 bits is the reference's; what is negative counts as nothing, where it may be so."""
    cdef int overflow = 0
    if not PyLong_CheckExact(value):
        return False
    cdef long long small = PyLong_AsLongLongAndOverflow(value, &overflow)
    number[0] = <uint64_t> small
    return overflow == 0 and small >= 0


cdef bint _take_table(dict headers, Publish *publish) except -1:
    """Its entries, in order of their keys."""
    cdef Py_ssize_t position = 0, at
    cdef PyObject *key = NULL
    cdef PyObject *value = NULL
    publish.count, publish.table_size = 0, 4
    if PyDict_Size(headers) > MOST_HEADERS:
        return False
    while _next(headers, &position, &key, &value):
        if not _take_header(key, value, &publish.entries[publish.count]):
            return False
        at = publish.count
        publish.count += 1
        publish.table_size += 6 + publish.entries[at].key.size + publish.entries[at].value.size
        _sift(publish.entries, at)
    return True


cdef bint _take_header(PyObject *borrowed_key, PyObject *borrowed_value, Entry *entry) except -1:
    cdef object key = <object> borrowed_key
    cdef object value = <object> borrowed_value
    if not PyUnicode_Check(key) or not _take_short(key, &entry.key):
        return False
    if PyBytes_CheckExact(value):
        entry.kind = 120
        entry.value.data, entry.value.size = <const uint8_t *> PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)
        return True
    if not PyUnicode_Check(value):
        return False
    entry.kind = 83
    return _utf8_of(value, &entry.value.data, &entry.value.size)


cdef void _sift(Entry *entries, Py_ssize_t at) noexcept nogil:
    """Put the last one where it belongs: those before it are in order."""
    cdef Entry moving = entries[at]
    while at > 0 and _sorts_before(&moving.key, &entries[at - 1].key):
        entries[at] = entries[at - 1]
        at -= 1
    entries[at] = moving


cdef inline bint _sorts_before(const Span *one, const Span *other) noexcept nogil:
    """By code points, which is by bytes of UTF-8."""
    cdef int order = memcmp(one.data, other.data, min(one.size, other.size))
    return order < 0 or (order == 0 and one.size < other.size)


cdef inline Py_ssize_t _digits(uint64_t number) noexcept nogil:
    cdef Py_ssize_t count = 1
    while number > 9:
        number = number // 10
        count += 1
    return count


cdef Py_ssize_t _content_size(const Publish *publish) noexcept nogil:
    """Of the payload of the content header: properties content type, headers, delivery mode, expiration, message id."""
    cdef Py_ssize_t size = 14 + publish.table_size + 1 + 1 + _digits(publish.id)
    if publish.content_type.size:
        size += 1 + publish.content_type.size
    if publish.expiration_ms:
        size += 1 + _digits(publish.expiration_ms)
    return size


cdef Py_ssize_t _publish_size(const Publish *publish, Py_ssize_t header_size, Py_ssize_t frame_max) noexcept nogil:
    cdef Py_ssize_t method = 9 + publish.exchange.size + publish.routing_key.size, step = frame_max - OVERHEAD
    cdef Py_ssize_t bodies = 0
    if publish.body.size:
        bodies = 1 if frame_max == 0 else (publish.body.size + step - 1) // step
    return method + header_size + publish.body.size + (2 + bodies) * OVERHEAD


cdef void _write_publish(
    uint8_t *out, const Publish *publish, uint64_t channel, Py_ssize_t header_size, Py_ssize_t frame_max
) noexcept nogil:
    """Into as many bytes as `_publish_size` said."""
    cdef Py_ssize_t at = 0, step
    out = _begin_frame(out, 1, channel, 9 + publish.exchange.size + publish.routing_key.size)
    out = _put_number(out, 60 << 32 | 40 << 16, 6)
    out = _put_short(out, &publish.exchange)
    out = _put_short(out, &publish.routing_key)
    out[0], out[1] = publish.mandatory, FRAME_END
    out = _begin_frame(out + 2, 2, channel, header_size)
    out = _write_content(out, publish)
    out[0] = FRAME_END
    out += 1
    while at < publish.body.size:
        step = publish.body.size - at
        if frame_max and step > frame_max - OVERHEAD:
            step = frame_max - OVERHEAD
        out = _begin_frame(out, 3, channel, step)
        memcpy(out, publish.body.data + at, step)
        out[step] = FRAME_END
        out += step + 1
        at += step


cdef uint8_t *_write_content(uint8_t *out, const Publish *publish) noexcept nogil:
    cdef uint64_t flags = 1 << 13 | 1 << 12 | 1 << 7
    cdef Py_ssize_t at
    if publish.content_type.size:
        flags |= 1 << 15
    if publish.expiration_ms:
        flags |= 1 << 8
    out = _put_number(out, 60 << 16, 4)
    out = _put_number(out, <uint64_t> publish.body.size, 8)
    out = _put_number(out, flags, 2)
    if publish.content_type.size:
        out = _put_short(out, &publish.content_type)
    out = _put_number(out, <uint64_t> publish.table_size - 4, 4)
    for at in range(publish.count):
        out = _put_short(out, &publish.entries[at].key)
        out[0] = publish.entries[at].kind
        out = _put_number(out + 1, <uint64_t> publish.entries[at].value.size, 4)
        memcpy(out, publish.entries[at].value.data, publish.entries[at].value.size)
        out += publish.entries[at].value.size
    out[0] = 2 if publish.persistent else 1
    out += 1
    if publish.expiration_ms:
        out = _put_decimal(out, publish.expiration_ms)
    return _put_decimal(out, publish.id)


cdef inline uint8_t *_begin_frame(uint8_t *out, uint8_t kind, uint64_t channel, Py_ssize_t size) noexcept nogil:
    out[0] = kind
    out = _put_number(out + 1, channel, 2)
    return _put_number(out, <uint64_t> size, 4)


cdef inline uint8_t *_put_number(uint8_t *out, uint64_t number, Py_ssize_t width) noexcept nogil:
    cdef Py_ssize_t at
    for at in range(width):
        out[at] = <uint8_t> (number >> 8 * (width - 1 - at))
    return out + width


cdef inline uint8_t *_put_short(uint8_t *out, const Span *span) noexcept nogil:
    out[0] = <uint8_t> span.size
    memcpy(out + 1, span.data, span.size)
    return out + 1 + span.size


cdef inline uint8_t *_put_decimal(uint8_t *out, uint64_t number) noexcept nogil:
    """As a short string."""
    cdef Py_ssize_t size = _digits(number), at
    out[0] = <uint8_t> size
    for at in range(size):
        out[size - at] = <uint8_t> (48 + number % 10)
        number = number // 10
    return out + 1 + size


cdef int _reserve(Out *out, Py_ssize_t size) except -1:
    cdef Py_ssize_t room
    cdef uint8_t *data
    if size <= out.room - out.size:
        return 0
    room = max(2 * out.room, out.size + size, <Py_ssize_t> 4096)
    data = <uint8_t *> PyMem_Realloc(out.data, room)
    if data == NULL:
        raise MemoryError
    out.data, out.room = data, room
    return 0


cdef int _append(Out *out, bytes frames) except -1:
    _reserve(out, PyBytes_GET_SIZE(frames))
    memcpy(out.data + out.size, PyBytes_AS_STRING(frames), PyBytes_GET_SIZE(frames))
    out.size += PyBytes_GET_SIZE(frames)
    return 0


def table_size(table):
    """Bytes of `table` on the wire: its length, then each key (short string), type, length and value."""
    cdef Publish publish
    if PyDict_CheckExact(table) and _take_table(<dict> table, &publish):
        return publish.table_size
    return _pure.table_size(table)
