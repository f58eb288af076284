"""Routes of the page, by FastAPI, which is imported only when needed."""

# No `from __future__ import annotations`: FastAPI reads the annotations of functions whose names are local here.
import re
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any

from common.errors import InvalidInput
from experiments.photos.service import MOST_NEIGHBOURS, PhotoService
from experiments.photos.shown import shown_text
from experiments.photos.uploads import Refused

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

_FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_FIELD = "photo"
_PLAIN = re.compile(r"[\w.+-]{1,40}", re.ASCII)  # values that an error repeats
_NO_SUCH = {404: "There is no such address.", 405: "This address takes no such request."}


def make_app(service: PhotoService) -> "FastAPI":
    """Build the page and its JSON routes, with their error answers.

    Args:
        service: what answers.
    """
    from fastapi import FastAPI, Path, Query, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import JSONResponse, Response

    # FastAPI's own pages of documentation load scripts from elsewhere.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    count_type = Annotated[int, Query(ge=1, le=MOST_NEIGHBOURS)]
    label_type = Annotated[str | None, Query(max_length=1000)]
    row_type = Annotated[int, Path(ge=0, le=2**53)]

    @app.get("/api/index")
    def describe() -> JSONResponse:
        return JSONResponse(service.describe())

    @app.post("/api/search")
    async def search(request: Request, count: count_type = 12, label: label_type = None) -> JSONResponse:
        contents = await _uploaded_file(request)
        return JSONResponse(await run_in_threadpool(service.search, contents, count, label))

    @app.get("/api/photos/{row}/neighbours")
    def neighbours(row: row_type, count: count_type = 12, label: label_type = None) -> JSONResponse:
        return JSONResponse(service.like(row, count, label))

    @app.get("/api/photos/{row}/picture")
    def picture(row: row_type) -> Response:
        return Response(service.picture(row), media_type="image/jpeg")

    for address, (name, kind) in _FILES.items():
        contents = (resources.files("experiments.photos") / name).read_bytes()
        app.add_api_route(address, _file(Response(contents, media_type=kind)), methods=["GET"])
    _answer_errors(app)
    return app


def _file(response: Any) -> Any:  # noqa: ANN401 (types of FastAPI)
    return lambda: response


def _answer_errors(app: "FastAPI") -> None:
    """Answer all errors as JSON objects with an `error`."""
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse
    from starlette.exceptions import HTTPException

    def answer(status: int, message: str) -> JSONResponse:
        return JSONResponse({"error": message}, status)

    @app.exception_handler(InvalidInput)
    def of_input(_: "Request", error: InvalidInput) -> JSONResponse:
        return answer(error.status if isinstance(error, Refused) else 422, shown_text(str(error)))

    @app.exception_handler(RequestValidationError)
    def of_parameters(_: "Request", error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        received = str(first.get("input"))
        shown = repr(received) if _PLAIN.fullmatch(received) else "another text"
        return answer(422, f"Invalid {first['loc'][-1]}: received {shown}. {first['msg']}.")

    @app.exception_handler(HTTPException)
    def of_http(_: "Request", error: HTTPException) -> JSONResponse:
        return answer(error.status_code, _NO_SUCH.get(error.status_code, str(error.detail)))

    @app.exception_handler(Exception)
    def of_code(_: "Request", error: Exception) -> JSONResponse:
        return answer(500, "The page has failed; its terminal says why.")


async def _uploaded_file(request: "Request") -> bytes:
    """Return the only file of a form.

    Raises:
        Refused: the request is no form, or the form has anything else.
    """
    from python_multipart.exceptions import FormParserError
    from starlette.datastructures import UploadFile

    expected = f"a form (multipart/form-data) with one file named {_FIELD}"
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Refused(415, f"Received another content type; expected {expected}.")
    try:
        async with request.form(max_files=2, max_fields=2) as form:
            items = form.multi_items()
            if len(items) == 1 and items[0][0] == _FIELD and isinstance(items[0][1], UploadFile):
                return await items[0][1].read()
    except FormParserError as error:
        raise Refused(400, f"The form cannot be read; expected {expected}.") from error
    raise Refused(400, f"Received {len(items)} fields or other ones; expected {expected}.")
