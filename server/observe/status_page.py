# SPDX-License-Identifier: Apache-2.0
"""The status page at `/`: complete without scripts; status.js only fetches it again and exchanges its main part.

Whatever a client or a repository named is text here, never markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hypersonic.server.observe.status import ModelStatus, ServerStatus, Status, StatusReader, UnitStatus

#: nothing but what this server sends is loaded; the icon is an empty one, so that none is asked for
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_STATIC = {"status.js": "text/javascript", "status.css": "text/css"}
_NONE = "\N{EN DASH}"


def status_routes(reader: StatusReader) -> list[Route]:
    """GET / (HTML), /status.json, /status.js, /status.css."""

    def page(_request: Request) -> Response:  # on a thread: cards' registers are read
        return Response(render(reader.read()), media_type="text/html", headers=HEADERS)

    def document(_request: Request) -> Response:
        return JSONResponse(reader.read().document(), headers=HEADERS)

    return [
        Route("/", page, methods=["GET"]),
        Route("/status.json", document, methods=["GET"]),
        *(_static(name, kind) for name, kind in _STATIC.items()),
    ]


def _static(name: str, kind: str) -> Route:
    content = files("hypersonic.server.observe").joinpath("static", name).read_bytes()

    async def send(_request: Request) -> Response:
        return Response(content, media_type=kind, headers={**HEADERS, "Cache-Control": "max-age=3600"})

    return Route(f"/{name}", send, methods=["GET"])


def render(status: Status) -> str:
    """The whole page."""
    title = escape(f"{status.server.name}: {status.server.state}")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="status.css">
<script src="status.js" defer></script>
<noscript><meta http-equiv="refresh" content="5"></noscript>
</head>
<body>
<p id="stale" role="alert" hidden>The server does not answer. Shown is what it last said.</p>
<main>
{_server(status.server)}
{_models(status.models)}
{_units(status.units)}
</main>
<footer><a href="status.json">this page as JSON</a> <a href="v2">/v2</a> <a href="v2/models/stats">statistics</a></footer>
</body>
</html>
"""


def _server(server: ServerStatus) -> str:
    limit = f" of {_bytes(server.bytes_limit)}" if server.bytes_limit else ""
    facts = (
        ("version", server.version),
        ("up", _duration(server.uptime_s)),
        ("requests in flight", f"{server.requests_in_flight:,}"),
        ("bytes in flight", f"{_bytes(server.bytes_in_flight)}{limit}"),
        ("refused for their bytes", f"{server.requests_refused:,}"),
    )
    listed = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f"<h1>{escape(server.name)} {_state(server.state, server.state == 'READY')}</h1>\n<dl>{listed}</dl>"


_MODEL_HEAD = (
    "model", "version", "state", "backend", "inferences/s", "executions/s", "queue, ms", "compute, ms", "waiting",
    "inferences", "failures",
)  # fmt: skip
_UNIT_HEAD = ("instance", "model", "card", "state", "busy", "runs", "timeouts")


def _models(models: Sequence[ModelStatus]) -> str:
    return _table("models", "Models", _MODEL_HEAD, 4, (_model_row(model) for model in models), "There is no model.")


def _model_row(model: ModelStatus) -> str:
    state = _state(model.state, model.state == "READY")
    if model.fallback:
        state += " " + _state("ON FALLBACK", good=False)
    if model.reason:
        state += f'<span class="reason">{escape(model.reason)}</span>'
    figures = (
        _figure(model.inferences_per_s), _figure(model.executions_per_s), _figure(model.queue_ms, 3),
        _figure(model.compute_ms, 3), f"{model.waiting:,}", f"{model.inferences:,}", f"{model.failures:,}",
    )  # fmt: skip
    return _row([escape(model.name), escape(model.version or _NONE), state, escape(model.backend or _NONE)], figures)


def _units(units: Sequence[UnitStatus]) -> str:
    return _table("instances", "Cards and compute units", _UNIT_HEAD, 4, map(_unit_row, units), "There is no instance.")


def _unit_row(unit: UnitStatus) -> str:
    card = f'{escape(unit.card)}<span class="reason">{escape(unit.gpu_uuid)}</span>' if unit.card else "host"
    state = _state("IN SERVICE" if unit.in_service else "OUT OF SERVICE", unit.in_service)
    if unit.standby:
        state += " standby"
    busy = unit.busy or 0.0
    shown = f'<meter min="0" max="1" value="{busy:.3f}"></meter> {100 * busy:.0f} %' if unit.busy is not None else _NONE
    return _row([escape(unit.name), escape(unit.model), card, state], (shown, f"{unit.runs:,}", f"{unit.timeouts:,}"))


def _table(name: str, caption: str, head: Sequence[str], texts: int, rows: Iterable[str], nothing: str) -> str:
    """texts: so many columns come before the figures."""
    titles = "".join(f'<th scope="col"{"" if n < texts else _FIGURE}>{title}</th>' for n, title in enumerate(head))
    body = "\n".join(rows) or f'<tr><td colspan="{len(head)}">{nothing}</td></tr>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table id="{name}">'
        f"<caption>{caption}</caption><thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


_FIGURE = ' class="figure"'


def _row(texts: Sequence[str], figures: Sequence[str]) -> str:
    """All of them markup already."""
    first, *rest = texts
    cells = "".join(f"<td>{text}</td>" for text in rest) + "".join(f"<td{_FIGURE}>{figure}</td>" for figure in figures)
    return f'<tr><th scope="row">{first}</th>{cells}</tr>'


def _state(text: str, good: bool) -> str:
    return f'<span class="state {"good" if good else "bad"}">{escape(text)}</span>'


def _figure(value: float | None, digits: int = 1) -> str:
    return _NONE if value is None else f"{value:,.{digits}f}"


def _bytes(size: int) -> str:
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f} {units[0]}" if units[0] != "B" else f"{size} B"


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock
