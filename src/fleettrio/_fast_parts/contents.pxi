# Content headers and header tables. See `_pure/contents.py`, which reads what is not plainly good.

cdef enum:
    FLEET_ID_LIMIT = 63
    DEAD_LIMIT = 400

cdef struct Span:
    const uint8_t *data  # NULL: not there
    Py_ssize_t size

cdef struct Table:
    Span fleet
    Span sig
    Span proof
    Span hop
    Span fleet_id
    Span dead
    Span deaths
    bint has_cc

cdef struct Content:
    uint64_t body_size
    Span message_id
    Table table

cdef object raw_headers = _pure.RawHeaders
cdef object content_header = _pure.ContentHeader


def read_header_table(bytes table not None):
    """Read an AMQP field table, its four bytes of length first. Never raises; see `RawHeaders.problem`."""
    cdef Table read
    if _walk(<const uint8_t *> PyBytes_AS_STRING(table), PyBytes_GET_SIZE(table), &read):
        return _headers(&read)
    return _pure.read_header_table(table)


def read_content_header(bytes payload not None):
    """Read the payload of a content header frame: class, weight, body size, flags, properties.

    Raises `ValueError` only where the first twelve bytes are missing. Those are the broker's own, not a publisher's,
    and without the body size nothing behind this frame can be read.
    """
    cdef Content read
    cdef PyObject *values[3]
    if not _scan_content(<const uint8_t *> PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload), &read):
        return _pure.read_content_header(payload)
    cdef object size = read.body_size
    message_id, headers = _span_text(&read.message_id), _headers(&read.table)
    values[0], values[1], values[2] = <PyObject *> size, <PyObject *> message_id, <PyObject *> headers
    return PyObject_Vectorcall(content_header, values, 3, NULL)


cdef object _headers(const Table *table):
    cdef PyObject *values[9]
    cdef object has_cc = bool(table.has_cc)
    fleet, sig, proof, hop = (
        _span_bytes(&table.fleet), _span_bytes(&table.sig), _span_bytes(&table.proof), _span_bytes(&table.hop)
    )
    fleet_id, dead = _span_text(&table.fleet_id), _span_text(&table.dead)
    problem, deaths = "", b"" if table.deaths.data == NULL else _span_bytes(&table.deaths)
    values[0], values[1], values[2] = <PyObject *> fleet, <PyObject *> sig, <PyObject *> proof
    values[3], values[4], values[5] = <PyObject *> hop, <PyObject *> fleet_id, <PyObject *> dead
    values[6], values[7], values[8] = <PyObject *> has_cc, <PyObject *> problem, <PyObject *> deaths
    return PyObject_Vectorcall(raw_headers, values, 9, NULL)


cdef inline object _span_bytes(const Span *span):
    return None if span.data == NULL else PyBytes_FromStringAndSize(<const char *> span.data, span.size)


cdef inline object _span_text(const Span *span):
    """Of what is ASCII."""
    return "" if span.data == NULL else _text(span.data, span.size)


cdef bint _scan_content(const uint8_t *data, Py_ssize_t size, Content *read) noexcept nogil:
    """False: the reference looks closer."""
    cdef Py_ssize_t at = 14, index, width
    cdef uint64_t flags
    cdef Span span
    if size < 14 or data[13] & 1:
        return False
    read.body_size = _number(data + 4, 8)
    flags = _number(data + 12, 2)
    read.message_id.data = NULL
    _clear(&read.table)
    for index in range(14):
        if not flags & <uint64_t> 0x8000 >> index:
            continue
        if index == 3 or index == 4 or index == 9:  # delivery mode, priority, timestamp
            width = 8 if index == 9 else 1
            if width > size - at:
                return False
            at += width
        elif index == 2:
            if size - at < 4 or _number(data + at, 4) > <uint64_t> (size - at - 4):
                return False
            width = 4 + <Py_ssize_t> _number(data + at, 4)
            if not _walk(data + at, width, &read.table):
                return False
            at += width
        else:
            if not _take_span(data, size, &at, 1, &span):
                return False
            if index == 8:
                if not _is_ascii(span.data, span.size):
                    return False
                read.message_id = span
    return True


cdef inline uint64_t _number(const uint8_t *data, Py_ssize_t width) noexcept nogil:
    cdef uint64_t number = 0
    cdef Py_ssize_t at
    for at in range(width):
        number = number << 8 | data[at]
    return number


cdef bint _take_span(
    const uint8_t *data, Py_ssize_t size, Py_ssize_t *position, Py_ssize_t width, Span *span
) noexcept nogil:
    """A value with its length in front, `width` bytes wide."""
    cdef uint64_t length
    if width > size - position[0]:
        return False
    length = _number(data + position[0], width)
    position[0] += width
    if length > <uint64_t> (size - position[0]):
        return False
    span.data = data + position[0]
    span.size = <Py_ssize_t> length
    position[0] += span.size
    return True


cdef inline void _clear(Table *table) noexcept nogil:
    table.fleet.data = table.sig.data = table.proof.data = table.hop.data = NULL
    table.fleet_id.data = table.dead.data = table.deaths.data = NULL
    table.has_cc = False


cdef bint _walk(const uint8_t *data, Py_ssize_t size, Table *table) noexcept nogil:
    """Take what is ours out of a table that fills `size` bytes. False: the reference looks closer."""
    cdef Py_ssize_t at = 0
    cdef Span key, value
    cdef uint8_t kind
    _clear(table)
    if not _take_span(data, size, &at, 4, &value) or at != size:
        return False
    at = 4
    while at < size:
        if not _take_span(data, size, &at, 1, &key) or at == size:
            return False
        kind = data[at]
        at += 1
        if kind == 83 or kind == 120 or kind == 65 or kind == 70:  # S x A F: counted, whatever is nested in them
            if not _take_span(data, size, &at, 4, &value):
                return False
        else:
            value.data, value.size = data + at, _fixed_size(kind)
            if value.size < 0 or value.size > size - at:
                return False
            at += value.size
        if not _take_entry(&key, kind, &value, table):
            return False
    return True


cdef inline Py_ssize_t _fixed_size(uint8_t kind) noexcept nogil:
    """Of a field value of that type; -1: there is no such type."""
    if kind == 86:  # V
        return 0
    if kind == 116 or kind == 98 or kind == 66:  # t b B
        return 1
    if kind == 115 or kind == 117:  # s u
        return 2
    if kind == 73 or kind == 105 or kind == 102:  # I i f
        return 4
    if kind == 68:  # D
        return 5
    if kind == 108 or kind == 76 or kind == 100 or kind == 84:  # l L d T
        return 8
    return -1


cdef bint _take_entry(const Span *key, uint8_t kind, const Span *value, Table *table) noexcept nogil:
    if _named(key, b"fleet", 5):
        return _take_ours(kind, value, &table.fleet)
    if _named(key, b"sig", 3):
        return _take_ours(kind, value, &table.sig)
    if _named(key, b"proof", 5):
        return _take_ours(kind, value, &table.proof)
    if _named(key, b"hop", 3):
        return _take_ours(kind, value, &table.hop)
    if _named(key, b"fleet-id", 8):
        return _take_hint(kind, value, &table.fleet_id, FLEET_ID_LIMIT)
    if _named(key, b"dead", 4):
        return _take_hint(kind, value, &table.dead, DEAD_LIMIT)
    if _named(key, b"CC", 2) or _named(key, b"BCC", 3):
        table.has_cc = True
    elif _named(key, b"x-death", 7) and kind == 65:
        table.deaths = value[0]
    return True


cdef inline bint _named(const Span *key, const char *name, Py_ssize_t size) noexcept nogil:
    return _is(key.data, key.size, name, size)


cdef inline bint _take_ours(uint8_t kind, const Span *value, Span *place) noexcept nogil:
    """Bytes, and once; two of them are a problem, or the first counts: the reference knows."""
    if place.data != NULL or not (kind == 83 or kind == 120):
        return False
    place[0] = value[0]
    return True


cdef inline bint _take_hint(uint8_t kind, const Span *value, Span *place, Py_ssize_t limit) noexcept nogil:
    if not (kind == 83 or kind == 120):
        return True
    if place.data != NULL:
        return False
    place.data, place.size = value.data, min(value.size, limit)
    return _is_ascii(place.data, place.size)
