"""The application of `krepes serve`: one model over HTTP, for this machine or behind a proxy.

    POST /predict, /transform, /explain     {"rows": [...]}, as far as the model can
    GET  /health, /schema, /docs            alive; what rows look like; the OpenAPI page

The model is read once, when the server starts: no request names a path. Bodies, rows, seconds and requests at work are
limited. What is wrong with a request is said with a status from 400 to 499; rows by number and column.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from krepes._version import __version__
from krepes.one_pass import OnePassEstimator
from krepes.serving.answers import can, predictions_of, reasons_of, representation_of
from krepes.serving.request_rows import BadRowsError, as_table, row_schema

ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "predict": predictions_of,
    "transform": representation_of,
    "explain": reasons_of,
}
PROBLEMS = {
    400: "The body is not JSON.",
    401: "The token is missing or wrong.",
    408: "The rows took too long: send fewer.",
    413: "The body is too large.",
    422: "A row is wrong; the text names it.",
    429: "Too many requests at once: try again.",
}


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, and how many are answered at a time; others wait, and some are sent away."""

    body_bytes: int = 10_000_000
    rows: int = 10_000
    seconds: float = 30.0
    at_once: int = 2
    waiting: int = 64


def application(model: OnePassEstimator, limits: Limits | None = None, token: str | None = None) -> Any:
    """The ASGI application of a fitted model."""
    try:
        from fastapi import FastAPI, Request
        from fastapi.responses import JSONResponse
        from starlette.requests import ClientDisconnect
    except ImportError:
        raise ImportError("krepes serve needs FastAPI and uvicorn: pip install 'krepes[serve]'.") from None

    bounds = limits or Limits()
    model = model.without_engine()
    inputs, abilities = model.space_.inputs, can(model)
    rows: dict[str, Any] = {
        "type": "array",
        "items": row_schema(inputs),
        "minItems": 1,
        "maxItems": bounds.rows,
    }
    body = {"type": "object", "properties": {"rows": rows}, "required": ["rows"]}
    app = FastAPI(title=f"krepes {type(model).__name__}", version=__version__)
    slots, waiting = asyncio.Semaphore(bounds.at_once), 0

    def problem(status: int, text: str) -> Any:
        headers = {"Retry-After": "1"} if status == 429 else {}
        headers |= {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        return JSONResponse({"error": text}, status, headers)

    def allowed(request: Request) -> bool:
        given = request.headers.get("authorization", "").encode("utf-8", "replace")
        return token is None or hmac.compare_digest(given, f"Bearer {token}".encode())

    async def whole_body(request: Request) -> bytes | None:
        """None where it is too large; no more than the limit is held."""
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > bounds.body_bytes:
                return None
            parts.append(part)
        return b"".join(parts)

    async def answered(request: Request, answer: Callable[..., dict[str, Any]]) -> Any:
        """The answer to a request that may ask, within the time that it has, which starts before its body is read."""
        nonlocal waiting
        if not allowed(request):
            return problem(401, "Give the server's token: Authorization: Bearer ...")
        if waiting >= bounds.waiting:
            return problem(429, PROBLEMS[429])
        waiting += 1
        try:
            async with asyncio.timeout(bounds.seconds):
                return await of_rows(request, answer)
        except TimeoutError:
            return problem(408, f"No answer within {bounds.seconds:g} seconds: send fewer rows.")
        except ClientDisconnect:
            return problem(400, "The body is not whole.")  # nobody reads this
        finally:
            waiting -= 1

    async def of_rows(request: Request, answer: Callable[..., dict[str, Any]]) -> Any:
        raw = await whole_body(request)
        if raw is None:
            return problem(413, f"The body is larger than {bounds.body_bytes:,} bytes.")
        try:
            given = json.loads(raw, parse_constant=_not_a_number)
        except (ValueError, RecursionError) as error:
            return problem(400, f"The body is not JSON: {error}")
        if not isinstance(given, dict) or "rows" not in given:
            return problem(422, 'Expected an object {"rows": [...]}.')
        await slots.acquire()
        work = asyncio.ensure_future(
            asyncio.to_thread(lambda: answer(model, as_table(inputs, given["rows"], bounds.rows)))
        )
        work.add_done_callback(lambda _: slots.release())  # a thread goes on when its request has timed out
        try:
            return JSONResponse(await asyncio.shield(work))
        except (BadRowsError, ValueError, TypeError, OverflowError) as error:
            return problem(422, str(error))

    error_schema = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    errors: dict[int | str, Any] = {
        status: {"description": text, "content": {"application/json": {"schema": error_schema}}}
        for status, text in PROBLEMS.items()
    }
    needs: dict[str, Any] = {
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}}
    }

    def post(name: str) -> None:
        async def route(request: Request) -> Any:
            return await answered(request, ANSWERS[name])

        route.__annotations__["request"] = Request
        summary = (ANSWERS[name].__doc__ or "").splitlines()[0]
        app.post(f"/{name}", summary=summary, responses=errors, openapi_extra=needs, operation_id=name)(route)

    for name in abilities:
        post(name)

    @app.get("/health", summary="Whether the server answers.")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/schema", summary="What the model is, and the JSON schema of a request.")
    async def schema() -> dict[str, Any]:
        facts = {"model": type(model).__name__, "krepes": __version__, "answers": abilities}
        return {**facts, "sha256": identity, "limits": vars(bounds), "request": body}

    identity = model.identity()["model"]
    return app


def _not_a_number(word: str) -> float:
    raise ValueError(f"{word} is not a number of JSON; write null for a missing value.")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    return host in ("127.0.0.1", "::1", "localhost")
