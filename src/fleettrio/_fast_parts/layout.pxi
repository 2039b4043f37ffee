# Headers read into records, and written, without a dict between. See `_pure/layout.py`.

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    ctypedef struct PyMemberDef:
        int type
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member
    PyTypeObject PyMemberDescr_Type
    bint PyObject_TypeCheck(object value, PyTypeObject *type)

cdef extern from "structmember.h":
    int T_OBJECT_EX

cdef enum:
    MOST_FIELDS = 40
    MOST_CHOICES = 16

cdef struct Place:
    const uint8_t *name
    Py_ssize_t name_size
    Py_ssize_t offset    # of its slot; -1: the version, which has none
    Py_ssize_t rank      # among the attributes
    int form
    uint64_t least
    uint64_t most
    Py_ssize_t choices
    const uint8_t *choice[MOST_CHOICES]
    Py_ssize_t choice_size[MOST_CHOICES]

cdef enum:
    WORD = 0
    MSG_ID = 1
    TRACE_ID = 2
    GID = 3
    NAME = 4
    KEY = 5
    PRINTABLE = 6
    CHOICE = 7
    OCTETS = 8
    NUMBER = 9
    FLAG = 10


cdef class _Rule:
    """A `KindRule`, with bits for what must be there."""

    cdef uint64_t needs
    cdef uint64_t longest
    cdef uint64_t longest_now
    cdef bytes target
    cdef bytes salt


cdef class Layout:
    """Reads headers into instances of `cls`, a struct, and writes them."""

    cdef object reference
    cdef object cls
    cdef Py_ssize_t count
    cdef Place places[MOST_FIELDS]
    cdef Py_ssize_t extra
    cdef int kind_at, to_at, salt_at, when_at, ts_at, expires_at
    cdef dict rules
    cdef _Rule other_rule
    cdef list kept  # what the places point into

    def __init__(self, cls, version, fields, always, kinds, other_kind):
        """`cls` has an attribute for each of `fields`, in order, None where it is absent, and `extra` for all others.

        Raises `TypeError` for a class that has others.
        """
        cdef Py_ssize_t at
        cdef list held
        self.reference = _pure.Layout(cls, version, fields, always, kinds, other_kind)
        if len(fields) >= MOST_FIELDS:
            raise TypeError(f"a layout has under {MOST_FIELDS} fields here")
        self.cls = cls
        self.extra = _offset_of(cls, "extra")
        self.kept = []
        version_field = _pure.Field("v", "", _pure.Form.NUMBER, "", least=version, most=version)
        held = sorted([version_field, *fields], key=lambda field: (len(field.name.encode()), field.name.encode()))
        names = [field.name for field in held]
        self.count = len(held)
        for at in range(self.count):
            _take_place(self, held, at)
        [self.kind_at, self.to_at, self.salt_at, self.when_at, self.ts_at, self.expires_at] = [
            names.index(name) for name in ("kind", "to", "fromSalt", "when", "ts", "expiresAt")
        ]
        bits = {name: 1 << number for number, name in enumerate(names)}
        self.rules = {str(kind): _rule_of(rule, always, bits) for kind, rule in kinds.items()}
        self.other_rule = _rule_of(other_kind, always, bits)

    def read(self, bytes header not None):
        """The record in `header`.

        Raises `MalformedEnvelope` for bytes that are not canonical and for fields that are missing, of a wrong type or
        out of bounds, and `UnsupportedVersion` for a newer major version.
        """
        cdef Item items[MOST_FIELDS]
        cdef uint64_t present = 0
        if _scan(self, <const uint8_t *> PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header), items, &present):
            if _follows_rule(self, items, present):
                return _build(self, items, present)
        return self.reference.read(header)

    def write(self, record):
        """The canonical header of `record`. Raises `MalformedEnvelope`, naming the field, when a check fails."""
        cdef Item items[MOST_FIELDS]
        cdef uint64_t present = 0
        cdef Py_ssize_t at
        if type(record) is self.cls and _is_empty(_slot(record, self.extra)):
            for at in range(self.count):
                if not _take_item(&self.places[at], record, &items[at], at, &present):
                    break
            else:
                if _follows_rule(self, items, present):
                    header = _header_of(self, items, present)
                    if header is not None:
                        return header
        return self.reference.write(record)


cdef int _take_place(Layout self, list fields, Py_ssize_t at) except -1:
    cdef object field = fields[at]
    cdef bytes name = field.name.encode()
    cdef Place *place = &self.places[at]
    cdef Py_ssize_t choice
    cdef list choices = [word.encode() for word in field.choices]
    if len(choices) > MOST_CHOICES or len(name) > MAX_KEY:
        raise TypeError(f"field {field.name}: too many choices, or too long a name")
    self.kept.append((name, choices))
    place.name = <const uint8_t *> PyBytes_AS_STRING(name)
    place.name_size = len(name)
    if field.attribute:
        place.offset = _offset_of(self.cls, field.attribute)
        place.rank = self.cls.__struct_fields__.index(field.attribute)
    else:
        place.offset = place.rank = -1
    place.form = field.form
    place.least = field.least
    place.most = field.most
    place.choices = len(choices)
    for choice in range(place.choices):
        _take_choice(place, choices, choice)
    return 0


cdef int _take_choice(Place *place, list choices, Py_ssize_t at) except -1:
    cdef bytes word = choices[at]
    place.choice[at] = <const uint8_t *> PyBytes_AS_STRING(word)
    place.choice_size[at] = PyBytes_GET_SIZE(word)
    return 0


cdef Py_ssize_t _offset_of(object cls, str name) except -1:
    slot = getattr(cls, name, None)
    if not PyObject_TypeCheck(slot, &PyMemberDescr_Type):
        raise TypeError(f"{cls.__name__}.{name} is not a slot")
    if (<PyMemberDescrObject *> slot).d_member.type != T_OBJECT_EX:
        raise TypeError(f"{cls.__name__}.{name} is not a slot for objects")
    return (<PyMemberDescrObject *> slot).d_member.offset


cdef inline PyObject *_slot(object made, Py_ssize_t offset) noexcept:
    """What a slot holds, borrowed; NULL when it is empty."""
    return (<PyObject **> (<char *> <PyObject *> made + offset))[0]


cdef _Rule _rule_of(object rule, object always, dict bits):
    made = _Rule()
    made.needs = sum({bits[name] for name in ("v", *always, *rule.needs)})
    made.longest, made.longest_now = rule.longest_ms, rule.longest_now_ms
    made.target, made.salt = rule.target.encode(), rule.salt
    return made


# Reading. False, from any of these: the reference looks closer.

cdef bint _scan(Layout self, const uint8_t *data, Py_ssize_t size, Item *items, uint64_t *present) noexcept:
    """The fields of a header, each checked by itself. Both they and the places are in order, so one walk finds them."""
    cdef Item key
    cdef Py_ssize_t at = 0, place = 0
    cdef uint64_t left
    if size > MAX_HEADER or not _scan_item(data, size, &at, &key) or key.major != MAP:
        return False
    left = key.number
    while left > 0:
        left -= 1
        if not _scan_item(data, size, &at, &key) or key.major != TEXT or key.number > MAX_KEY:
            return False
        while place < self.count and not _is(
            key.data, <Py_ssize_t> key.number, <const char *> self.places[place].name, self.places[place].name_size
        ):
            place += 1
        if place == self.count or not _scan_item(data, size, &at, &items[place]):
            return False
        if not _holds(&self.places[place], &items[place]):
            return False
        present[0] |= <uint64_t> 1 << place
        place += 1
    return at == size


cdef bint _holds(const Place *place, const Item *item) noexcept nogil:
    cdef Py_ssize_t size = <Py_ssize_t> item.number, at
    if place.form == FLAG:
        return item.major == BOOL
    if place.form == NUMBER:
        return item.major == UINT and place.least <= item.number <= place.most
    if place.form == OCTETS:
        return item.major == BYTES and place.least <= item.number <= place.most
    if item.major != TEXT:
        return False
    if place.form == WORD:
        return _is_word(item.data, size)
    if place.form == MSG_ID:
        return _is_uuid(item.data, size, 55)
    if place.form == GID:
        return _is_uuid(item.data, size, 56)
    if place.form == TRACE_ID:
        return size == 32 and _is_hex(item.data, size)
    if place.form == NAME:
        return _is_name(item.data, size)
    if place.form == KEY:
        return _is_key(item.data, size)
    if place.form == CHOICE:
        for at in range(place.choices):
            if _is(item.data, size, <const char *> place.choice[at], place.choice_size[at]):
                return True
        return False
    if place.form == PRINTABLE and place.least <= item.number <= place.most:
        for at in range(size):
            if item.data[at] < 32 or item.data[at] > 126:
                return False
        return True
    return False


cdef bint _follows_rule(Layout self, const Item *items, uint64_t present) except -1:
    """Whether everything is there, it goes where its kind goes, and lives no longer."""
    cdef const Item *to = &items[self.to_at]
    cdef const Item *salt = &items[self.salt_at]
    cdef _Rule rule
    cdef Py_ssize_t dot
    cdef uint64_t since, until
    if (present & self.other_rule.needs) != self.other_rule.needs:
        return False
    rule = self.rules.get(_text(items[self.kind_at].data, <Py_ssize_t> items[self.kind_at].number), self.other_rule)
    if (present & rule.needs) != rule.needs:
        return False
    if PyBytes_GET_SIZE(rule.salt) and not _is_bytes(salt.data, <Py_ssize_t> salt.number, rule.salt):
        return False
    if PyBytes_GET_SIZE(rule.target):
        dot = _dot(to.data, <Py_ssize_t> to.number)
        if dot >= 0:
            if not _is_bytes(to.data, dot, rule.target):
                return False
        elif _is_uuid(to.data, <Py_ssize_t> to.number, 56):
            if not _is_bytes(<const uint8_t *> <const char *> b"inbox", 5, rule.target):
                return False
        elif not _is_bytes(<const uint8_t *> <const char *> b"host", 4, rule.target):
            return False
    since, until = items[self.ts_at].number, items[self.expires_at].number
    if until < since:
        return False
    if present & <uint64_t> 1 << self.when_at and _is(
        items[self.when_at].data, <Py_ssize_t> items[self.when_at].number, b"now", 3
    ):
        return until - since <= rule.longest_now
    return until - since <= rule.longest


cdef inline bint _is_bytes(const uint8_t *data, Py_ssize_t size, bytes word) noexcept:
    return _is(data, size, PyBytes_AS_STRING(word), PyBytes_GET_SIZE(word))


cdef object _build(Layout self, const Item *items, uint64_t present):
    cdef PyObject *values[MOST_FIELDS]
    cdef list kept = []  # borrowed by `values`
    cdef Py_ssize_t at
    cdef dict extra = {}
    for at in range(self.count):
        if self.places[at].offset >= 0:
            values[self.places[at].rank] = <PyObject *> None
            if present & <uint64_t> 1 << at:
                _put_item(&values[self.places[at].rank], &self.places[at], &items[at], kept)
    values[self.count - 1] = <PyObject *> extra
    return PyObject_Vectorcall(self.cls, values, self.count, NULL)


cdef int _put_item(PyObject **slot, const Place *place, const Item *item, list kept) except -1:
    cdef object value
    cdef Py_ssize_t size = <Py_ssize_t> item.number
    if place.form == NUMBER:
        value = item.number
    elif place.form == FLAG:
        value = item.number == 1
    elif place.form == OCTETS:
        value = PyBytes_FromStringAndSize(<const char *> item.data, size)
    elif place.form == MSG_ID or place.form == TRACE_ID or place.form == PRINTABLE:
        value = _ascii(item.data, size)
    else:
        value = _text(item.data, size)
    kept.append(value)
    slot[0] = <PyObject *> value
    return 0


# Writing.

cdef bint _take_item(const Place *place, object record, Item *item, Py_ssize_t at, uint64_t *present) except -1:
    """Point `item` at what the record holds there, if that is as it should be."""
    cdef PyObject *held
    if place.offset < 0:
        item.data, item.major, item.number = NULL, UINT, place.most
        present[0] |= <uint64_t> 1 << at
        return True
    held = _slot(record, place.offset)
    if held == <PyObject *> None:
        return True
    if held == NULL or not _item_of(<object> held, item):
        return False
    present[0] |= <uint64_t> 1 << at
    return _holds(place, item)


cdef bint _is_empty(PyObject *extra) except -1:
    return extra != NULL and not <object> extra


cdef object _header_of(Layout self, const Item *items, uint64_t present):
    """The bytes; None when they are too many."""
    cdef Py_ssize_t at, count = 0, size = 0
    cdef uint8_t *out
    for at in range(self.count):
        if present & <uint64_t> 1 << at:
            count += 1
            size += 1 + self.places[at].name_size + _item_size(&items[at])
    size += _head_size(count)
    if size > MAX_HEADER:
        return None
    header = PyBytes_FromStringAndSize(NULL, size)
    out = _write_head(<uint8_t *> PyBytes_AS_STRING(header), MAP, <uint64_t> count)
    for at in range(self.count):
        if present & <uint64_t> 1 << at:
            out[0] = <uint8_t> (TEXT << 5 | self.places[at].name_size)
            memcpy(out + 1, self.places[at].name, self.places[at].name_size)
            out = _write_item(out + 1 + self.places[at].name_size, &items[at])
    return header
