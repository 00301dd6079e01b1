# SPDX-License-Identifier: Apache-2.0
# The types of the lazily imported names of __init__.py, in a stub because those modules import `hypersonic` themselves.
from hypersonic.building.csim import build_csim as build_csim
from hypersonic.building.model import build as build
from hypersonic.client import AsyncClient as AsyncClient
from hypersonic.client import Client as Client
from hypersonic.firmware.publish.manifest import Manifest as Manifest
from hypersonic.firmware.xclbin.container import Xclbin as Xclbin
from hypersonic.hls.csim.compiled import Csim as Csim
from hypersonic.hls.fixed import FixedPoint as FixedPoint
from hypersonic.host.device import Device as Device
from hypersonic.host.opening import open_device as open_device
from hypersonic.server_process import start_server as start_server

__version__: str
__all__: list[str]
