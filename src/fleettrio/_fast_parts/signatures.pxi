# Signatures, verified without the GIL, many of them on several cores. See `_pure/trees.py`.

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_t:
        pass
    int pthread_create(pthread_t *thread, const void *attributes, void *(*start)(void *) noexcept nogil, void *argument)
    int pthread_join(pthread_t thread, void **result)

cdef enum:
    MOST_THREADS = 16
    LEAST_SHARE = 8  # signatures that are worth a thread: it costs as much as one of them

cdef struct Check:
    const uint8_t *key
    const uint8_t *signature
    const uint8_t *message
    unsigned long long size
    bint whole  # key and signature have their lengths
    bint good

cdef struct Share:
    Check *checks
    Py_ssize_t count

cdef Py_ssize_t cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def verify_many(items):
    """Whether each `(public key, signature, message)` holds, by libsodium; a wrong length is False, not an error."""
    cdef tuple held = tuple(items)
    cdef Py_ssize_t count = len(held), at
    cdef list verdicts = []
    cdef Check *checks = <Check *> PyMem_Malloc((count + 1) * sizeof(Check))
    if checks == NULL:
        raise MemoryError
    try:
        for at in range(count):
            _take_check(&checks[at], held, at)
        with nogil:
            _verify_all(checks, count)
        for at in range(count):
            _put_verdict(&checks[at], verdicts)
        return verdicts
    finally:
        PyMem_Free(checks)


cdef int _take_check(Check *check, tuple held, Py_ssize_t at) except -1:
    """A tuple of bytes and nothing else: only those stay as they are while the GIL is given away."""
    cdef tuple item = <tuple?> held[at]
    key, signature, message = item
    if not (PyBytes_Check(key) and PyBytes_Check(signature) and PyBytes_Check(message)):
        raise TypeError("key, signature and message must be bytes")
    check.key = <const uint8_t *> PyBytes_AS_STRING(key)
    check.signature = <const uint8_t *> PyBytes_AS_STRING(signature)
    check.message = <const uint8_t *> PyBytes_AS_STRING(message)
    check.size = <unsigned long long> PyBytes_GET_SIZE(message)
    check.whole = PyBytes_GET_SIZE(key) == 32 and PyBytes_GET_SIZE(signature) == 64
    check.good = False
    return 0


cdef int _put_verdict(const Check *check, list verdicts) except -1:
    verdicts.append(check.good)
    return 0


cdef void _verify_all(Check *checks, Py_ssize_t count) noexcept nogil:
    """In shares of one size, the first here, the others in threads that end before this does."""
    cdef pthread_t threads[MOST_THREADS]
    cdef Share shares[MOST_THREADS]
    cdef Py_ssize_t wanted = min(cores, <Py_ssize_t> MOST_THREADS, count // LEAST_SHARE), started = 1, at, first
    if wanted < 2:
        _verify_share(checks, count)
        return
    first = count // wanted
    for at in range(1, wanted):
        shares[at].checks = checks + count * at // wanted
        shares[at].count = count * (at + 1) // wanted - count * at // wanted
        if pthread_create(&threads[at], NULL, _run_share, &shares[at]) != 0:
            break
        started += 1
    _verify_share(checks, first)
    for at in range(1, started):
        pthread_join(threads[at], NULL)
    if started < wanted:
        first = count * started // wanted
        _verify_share(checks + first, count - first)


cdef void *_run_share(void *argument) noexcept nogil:
    cdef Share *share = <Share *> argument
    _verify_share(share.checks, share.count)
    return NULL


cdef void _verify_share(Check *checks, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t at
    for at in range(count):
        if checks[at].whole:
            checks[at].good = sodium_verify(
                checks[at].signature, checks[at].message, checks[at].size, checks[at].key
            ) == 0
