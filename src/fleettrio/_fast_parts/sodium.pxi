# libsodium's functions, out of the library file that PyNaCl ships; a system's own is another one, or none.

cdef extern from "dlfcn.h" nogil:
    void *dlopen(const char *path, int flags)
    void *dlsym(void *library, const char *name)
    int RTLD_NOW

ctypedef int (*verify_function)(
    const uint8_t *signature, const uint8_t *message, unsigned long long size, const uint8_t *key
) noexcept nogil
ctypedef int (*hash_function)(
    uint8_t *out, size_t out_size, const uint8_t *data, unsigned long long size, const uint8_t *key, size_t key_size
) noexcept nogil

ctypedef int (*hash_init_function)(void *state, const uint8_t *key, size_t key_size, size_t out_size) noexcept nogil
ctypedef int (*hash_update_function)(void *state, const uint8_t *data, unsigned long long size) noexcept nogil
ctypedef int (*hash_final_function)(void *state, uint8_t *out, size_t out_size) noexcept nogil

cdef verify_function sodium_verify = NULL
cdef hash_function sodium_hash = NULL
cdef hash_init_function sodium_hash_init = NULL
cdef hash_update_function sodium_hash_update = NULL
cdef hash_final_function sodium_hash_final = NULL

cdef enum:
    HASH_STATE = 384  # bytes of crypto_generichash_blake2b_state, aligned to 64


cdef void *_find(void *library, const char *name) except NULL:
    cdef void *found = dlsym(library, name)
    if found == NULL:
        raise ImportError(f"the library of PyNaCl has no {name.decode()}")
    return found


cdef int _open_sodium() except -1:
    global sodium_verify, sodium_hash, sodium_hash_init, sodium_hash_update, sodium_hash_final
    cdef bytes path = os.fsencode(nacl._sodium.__file__)
    cdef void *library = dlopen(path, RTLD_NOW)
    if library == NULL:
        raise ImportError(f"the library of PyNaCl cannot be opened: {nacl._sodium.__file__}")
    sodium_verify = <verify_function> _find(library, b"crypto_sign_ed25519_verify_detached")
    sodium_hash = <hash_function> _find(library, b"crypto_generichash_blake2b")
    sodium_hash_init = <hash_init_function> _find(library, b"crypto_generichash_blake2b_init")
    sodium_hash_update = <hash_update_function> _find(library, b"crypto_generichash_blake2b_update")
    sodium_hash_final = <hash_final_function> _find(library, b"crypto_generichash_blake2b_final")
    return 0


_open_sodium()
