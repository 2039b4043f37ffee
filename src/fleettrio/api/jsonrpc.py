"""The lines of the local socket: JSON-RPC 2.0 requests, answers and errors, between bytes and types. No I/O.

One error shape: `{code, message, data: {reason, hint, exit}}`. A failure of ours has code -32000 and says its `reason`.
"""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from fleettrio.api.schema import METHODS
from fleettrio.calls import CallFailed
from fleettrio.complaints import complaint
from fleettrio.errors import FAILED, NO_BROKER, USAGE, FleetTrioError, SessionLost

__all__ = (
    "BadRequest",
    "CallError",
    "ErrorBody",
    "ErrorData",
    "Request",
    "RequestId",
    "busy",
    "encode",
    "encode_error",
    "failure",
    "internal_error",
    "parse_params",
    "parse_request",
    "too_long",
)

_PARSE, _INVALID, _NO_METHOD, _BAD_PARAMS, _INTERNAL, _NOT_DONE = -32700, -32600, -32601, -32602, -32603, -32000
_RETRY_MS = 1000
_SHAPE = 'a request is one line: {"jsonrpc":"2.0","id":1,"method":"status","params":{}}'
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

RequestId = int | str | msgspec.UnsetType | None


class CallError(FleetTrioError):
    """A request that cannot be done. `exit_code` is what the CLI exits with, `reason` one word for programs."""

    def __init__(self, exit_code: int, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code
        self.reason = reason


class ErrorData(msgspec.Struct, omit_defaults=True):
    """`exit` is the CLI's exit code; with `retry_ms` the same request may be repeated after so long."""

    reason: str
    hint: str
    exit: int
    retry_ms: int = 0


class ErrorBody(msgspec.Struct):
    code: int
    message: str
    data: ErrorData


class Request(msgspec.Struct, forbid_unknown_fields=True):
    method: str
    jsonrpc: str
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def is_notification(self) -> bool:
        """True when it is to be carried out and not answered."""
        return self.id is msgspec.UNSET


class _Answer(msgspec.Struct):
    id: int | str | None
    result: Any
    jsonrpc: str = "2.0"


class _Refusal(msgspec.Struct):
    id: int | str | None
    error: ErrorBody
    jsonrpc: str = "2.0"


_REQUEST = msgspec.json.Decoder(Request)
_PARAMS = {method: msgspec.json.Decoder(kind) for method, (kind, *_) in METHODS.items()}
_ENCODER = msgspec.json.Encoder()


class BadRequest(Exception):
    """Bytes that are no request of ours; `body` is the error to answer with."""

    def __init__(self, code: int, message: str, hint: str, reason: str = "bad-request") -> None:
        super().__init__(message)
        self.body = ErrorBody(code, message, ErrorData(reason, hint, USAGE))


def parse_request(line: bytes) -> Request:
    """One line as a request; its params are not read yet. Raises BadRequest."""
    if line.lstrip().startswith(b"["):
        raise BadRequest(_INVALID, "batches are not taken", "send one request a line")
    try:
        request = _REQUEST.decode(line)
    except msgspec.ValidationError as problem:
        raise BadRequest(_INVALID, f"not a JSON-RPC request: {problem}", _SHAPE) from None
    except _UNREADABLE as problem:
        raise BadRequest(_PARSE, f"not JSON: {problem}", _SHAPE) from None
    if request.jsonrpc != "2.0":
        raise BadRequest(_INVALID, "not JSON-RPC 2.0", _SHAPE)
    return request


def parse_params(request: Request) -> msgspec.Struct:
    """The parameters, of the method's type, unknown ones refused. Raises BadRequest, also for an unknown method."""
    if request.method not in METHODS:
        near = difflib.get_close_matches(request.method[:80], METHODS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(METHODS)}"
        raise BadRequest(_NO_METHOD, f"no method {request.method[:80]!r}", hint, "no-such-method")
    kind = METHODS[request.method][0]
    try:
        return _PARAMS[request.method].decode(request.params)
    except msgspec.ValidationError as problem:
        # A bad value is told with what a good one is; what is missing or unknown, with what there is.
        hint = "correct it, and ask again" if str(problem).startswith("Expected") else _takes(kind)
        raise BadRequest(_BAD_PARAMS, f"{request.method}: {complaint(problem)}", hint) from None
    except _UNREADABLE as problem:
        raise BadRequest(_BAD_PARAMS, f"{request.method}: {problem}", _takes(kind)) from None


def _takes(kind: type[msgspec.Struct]) -> str:
    return "it takes: " + (", ".join(field.encode_name for field in msgspec.structs.fields(kind)) or "nothing")


def encode(request_id: RequestId, result: Any) -> bytes:
    """The line of an answer, or of an error where the result is one."""
    if isinstance(result, ErrorBody):
        return encode_error(request_id, result)
    return _ENCODER.encode(_Answer(_echoed(request_id), result)) + b"\n"


def encode_error(request_id: RequestId, body: ErrorBody) -> bytes:
    """The line of an error; id None where it is about the connection and not about one request."""
    return _ENCODER.encode(_Refusal(_echoed(request_id), body)) + b"\n"


def _echoed(request_id: RequestId) -> int | str | None:
    return None if request_id is msgspec.UNSET else request_id


def too_long(limit: int) -> BadRequest:
    """A line over the limit."""
    return BadRequest(_INVALID, f"a request is longer than {limit} bytes", "send a smaller body")


def busy(what: str) -> ErrorBody:
    """Too much at once: come back in a second."""
    hint = f"try again in {_RETRY_MS // 1000} s"
    return ErrorBody(_NOT_DONE, f"too busy: {what}", ErrorData("busy", hint, FAILED, _RETRY_MS))


def internal_error(method: str) -> ErrorBody:
    """A bug of ours: what it was stands in the log, for it may hold what is not this caller's to see."""
    hint = "the daemon's log says what it was (`fleettrio config path` shows where)"
    return ErrorBody(_INTERNAL, f"{method[:80]} failed in the daemon", ErrorData("internal-error", hint, FAILED))


def failure(problem: FleetTrioError) -> ErrorBody:
    """What a caller gets for an expected failure."""
    if isinstance(problem, CallError | CallFailed):
        return ErrorBody(_NOT_DONE, str(problem), ErrorData(problem.reason, problem.hint, problem.exit_code))
    if isinstance(problem, SessionLost):
        hint = problem.hint or "try again; `fleettrio status` shows the link"
        return ErrorBody(_NOT_DONE, str(problem), ErrorData("broker-unreachable", hint, NO_BROKER))
    return ErrorBody(_NOT_DONE, str(problem), ErrorData("failed", problem.hint or "fleettrio doctor", FAILED))
