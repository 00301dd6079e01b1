# SPDX-License-Identifier: Apache-2.0
"""The metrics page of a server, as text."""

from __future__ import annotations


def page(model: str = "facile", *, requests: int = 100, mean_us: float = 150.0, rows: int = 16_000) -> str:
    """A page with one model, whose requests are an execution each, between 100 and 200 microseconds."""
    labels = f'gpu_uuid="GPU-0",model="{model}",version="1"'
    name = "nv_inference_compute_infer_duration_histogram_us"
    buckets = {"100": 0, "200": requests, "500": requests, "+Inf": requests}
    return "\n".join(
        (
            f"# TYPE {name} histogram",
            *(f'{name}_bucket{{{labels},le="{bound}"}} {count}' for bound, count in buckets.items()),
            f"{name}_sum{{{labels}}} {mean_us * requests}",
            f"{name}_count{{{labels}}} {requests}",
            f"nv_inference_request_success{{{labels}}} {requests}",
            f"nv_inference_exec_count{{{labels}}} {requests}",
            f"nv_inference_count{{{labels}}} {rows * requests}",
            f"nv_inference_compute_input_duration_us{{{labels}}} {120 * requests}",
            f"nv_inference_compute_output_duration_us{{{labels}}} {30 * requests}",
            "",
        )
    )
