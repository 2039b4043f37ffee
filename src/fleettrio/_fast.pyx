# cython: language_level=3, embedsignature=True, binding=True, boundscheck=True, cdivision=True
"""Compiled twin of `_pure`: same names, results, errors and texts. No policy here; the rules stand there.

Rules of its own:

1. No loop over fields, leaves, frames or signatures calls into Python: what touches objects is one C function per
   item, beside the loop.
2. Bytes from outside are read by functions that take where they end, and never move past it.
3. What is as it should be is read and written here. What is not goes, whole, to the twin: its word on what is wrong is
   the only one.
4. Cryptography is libsodium's, out of the library file that PyNaCl ships. Signatures and much data are worked on
   without the GIL, over objects that a tuple of ours keeps alive and that nobody can change.

One extension in several files, by what they are about: it is there, whole, or not.
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_Check,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.dict cimport PyDict_CheckExact, PyDict_Next, PyDict_Size
from cpython.exc cimport PyErr_Clear
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_AsUnsignedLongLong, PyLong_Check, PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.number cimport PyNumber_Invert
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

import os

import nacl._sodium
# The bindings initialise the library: it picks its fastest code for this processor.
import nacl.bindings

from fleettrio import _pure

__all__ = (
    "FrameReader",
    "Layout",
    "SeenSet",
    "decode_header",
    "encode_header",
    "encode_publishes",
    "is_gid",
    "is_key",
    "is_msg_id",
    "is_name",
    "is_plain",
    "is_trace_id",
    "is_word",
    "leaf_of",
    "leaves_of",
    "merkle",
    "read_content_header",
    "read_header_table",
    "root_of",
    "roots_of",
    "table_size",
    "verify_many",
)

cdef enum:
    KEPT_GIL = 16384  # bytes that are hashed sooner than another thread could make use of the GIL

include "_fast_parts/sodium.pxi"
include "_fast_parts/text.pxi"
include "_fast_parts/items.pxi"
include "_fast_parts/encode.pxi"
include "_fast_parts/decode.pxi"
include "_fast_parts/trees.pxi"
include "_fast_parts/signatures.pxi"
include "_fast_parts/forms.pxi"
include "_fast_parts/layout.pxi"
include "_fast_parts/contents.pxi"
include "_fast_parts/plain.pxi"
include "_fast_parts/frames.pxi"
include "_fast_parts/publishes.pxi"
include "_fast_parts/seen.pxi"
