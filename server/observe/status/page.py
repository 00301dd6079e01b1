# SPDX-License-Identifier: Apache-2.0
"""The status page at `/`. It is complete without scripts; status.js only fetches it again and replaces its main part.

Names from clients and repositories are always escaped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape as _markup
from importlib.resources import files
from typing import NamedTuple

from hypersonic.server.errors import printable
from hypersonic.server.observe.status.reader import CardStatus, ModelStatus, ServerStatus, Status, StatusReader, UnitStatus

#: browsers load only content from this server; the icon is empty, so that browsers do not request one
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


def _text(text: str) -> str:
    """Return text as markup with unprintable characters shown as escapes, so that no name can look like another."""
    return _markup(printable(text))


class Page(NamedTuple):
    """A page with its path.

    Attributes:
        content: the body, or a function that reads it, which may take as long as reading the cards' registers.
    """

    path: str
    media_type: str
    content: bytes | Callable[[], bytes]
    headers: Mapping[str, str] = HEADERS


def status_pages(reader: StatusReader) -> list[Page]:
    """Return the pages / (HTML), /status.json, /status.js and /status.css."""

    def document() -> bytes:
        return json.dumps(reader.read().document(), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    return [
        Page("/", "text/html", lambda: render(reader.read()).encode()),
        Page("/status.json", "application/json", document),
        *(_static(name, kind) for name, kind in _STATIC.items()),
    ]


def _static(name: str, kind: str) -> Page:
    content = files("hypersonic.server.observe.status").joinpath("static", name).read_bytes()
    return Page(f"/{name}", kind, content, {**HEADERS, "Cache-Control": "max-age=3600"})


def render(status: Status) -> str:
    """Return the whole page as HTML."""
    title = _text(f"{_title(status.server)}: {status.server.state}")
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
<p id="stale" role="alert" hidden>The server is not answering. This page shows its last known state.</p>
<main>
{_server(status.server, status.models)}
{_models(status.models)}
{_cards(status.cards)}
{_units(status.units)}
</main>
<footer><a href="status.json">this page as JSON</a> <a href="v2">/v2</a> <a href="v2/models/stats">statistics</a></footer>
</body>
</html>
"""


def _title(server: ServerStatus) -> str:
    return f"hypersonic {server.version} (Triton protocol)"


def _server(server: ServerStatus, models: Sequence[ModelStatus]) -> str:
    limit = f" of {_bytes(server.bytes_limit)}" if server.bytes_limit else ""
    facts = (
        ("server id", server.name),
        ("up", _duration(server.uptime_s)),
        ("model versions ready", f"{sum(model.state == 'READY' for model in models):,} of {len(models):,}"),
        ("requests in flight", f"{server.requests_in_flight:,}"),
        ("bytes in flight", f"{_bytes(server.bytes_in_flight)}{limit}"),
        ("connections", _listed(server.connections)),
        ("open streams", f"{server.streams:,}"),
        ("refused calls", _listed(server.calls_refused)),
        ("clients cut off", f"{server.clients_cut_off:,}"),
    )
    listed = "".join(f"<div><dt>{name}</dt><dd>{_text(value)}</dd></div>" for name, value in facts)
    return f"<h1>{_text(_title(server))} {_state(server.state, server.state == 'READY')}</h1>\n<dl>{listed}</dl>"


def _listed(counts: Mapping[str, int]) -> str:
    """Return `0`, or the counts with their names."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items()) or "0"


_MODEL_HEAD = (
    "model", "version", "state", "backend", "inferences/s", "executions/s", "queue, ms", "compute, ms", "waiting",
    "inferences", "failures",
)  # fmt: skip
_CARD_HEAD = ("card", "state", "temperature", "busy", "power", "memory", "xclbin reloads")
_UNIT_HEAD = ("instance", "model", "card", "state", "busy", "runs", "timeouts")


def _models(models: Sequence[ModelStatus]) -> str:
    return _table("models", "Models", _MODEL_HEAD, 4, (_model_row(model) for model in models), "There is no model.")


def _model_row(model: ModelStatus) -> str:
    state = _state(model.state, model.state == "READY")
    if model.fallback:
        state += " " + _state("ON FALLBACK", good=False)
    if model.reason:
        state += f'<span class="reason">{_text(model.reason)}</span>'
    figures = (
        _figure(model.inferences_per_s), _figure(model.executions_per_s), _figure(model.queue_ms, 3),
        _figure(model.compute_ms, 3), f"{model.waiting:,}", f"{model.inferences:,}", f"{model.failures:,}",
    )  # fmt: skip
    return _row(_MODEL_HEAD, [_text(model.name), _text(model.version or _NONE), state, _text(model.backend or _NONE)], figures)


def _cards(cards: Sequence[CardStatus]) -> str:
    """Return the table of cards; nothing on a server without cards."""
    return _table("cards", "Cards", _CARD_HEAD, 3, map(_card_row, cards), "") if cards else ""


def _card_state(card: CardStatus) -> str:
    lost = card.units - card.units_in_service
    if not lost:
        return _state("IN SERVICE" if card.units else "FREE", good=True)
    return _state(f"{lost} OF {card.units} UNITS LOST" if card.units_in_service else "LOST", good=False)


def _card_row(card: CardStatus) -> str:
    hottest = sorted(card.temperatures_c.items(), key=lambda item: -item[1])
    temperature = "<br>".join(f"{_text(sensor.replace('_', ' '))} {celsius:.0f} °C" for sensor, celsius in hottest) or _NONE
    power = _NONE if card.power_w is None else f"{card.power_w:.0f} W"
    if card.power_w is not None and card.power_limit_w is not None:
        power += f" of {card.power_limit_w:.0f} W"
    memory = _NONE if card.memory_bytes is None else f"{_bytes(card.held_bytes)} of {_bytes(card.memory_bytes)}"
    reloads = _NONE if card.xclbin_reloads is None else f"{card.xclbin_reloads:,}"
    badge = ' <span class="state simulated">SIMULATED</span>' if card.simulated else ""
    name = f'{_text(card.name)}{badge}<span class="reason">{_text(card.gpu_uuid)}</span>'
    return _row(_CARD_HEAD, [name, _card_state(card), temperature], (_meter(card.busy), power, memory, reloads))


def _units(units: Sequence[UnitStatus]) -> str:
    return _table("instances", "Compute units and instances", _UNIT_HEAD, 4, map(_unit_row, units), "There is no instance.")


def _unit_row(unit: UnitStatus) -> str:
    card = f'{_text(unit.card)}<span class="reason">{_text(unit.gpu_uuid)}</span>' if unit.card else "host"
    card = "none" if unit.away else card
    words = "AWAY" if unit.away else "IN SERVICE" if unit.in_service else "OUT OF SERVICE"
    state = _state(words, unit.in_service or unit.away)
    if unit.standby:
        state += " standby"
    figures = (_meter(unit.busy), f"{unit.runs:,}", f"{unit.timeouts:,}")
    return _row(_UNIT_HEAD, [_text(unit.name), _text(unit.model), card, state], figures)


def _meter(busy: float | None) -> str:
    return _NONE if busy is None else f'<meter min="0" max="1" value="{busy:.3f}"></meter> {100 * busy:.0f} %'


def _table(name: str, caption: str, head: Sequence[str], texts: int, rows: Iterable[str], nothing: str) -> str:
    """Return a table.

    Args:
        texts: the number of columns before the figures.
        nothing: the text of a table without rows.
    """
    titles = "".join(
        f'<th scope="col"{_class(title, "" if n < texts else _FIGURE)}>{title}</th>' for n, title in enumerate(head)
    )
    body = "\n".join(rows) or f'<tr><td colspan="{len(head)}">{nothing}</td></tr>'
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table id="{name}">'
        f"<caption>{caption}</caption><thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


_FIGURE = "figure"


def _row(head: Sequence[str], texts: Sequence[str], figures: Sequence[str]) -> str:
    """Return a row of cells, all of them markup already.

    Args:
        head: the titles that a narrow screen shows in front of each cell.
    """
    first, *rest = texts
    cells = [(text, "") for text in rest] + [(figure, _FIGURE) for figure in figures]
    row = "".join(
        f'<td{_class(text, kind)} data-head="{title}">{text}</td>' for title, (text, kind) in zip(head[1:], cells, strict=True)
    )
    return f'<tr><th scope="row">{first}</th>{row}</tr>'


def _class(text: str, kind: str) -> str:
    """Return the class attribute; cells without a value are hidden on a narrow screen."""
    names = [kind] if kind else []
    names += ["none"] if text == _NONE else []
    return f' class="{" ".join(names)}"' if names else ""


def _state(text: str, good: bool) -> str:
    return f'<span class="state {"good" if good else "bad"}">{_text(text)}</span>'


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
