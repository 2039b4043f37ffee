# Frames out of bytes, and contents that are there whole out of frames. See `_pure/frames.py`, which takes all others.

cdef enum:
    OVERHEAD = 8
    FRAME_END = 0xCE

cdef object delivered = _pure.Delivered
cdef object confirm = _pure.Confirm


cdef class FrameReader:
    """Splits what the broker writes on one connection."""

    cdef public Py_ssize_t frame_max
    cdef object reference  # has the contents that are under way
    cdef dict contents     # the reference's own
    cdef bytes rest
    cdef bint is_broken

    def __init__(self, frame_max):
        """`frame_max` is what was negotiated, in bytes, 0 for no limit; it is set anew when that is known."""
        self.frame_max = frame_max
        self.reference = _pure.FrameReader(frame_max)
        self.contents = self.reference._contents
        self.rest = b""

    def take(self, channel):
        """From here on AMQP channel `channel` is ours."""
        self.reference.take(channel)

    def leave(self, channel):
        """It is not ours any more; a content that is under way on it is dropped."""
        self.reference.leave(channel)

    def feed(self, bytes data not None):
        """What is complete with `data`, in the order of the bytes. Never raises for what is in them."""
        cdef list found = []
        cdef Py_ssize_t at = 0
        if self.is_broken:
            return found
        if self.rest:
            data = self.rest + data
        while not self.is_broken and _take_next(self, data, &at, found):
            pass
        self.rest = b"" if self.is_broken else data if at == 0 else data[at:]
        return found


cdef bint _take_next(FrameReader self, bytes held, Py_ssize_t *position, list found) except -1:
    """Take one frame, or the frames of one content, from where the reader is. False: what is left is not whole."""
    cdef const uint8_t *data = <const uint8_t *> PyBytes_AS_STRING(held)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(held), at = position[0], end
    cdef uint64_t length
    cdef const uint8_t *payload
    cdef object channel
    if size - at < OVERHEAD - 1:
        return False
    length = _number(data + at + 3, 4)
    if self.frame_max and length + OVERHEAD > <uint64_t> self.frame_max:
        return _break(self, found, f"a frame of {length + OVERHEAD} bytes, the most is {self.frame_max}")
    if length + OVERHEAD > <uint64_t> (size - at):
        return False
    end = at + <Py_ssize_t> length + OVERHEAD
    if data[end - 1] != FRAME_END:
        return _break(self, found, "a frame without its end")
    payload = data + at + 7
    channel = _number(data + at + 1, 2)
    position[0] = end
    # Whole deliveries and confirms, on channels that are ours and have nothing under way.
    if data[at] == 1 and length >= 4 and payload[0] == 0 and payload[1] == 60 and payload[2] == 0:
        if payload[3] == 60 or payload[3] == 80 or payload[3] == 120:
            if self.contents.get(channel, self) is None:
                if payload[3] == 60:
                    if _take_delivery(self, channel, data, size, payload, <Py_ssize_t> length, position, found):
                        return True
                elif length >= 13:
                    _put_confirm(channel, payload, found)
                    return True
    frame = PyBytes_FromStringAndSize(<const char *> data + at, end - at)
    if channel in self.contents:
        self.reference._take_frame(frame, found)
        self.is_broken = self.reference._broken
    else:
        found.append(frame)
    return True


cdef bint _break(FrameReader self, list found, str why) except -1:
    self.is_broken = True
    found.append(_pure.Broken(why))
    return False


cdef int _put_confirm(object channel, const uint8_t *payload, list found) except -1:
    cdef PyObject *values[4]
    cdef object tag = _number(payload + 4, 8), multiple = payload[12] & 1 == 1, nacked = payload[3] == 120
    values[0], values[1], values[2], values[3] = (
        <PyObject *> channel, <PyObject *> tag, <PyObject *> multiple, <PyObject *> nacked
    )
    found.append(PyObject_Vectorcall(confirm, values, 4, NULL))
    return 0


cdef struct Deliver:
    Span consumer_tag
    uint64_t delivery_tag
    bint redelivered
    Span exchange
    Span routing_key


cdef bint _scan_deliver(const uint8_t *payload, Py_ssize_t size, Deliver *deliver) noexcept nogil:
    cdef Py_ssize_t at = 4
    if not _take_span(payload, size, &at, 1, &deliver.consumer_tag) or size - at < 9:
        return False
    deliver.delivery_tag = _number(payload + at, 8)
    deliver.redelivered = payload[at + 8] & 1
    at += 9
    return _take_span(payload, size, &at, 1, &deliver.exchange) and _take_span(
        payload, size, &at, 1, &deliver.routing_key
    )


cdef Py_ssize_t _whole(
    const uint8_t *data, Py_ssize_t size, Py_ssize_t at, Py_ssize_t frame_max, uint8_t kind, const uint8_t *channel
) noexcept nogil:
    """Where the next frame ends; 0 unless it is of this type and channel, allowed, and there."""
    cdef uint64_t length
    if size - at < OVERHEAD or data[at] != kind or data[at + 1] != channel[0] or data[at + 2] != channel[1]:
        return 0
    length = _number(data + at + 3, 4) + OVERHEAD
    if (frame_max and length > <uint64_t> frame_max) or length > <uint64_t> (size - at):
        return 0
    return at + <Py_ssize_t> length if data[at + <Py_ssize_t> length - 1] == FRAME_END else 0


cdef bint _take_delivery(
    FrameReader self,
    object channel,
    const uint8_t *data,
    Py_ssize_t size,
    const uint8_t *payload,
    Py_ssize_t length,
    Py_ssize_t *position,
    list found,
) except -1:
    """A delivery whose frames are all there, one behind the other; `position` is behind the first of them."""
    cdef Deliver deliver
    cdef Content content
    cdef Py_ssize_t first, at, end
    cdef uint64_t missing
    cdef const uint8_t *number = payload - 6
    if not _scan_deliver(payload, length, &deliver):
        return False
    first = _whole(data, size, position[0], self.frame_max, 2, number)
    if first == 0 or not _scan_content(data + position[0] + 7, first - position[0] - OVERHEAD, &content):
        return False
    at, missing = first, content.body_size
    while missing > 0:
        end = _whole(data, size, at, self.frame_max, 3, number)
        if end == 0 or <uint64_t> (end - at - OVERHEAD) > missing:
            return False
        missing -= <uint64_t> (end - at - OVERHEAD)
        at = end
    body = _joined(data, first, at, <Py_ssize_t> content.body_size)
    _put_delivered(channel, &deliver, &content, body, found)
    position[0] = at
    return True


cdef object _joined(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t size):
    """The payloads of the body frames from `at` to `end`, which have `size` bytes together."""
    cdef Py_ssize_t length
    body = PyBytes_FromStringAndSize(NULL, size)
    cdef char *out = PyBytes_AS_STRING(body)
    while at < end:
        length = <Py_ssize_t> _number(data + at + 3, 4)
        memcpy(out, data + at + 7, length)
        out += length
        at += length + OVERHEAD
    return body


cdef int _put_delivered(
    object channel, const Deliver *deliver, const Content *content, object body, list found
) except -1:
    cdef PyObject *values[8]
    cdef object delivery_tag = deliver.delivery_tag, redelivered = bool(deliver.redelivered)
    consumer_tag, exchange = _any_text(&deliver.consumer_tag), _any_text(&deliver.exchange)
    routing_key, headers = _any_text(&deliver.routing_key), _headers(&content.table)
    values[0], values[1], values[2] = <PyObject *> channel, <PyObject *> consumer_tag, <PyObject *> delivery_tag
    values[3], values[4], values[5] = <PyObject *> redelivered, <PyObject *> exchange, <PyObject *> routing_key
    values[6], values[7] = <PyObject *> headers, <PyObject *> body
    found.append(PyObject_Vectorcall(delivered, values, 8, NULL))
    return 0


cdef object _any_text(const Span *span):
    """What is no UTF-8 becomes a text that nobody owns."""
    text = _text(span.data, span.size)
    if text is None:
        return PyBytes_FromStringAndSize(<const char *> span.data, span.size).decode("utf-8", "backslashreplace")
    return text
