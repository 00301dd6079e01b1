# SPDX-License-Identifier: Apache-2.0
"""Load tests of running servers: closed and open loops, their figures, and the fit of latency against concurrency.

::

    Closed, Open, Window        the load that is offered, and for how long it is measured
    random_requests             random rows for the inputs of a model
    measure, sweep              offer one load, or several in turn, and return the Point of each
    fit_saturation, Saturation  unloaded latency, saturation rate and N* of a closed loop
    CsvWriter, write_points     a CSV file
    picture.draw                a picture; needs matplotlib, and is imported only where something is drawn

The fit of four closed loops::

    with Client("localhost:8001", load_settings()) as client:
        model = client.model("facile")
        requests = random_requests(model.spec, rows=16, seed=1)
        points = list(sweep(client, model, requests, [Closed(n) for n in (1, 2, 4, 8)], Window(duration_s=5)))
        print(fit_saturation(points))
"""

from __future__ import annotations

from hypersonic.client.load.errors import LoadError
from hypersonic.client.load.fit import Saturation, fit_saturation
from hypersonic.client.load.loops import load_settings, measure, sweep
from hypersonic.client.load.offer import Closed, Offer, Open, Window
from hypersonic.client.load.point import Point, ServerMeans
from hypersonic.client.load.rows import random_requests
from hypersonic.client.load.table import CsvWriter, write_points

__all__ = [
    "Closed", "CsvWriter", "LoadError", "Offer", "Open", "Point", "Saturation", "ServerMeans", "Window", "fit_saturation",
    "load_settings", "measure", "random_requests", "sweep", "write_points",
]  # fmt: skip
