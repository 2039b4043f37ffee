# Text objects out of bytes. Few texts come again and again (names, hosts, keys), so the last one of each slot is kept.

cdef extern from "Python.h":
    # Errors by hand: guarding each text by `try` costs more than the work on it.
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size)
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    PyObject *PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)
    object PyUnicode_New(Py_ssize_t size, uint32_t most)
    void *PyUnicode_DATA(object text)
    object PyObject_Vectorcall(object called, PyObject **values, size_t count, PyObject *names)

cdef enum:
    KEPT_SIZE = 48
    KEPT_SLOTS = 256

cdef struct Kept:
    PyObject *text  # NULL while the slot is empty
    Py_ssize_t size
    uint8_t data[KEPT_SIZE]

cdef Kept kept_texts[KEPT_SLOTS]


cdef inline Kept *_slot_of(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef uint64_t first = 0, last = 0
    if size >= 8:
        memcpy(&first, data, 8)
        memcpy(&last, data + size - 8, 8)
    elif size > 0:
        memcpy(&first, data, size)
    first = (first ^ (last << 23 | last >> 41) ^ <uint64_t> size) * <uint64_t> 0x9E3779B97F4A7C15
    return &kept_texts[first >> 56]


cdef object _text(const uint8_t *data, Py_ssize_t size):
    """The text of `size` bytes of UTF-8, kept when it is short; None when they are no UTF-8."""
    cdef Kept *kept
    if size > KEPT_SIZE:
        return _utf8(data, size)
    kept = _slot_of(data, size)
    if kept.text != NULL and kept.size == size and memcmp(kept.data, data, size) == 0:
        return <object> kept.text
    text = _utf8(data, size)
    if text is not None:
        Py_INCREF(text)
        Py_XDECREF(kept.text)
        kept.text = <PyObject *> text
        kept.size = size
        memcpy(kept.data, data, size)
    return text


cdef object _utf8(const uint8_t *data, Py_ssize_t size):
    """As `_text`, for what hardly ever comes again."""
    cdef PyObject *made = PyUnicode_DecodeUTF8(<const char *> data, size, NULL)
    if made == NULL:
        PyErr_Clear()
        return None
    return _owned(made)


cdef inline bint _utf8_of(object text, const uint8_t **data, Py_ssize_t *size) noexcept:
    """The bytes of a text object; False, and none, where it is no Unicode."""
    if PyUnicode_IS_COMPACT_ASCII(text):
        data[0], size[0] = <const uint8_t *> PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text)
        return True
    data[0] = <const uint8_t *> PyUnicode_AsUTF8AndSize(text, size)
    if data[0] == NULL:
        PyErr_Clear()
        size[0] = 0
    return data[0] != NULL


cdef inline object _ascii(const uint8_t *data, Py_ssize_t size):
    """The text of bytes that are known to be ASCII, and hardly ever come again."""
    text = PyUnicode_New(size, 127)
    memcpy(PyUnicode_DATA(text), data, size)
    return text


cdef inline object _owned(PyObject *new):
    """The object of a new reference."""
    cdef object owned = <object> new
    Py_DECREF(owned)
    return owned


cdef inline bint _is_ascii(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef uint8_t all_bits = 0
    cdef Py_ssize_t at
    for at in range(size):
        all_bits |= data[at]
    return all_bits < 128


cdef inline bint _is(const uint8_t *data, Py_ssize_t size, const char *word, Py_ssize_t word_size) noexcept nogil:
    return size == word_size and memcmp(data, word, size) == 0
