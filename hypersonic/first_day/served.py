# SPDX-License-Identifier: Apache-2.0
"""The last step: the server with the model, and clients that compare every answer with csim."""

from __future__ import annotations

from hypersonic.events.infer import infer
from hypersonic.events.outcome import OnCard
from hypersonic.first_day.day import Day, find_build, kernel_mhz
from hypersonic.own.task import own_data
from hypersonic.server_process import start_server

#: events that clients send, and the clients
EVENTS, CLIENTS = 100, 4


def run_server(day: Day) -> None:
    """Serve the model and send events. Raises ServerError, WrongAnswerError, ClientError."""
    built, log = find_build(day, day.model), list[str]()
    name = built.manifest.model
    options = ("--model-control-mode=explicit", f"--load-model={name}")
    day.record.say(f"hypersonic serve --model-repository {day.repository} {' '.join(options)}")
    try:
        with start_server(day.repository, *options, log=log) as server:
            outcome = infer(
                day.model,
                url=server.grpc,
                metrics_url=f"http://{server.metrics}/metrics",
                events=EVENTS,
                clients=CLIENTS,
                seed=1,
                check=True,
                progress=lambda _: None,
                on=OnCard(day.platform.name, day.network_gbps, kernel_mhz(day, built)),
                data=own_data(day.model, day.rows, None),
            )
    finally:
        day.record.files["server.log"] = "\n".join(log)
    day.record.files["figures.json"] = outcome.figures()
    day.record.say(f"{outcome.compared:,} answers equal csim; {outcome.clocks_per_event:,.0f} clocks per event")
    day.record.say(f"{outcome.load.events_per_s:,.1f} events/s to {CLIENTS} clients, {day.where}")
    if outcome.rate:
        limit = outcome.rate.binding
        day.record.say(day.predicted(f"at most {limit.events_per_s:,.0f} events/s, limited by the {limit.part}: {limit}"))
