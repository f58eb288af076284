"""Routes of the page, by FastAPI; imported only when the page is served."""

# No `from __future__ import annotations`: FastAPI reads the annotations of functions whose names are local here.
import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from common.errors import InvalidInput
from photo_search.index.places import StoreError
from photo_search.page.guards import limited, refusal
from photo_search.page.service import MOST_NEIGHBOURS, MOST_TOGETHER, PhotoService, Seen
from photo_search.page.uploads import Crop, Refused
from photo_search.photos.shown import shown_text

_FIELD = "photo"
_SECONDS_PER_UPLOAD = 60.0
_UPLOADS_AT_ONCE = 16  # in memory; others wait on the disk
_LARGEST_FORM = 4  # times the largest photo
_PLAIN = re.compile(r"[\w.+-]{1,40}", re.ASCII)  # values that an error repeats
_NO_SUCH = {404: "There is no such address.", 405: "This address takes no such request."}
_Count = Annotated[int, Query(ge=1, le=MOST_NEIGHBOURS)]
_Label = Annotated[str | None, Query(max_length=1000)]
_Where = Annotated[Sequence[str], Query(max_length=20)]
_CropText = Annotated[str | None, Query(alias="crop", max_length=200)]
_Version = Annotated[str | None, Query(max_length=20)]
_Name = Annotated[str, Query(max_length=1000)]
_Row = Annotated[int, Path(ge=0, le=2**53)]


def make_app(service: PhotoService) -> FastAPI:
    """Build the page and its JSON routes, with their error answers."""
    # FastAPI's own pages of documentation load scripts from elsewhere.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    few = asyncio.Semaphore(_UPLOADS_AT_ONCE)

    @contextlib.asynccontextmanager
    async def uploaded(request: Request, most: int) -> AsyncIterator[Sequence[UploadFile]]:
        largest = service.limits.upload_bytes
        received = Request(request.scope, limited(request.receive, largest * (1 if most == 1 else _LARGEST_FORM)))
        try:
            files = await _uploaded_files(received, most)
            if any(file.size and file.size > largest for file in files):
                raise Refused(413, f"The upload is too large; expected photos of at most {largest:,} bytes.")
            yield files
        finally:
            await received.close()

    @app.get("/api/index")
    def describe() -> JSONResponse:
        return JSONResponse(service.describe())

    @app.post("/api/search")
    async def search(
        request: Request, count: _Count = 12, label: _Label = None, where: _Where = (), crop: _CropText = None
    ) -> JSONResponse:
        part = None if crop is None else Crop.of(crop)

        async def seen(file: UploadFile) -> Seen:
            async with few:
                return await run_in_threadpool(service.seen, await file.read(), part)

        async with uploaded(request, MOST_TOGETHER) as files:
            photos = await asyncio.gather(*map(seen, files))
        return JSONResponse(await run_in_threadpool(service.search, photos, count, label, where))

    @app.post("/api/photos")
    async def add(request: Request, label: _Name) -> JSONResponse:
        async with uploaded(request, 1) as (file,), few:
            return JSONResponse(await run_in_threadpool(service.add, await file.read(), label))

    @app.get("/api/photos/{row}/neighbours")
    def neighbours(
        row: _Row,
        count: _Count = 12,
        label: _Label = None,
        where: _Where = (),
        crop: _CropText = None,
        version: _Version = None,
    ) -> JSONResponse:
        return JSONResponse(service.like(row, count, label, where, None if crop is None else Crop.of(crop), version))

    @app.get("/api/photos/{row}/picture")
    def picture(row: _Row, large: bool = False, version: _Version = None) -> Response:
        return Response(service.picture(row, large, version), media_type="image/jpeg")

    app.mount("/", StaticFiles(packages=[("photo_search.page", "static")], html=True))
    _answer_errors(app)
    return app


def _answer_errors(app: FastAPI) -> None:
    """Answer all errors as JSON objects with an `error`."""

    @app.exception_handler(InvalidInput)
    def of_input(_: Request, error: InvalidInput) -> JSONResponse:
        if isinstance(error, StoreError):  # visitors need not know its address
            return refusal(Refused(503, "The store of the index does not answer, or has another index now."))
        status, seconds = (error.status, error.seconds) if isinstance(error, Refused) else (422, None)
        return refusal(Refused(status, shown_text(str(error)), seconds))

    @app.exception_handler(RequestValidationError)
    def of_parameters(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        received = str(first.get("input"))
        shown = repr(received) if _PLAIN.fullmatch(received) else "another text"
        return refusal(Refused(422, f"Invalid {first['loc'][-1]}: received {shown}. {first['msg']}."))

    @app.exception_handler(HTTPException)
    def of_http(_: Request, error: HTTPException) -> JSONResponse:
        return refusal(Refused(error.status_code, _NO_SUCH.get(error.status_code, str(error.detail))))

    @app.exception_handler(Exception)
    def of_code(_: Request, error: Exception) -> JSONResponse:
        return refusal(Refused(500, "The page has failed; its terminal says why."))


async def _uploaded_files(request: Request, most: int) -> Sequence[UploadFile]:
    """Return the files of a form, on the disk; refuse other requests."""
    number = "one file" if most == 1 else f"1 to {most} files, each"
    expected = f"a form (multipart/form-data) with {number} named {_FIELD}"
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Refused(415, f"Received another content type; expected {expected}.")
    try:
        form = await asyncio.wait_for(request.form(max_files=most + 1, max_fields=2), _SECONDS_PER_UPLOAD)
        items: list[tuple[str, Any]] = form.multi_items()
        files = [each for name, each in items if name == _FIELD and isinstance(each, UploadFile)]
        if len(files) == len(items) and 0 < len(files) <= most:
            return files
    except asyncio.TimeoutError as error:
        raise Refused(408, f"The upload took longer than {_SECONDS_PER_UPLOAD:g} s.") from error
    except ClientDisconnect as error:
        raise Refused(400, "The upload ended before its end.") from error
    except FormParserError as error:
        raise Refused(400, f"The form cannot be read; expected {expected}.") from error
    raise Refused(400, f"Received {len(items)} fields or other ones; expected {expected}.")
